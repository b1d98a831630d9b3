//! The reference hybrid operator: a chart serves Memcached (watches.yaml), Rust serves MemcachedBackup.

pub mod api;
pub mod controllers;
