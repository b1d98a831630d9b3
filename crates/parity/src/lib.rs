//! Checks that a chart's objects are the same whether Helm or the operator installs it.
//!
//! Each chart is installed on three API servers under the same name and namespace: by `helm install
//! --server-side=false`, by plain `helm install`, and through a custom resource that the operator serves. Its next case
//! is an upgrade, and finally it is uninstalled. Everything on the API servers is compared after each step. Hooks are
//! disabled everywhere: they need controllers, and have separate tests.
//!
//! ```text
//! charts ─▶ walk with three installers ─▶ snapshots ─▶ compare ─▶ differences ─▶ minus known ones ─▶ report
//!                                                         └ on a difference: Helm again, to find random places
//! ```

pub mod compare;
pub mod corpus;
pub mod known;
pub mod live;
pub mod outcome;
pub mod planned;
pub mod random;

mod helm_cli;
mod kinds;
mod operator;
mod plane;
mod report;
mod restart;
mod run;
mod walk;

use std::path::PathBuf;

pub use report::Report;
pub use run::{Options, run};

/// Returns the directory of this repository's own charts.
pub fn own_charts() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/own"))
}
