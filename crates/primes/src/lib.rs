#![doc = include_str!("../README.md")]

// On other processors, this crate supports no vector unit, so the module is unused.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports, unused_variables))]
mod lanes;
mod miller_rabin;
mod montgomery;
mod search;
mod sieve;

pub use getrandom::Error;
pub use miller_rabin::is_probable_prime;
pub use search::{first_prime, random_bits, random_prime};
