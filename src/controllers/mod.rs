//! The Rust reconcilers, one directory each.

pub(crate) mod memcached_backup;
