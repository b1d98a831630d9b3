//! `memcached-operator`: runs the charts in watches.yaml and the native controllers below under one manager.

use std::process::ExitCode;

use memcached_operator::controllers::memcached_backup;

fn main() -> ExitCode {
    helm_operator::cli::main_with(vec![Box::new(memcached_backup::Controller)])
}
