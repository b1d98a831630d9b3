//! The kinds that Rust serves, one file each.

pub(crate) mod memcached_backup;
