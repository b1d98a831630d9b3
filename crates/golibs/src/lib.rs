//! What Go's standard library, and the libraries that Helm builds on, do with plain text and numbers, where no crate does exactly the same.

pub mod glob;
pub mod path_match;
pub mod processor_time;
pub mod regex;
pub mod semver;
pub mod strconv;
pub mod time;
pub mod unicode;
pub mod work;

#[cfg(test)]
mod vectors;
