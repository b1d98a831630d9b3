//! `memcached-operator`: runs the charts in watches.yaml and the native controllers below under one manager.

use std::process::ExitCode;

use helm_operator::Operator;
use memcached_operator::api::memcached_backup::MemcachedBackup;
use memcached_operator::controllers::memcached_backup;

fn main() -> ExitCode {
    Operator::new().crd::<MemcachedBackup>().native(memcached_backup::Controller).main()
}
