//! The reverse-words tutorial in Rust: a Deployment and a LoadBalancer for each `ReverseWordsApp`.

mod api;
mod controller;
mod news;
mod objects;
mod status;

use std::process::ExitCode;

use helm_operator::Operator;

fn main() -> ExitCode {
    Operator::new().crd::<api::ReverseWordsApp>().reconciler(controller::Controller).main()
}
