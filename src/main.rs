//! `memcached-operator`, the reference hybrid operator: a chart serves Memcached (watches.yaml), Rust serves MemcachedBackup.
//!
//! One crate without a library: a saved line is compiled and linked once.

mod api;
mod controllers;

use std::process::ExitCode;

use helm_operator::Operator;

fn main() -> ExitCode {
    Operator::new()
        .crd::<api::memcached_backup::MemcachedBackup>()
        .reconciler(controllers::memcached_backup::Controller)
        .main()
}
