//! `helm-operator`: serves charts only. Replaces operator-sdk's program of this name.

use std::process::ExitCode;

fn main() -> ExitCode {
    helm_operator::Operator::new().main()
}
