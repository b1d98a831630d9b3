//! `helm-operator` serves only charts. It replaces operator-sdk's program of this name.

use std::process::ExitCode;

fn main() -> ExitCode {
    helm_operator::Operator::new().main()
}
