//! The memcached tutorial in Rust: keeps a Deployment of memcached at a size, and lists the pods in the status.

use std::process::ExitCode;

use helm_operator::Operator;

fn main() -> ExitCode {
    Operator::new().native(memcached_native::Controller).main()
}
