//! The reference hybrid operator: Memcached by a chart (watches.yaml), MemcachedBackup by Rust.

pub mod api;
pub mod controllers;
