#![doc = include_str!("../README.md")]

pub mod cache;
pub mod clock;
pub mod glob;
pub mod math;
pub mod path_match;
pub mod processor_time;
pub mod regex;
pub mod semver;
pub mod shorten;
pub mod strconv;
pub mod time;
pub mod unicode;
pub mod utf8;
pub mod work;
