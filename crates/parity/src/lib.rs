//! Are a chart's objects the same whether Helm installs it or the operator does?
//!
//! Each chart goes, under the same name into the same namespace, to three API servers: by `helm install --server-side=false`, by plain
//! `helm install`, and by a custom resource that the operator serves. Then its next case is an upgrade, and last it is uninstalled. After
//! each step everything that the API servers hold is compared. Hooks are left out on all sides: they need controllers and have tests of
//! their own.
//!
//! ```text
//! charts ─▶ walk by three ways ─▶ what was seen ─▶ compare ─▶ differences ─▶ known ones named ─▶ report
//!                                                     └ where they differ: Helm once more, to see what is random in it
//! ```

pub mod compare;
pub mod corpus;
pub mod known;
pub mod live;
pub mod outcome;
pub mod random;

mod helm_way;
mod kinds;
mod operator_way;
mod plane;
mod report;
mod restart;
mod run;
mod walk;

use std::path::PathBuf;

pub use report::Report;
pub use run::{Options, run};

/// The folder of the project's own charts.
#[must_use]
pub fn own_charts() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/own"))
}
