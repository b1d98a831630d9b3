//! The kinds that are served by Rust, one file each.

pub mod memcached_backup;
