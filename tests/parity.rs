//! Compares the operator's live objects with Helm's, and plans with the writes that follow, for the most revealing
//! charts; `make parity` and `make plans` compare all of them.

use std::time::Duration;

use parity::{corpus, planned};
use test_cluster::{Binaries, Processes};

/// Charts that cover objects which server-side apply rejects, differences of three-way merges, and text that is easily
/// corrupted.
const CHARTS: [&str; 6] =
    ["duplicate-keys", "kept", "null-in-custom-resource", "recreate-null", "text", "undeclared-fields"];

/// Charts with a Deployment and a Service, and with objects that stay.
const PLANNED: [&str; 2] = ["kept", "lists"];

/// Returns whether control planes can be started, which the comparison needs.
fn can_start() -> bool {
    match Binaries::find(Processes::All) {
        Ok(Binaries::Folder(folder)) => folder.join("helm").is_file(),
        Ok(Binaries::Existing(_)) => false,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            false
        }
    }
}

/// Returns our own charts of these names. Prints that the test is skipped if no control plane can start.
fn charts(names: &[&str]) -> Option<Vec<corpus::Chart>> {
    if !can_start() {
        eprintln!("skipped: no binaries to start; `make cluster` builds them");
        return None;
    }
    let mut charts = corpus::own(&parity::own_charts()).unwrap();
    charts.retain(|chart| names.contains(&chart.name.as_str()));
    Some(charts)
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_leave_the_same_objects_as_with_helm() {
    let Some(charts) = charts(&CHARTS) else { return };
    let options = parity::Options {
        charts,
        operator: env!("CARGO_BIN_EXE_memcached-operator").into(),
        known: parity::known::OURS.to_owned(),
        limit: Duration::from_secs(300),
    };
    let report = parity::run(&options).await.unwrap();
    assert!(report.passed(), "{}", report.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_name_every_write_and_field_of_all_changes() {
    let Some(charts) = charts(&PLANNED) else { return };
    let options = planned::Options {
        charts,
        wanted: PLANNED.len(),
        operator: env!("CARGO_BIN_EXE_memcached-operator").into(),
        limit: Duration::from_secs(300),
    };
    let report = planned::run(&options).await.unwrap();
    assert!(report.passed() && report.whole() == PLANNED.len(), "{}", report.text());
}
