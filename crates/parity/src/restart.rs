//! Checks that neither new kinds nor an operator restart create a revision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::{Value, json};

use crate::corpus::Chart;
use crate::operator::Operator;
use crate::walk::Installer as _;

/// The result of the check.
#[derive(Debug, Default)]
pub(crate) struct Restart {
    /// Number of releases deployed before the restart.
    pub(crate) releases: usize,
    /// New or changed records, as chart and record name.
    pub(crate) changed: Vec<(String, String)>,
}

/// Installs each chart into its own namespace, creates three kinds, restarts the operator, and waits until it has
/// reconciled every chart. Skips charts that fail to install, for example because another release owns a cluster-scoped
/// object.
pub(crate) async fn restart(operator: &Operator<'_>, charts: &[&Chart]) -> anyhow::Result<Restart> {
    let mut deployed: BTreeMap<String, &Chart> = BTreeMap::new();
    for (index, chart) in charts.iter().enumerate() {
        let namespace = format!("restart-{index}");
        operator.plane().add_namespace(&namespace).await?;
        operator.set(chart, &chart.cases[0], &namespace).await?;
        if operator.outcome(chart, &namespace).await?.is_done() {
            deployed.insert(namespace, chart);
        }
    }
    let before = records(operator, &deployed).await?;
    operator.plane().add_crds(&new_kinds()).await?;
    operator.restart().await?;
    wait_for_all(operator, deployed.values().copied()).await?;
    let after = records(operator, &deployed).await?;
    Ok(Restart { releases: deployed.len(), changed: changed(&before, &after, &deployed) })
}

type Records = BTreeMap<(String, String), String>;

/// Returns the status of the deployed releases' records, by namespace and name.
async fn records(operator: &Operator<'_>, deployed: &BTreeMap<String, &Chart>) -> anyhow::Result<Records> {
    let all = operator.plane().records().await?;
    Ok(all.into_iter().filter(|((namespace, _), _)| deployed.contains_key(namespace)).collect())
}

fn changed(before: &Records, after: &Records, deployed: &BTreeMap<String, &Chart>) -> Vec<(String, String)> {
    let all: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differ = all.into_iter().filter(|key| before.get(*key) != after.get(*key));
    let describe = |(namespace, name): &(String, String)| {
        let chart = deployed.get(namespace).map(|chart| chart.name.clone()).unwrap_or_default();
        (chart, name.clone())
    };
    differ.map(describe).collect()
}

/// Waits until every controller has finished a reconcile since the restart.
async fn wait_for_all(operator: &Operator<'_>, charts: impl Iterator<Item = &Chart>) -> anyhow::Result<()> {
    let controllers = charts.map(|chart| operator.controller(chart)).collect::<anyhow::Result<Vec<_>>>()?;
    let began = Instant::now();
    loop {
        let counts = operator.reconciles().await?;
        if controllers.iter().all(|controller| counts.get(controller).is_some_and(|count| *count > 0)) {
            return Ok(());
        }
        operator.wait(began, "every chart to be reconciled after the restart").await?;
    }
}

/// Returns three CRDs, to change `.Capabilities.APIVersions`.
fn new_kinds() -> Vec<Value> {
    let kind = |group: &str, kind: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
    };
    vec![kind("new.example.com", "First"), kind("new.example.com", "Second"), kind("other.example.com", "Third")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_deleted_and_changed_records_are_reported_with_their_chart() {
        let chart = Chart { name: "c".into(), folder: "f".into(), cases: Vec::new() };
        let deployed = BTreeMap::from([("ns".to_owned(), &chart)]);
        let records = |all: &[(&str, &str)]| -> Records {
            all.iter().map(|(name, status)| (("ns".to_owned(), (*name).to_owned()), (*status).to_owned())).collect()
        };
        let before = records(&[("v1", "superseded"), ("v2", "deployed"), ("v3", "x")]);
        let after = records(&[("v1", "superseded"), ("v2", "superseded"), ("v4", "deployed")]);
        let reported: Vec<String> =
            changed(&before, &after, &deployed).into_iter().map(|(c, r)| format!("{c} {r}")).collect();
        assert_eq!(reported, ["c v2", "c v3", "c v4"]);
        assert!(changed(&before, &before, &deployed).is_empty());
    }
}
