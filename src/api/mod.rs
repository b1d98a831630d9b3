//! The kinds that Rust serves, one file each.

pub mod memcached_backup;
