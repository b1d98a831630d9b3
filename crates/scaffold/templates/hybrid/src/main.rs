//! `__project__`: runs the charts in watches.yaml and the native controllers below under one manager.
//!
//! `api` holds the kinds that Rust serves, `controllers` their reconcilers.

mod api;
mod controllers;

use std::process::ExitCode;

fn main() -> ExitCode {
    helm_operator::Operator::new()
        // What a chart can't do goes here: .chart("Kind", |chart| chart.map_values(…).before(…).after(…))
        // +kubebuilder:scaffold:builder
        .main()
}
