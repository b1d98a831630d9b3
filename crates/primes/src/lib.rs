//! Large random primes for RSA and DSA keys. A crate of its own so that it is optimised in debug builds, too.
//!
//! Not constant-time: for keys that are made once and handed out, not for a service that can be timed.

// Other processors have no unit for it yet, and use none of the code.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_variables))]
mod lanes;
mod miller_rabin;
mod montgomery;
mod search;
mod sieve;

pub use getrandom::Error;
pub use miller_rabin::is_probable_prime;
pub use search::{first_prime, random_bits, random_prime};
