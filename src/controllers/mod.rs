//! The reconcilers in Rust, one folder each.

pub mod memcached_backup;
