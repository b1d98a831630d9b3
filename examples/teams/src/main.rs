//! Two kinds in Rust: a cluster-scoped `Team` owns a `Workspace` in each of its namespaces, and a `Workspace` owns what its team gets there.
//! Webhooks check both, and convert teams between two versions.

mod api;
mod team;
mod v2;
mod webhooks;
mod workspace;

use std::process::ExitCode;

use helm_operator::Operator;

fn main() -> ExitCode {
    Operator::new()
        .crd::<api::Team>()
        .crd::<v2::Team>()
        .crd::<api::Workspace>()
        .reconciler(team::Controller)
        .reconciler(workspace::Controller)
        .webhooks(webhooks::all())
        .main()
}
