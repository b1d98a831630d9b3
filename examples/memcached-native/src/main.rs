//! The memcached tutorial in Rust: keeps a Deployment of memcached at a size, and lists the pods in the status.

mod api;
mod controller;
mod deployment;

use std::process::ExitCode;

use helm_operator::Operator;

fn main() -> ExitCode {
    Operator::new().crd::<api::Memcached>().reconciler(controller::Controller).main()
}
