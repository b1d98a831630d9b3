//! The Rust reconcilers, one directory each.

pub mod memcached_backup;
