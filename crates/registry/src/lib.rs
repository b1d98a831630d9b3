#![doc = include_str!("../README.md")]

mod cache;
mod client;
mod credentials;
mod digest;
mod error;
mod fetch;
mod location;
mod manifest;
mod signature;
#[cfg(test)]
mod tests;
mod wanted;

pub use cache::Cache;
pub use client::Hop;
pub use digest::Digest;
pub use error::Error;
pub use fetch::{Access, Fetched, Source};
pub use location::{Location, LocationError, name_of};
pub use signature::{Key, KeyError};
pub use wanted::{Wanted, WantedError};

/// The maximum size of a packed chart, in bytes. Every release record has to hold its chart, so real ones are far
/// smaller.
pub const MAX_ARCHIVE_BYTES: u64 = 16 << 20;
