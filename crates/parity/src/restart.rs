//! After new kinds have appeared and the operator was started again, no release has a new revision.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::{Value, json};

use crate::corpus::Chart;
use crate::operator_way::Operator;
use crate::walk::Way as _;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Restart {
    /// How many releases were deployed before.
    pub(crate) releases: usize,
    /// Records that are new or changed: chart and record.
    pub(crate) changed: Vec<(String, String)>,
}

/// Installs each chart into a namespace of its own, makes three kinds, restarts the operator, and waits until it has looked at every one.
/// What one release holds of the cluster's scope may keep another from being installed; that one is left out.
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

/// The records of the deployed releases, by namespace and name.
async fn records(operator: &Operator<'_>, deployed: &BTreeMap<String, &Chart>) -> anyhow::Result<Records> {
    let all = operator.plane().records().await?;
    Ok(all.into_iter().filter(|((namespace, _), _)| deployed.contains_key(namespace)).collect())
}

fn changed(before: &Records, after: &Records, deployed: &BTreeMap<String, &Chart>) -> Vec<(String, String)> {
    let all: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differ = all.into_iter().filter(|key| before.get(*key) != after.get(*key));
    let tell = |(namespace, name): &(String, String)| {
        let chart = deployed.get(namespace).map(|chart| chart.name.clone()).unwrap_or_default();
        (chart, name.clone())
    };
    differ.map(tell).collect()
}

/// Every controller has reconciled since the start, and none is still at it: the counts stand still.
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

/// Kinds that charts look for in `.Capabilities.APIVersions`, and one that nobody knows.
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
    fn new_gone_and_changed_records_are_told_with_their_chart() {
        let chart = Chart { name: "c".into(), folder: "f".into(), cases: Vec::new() };
        let deployed = BTreeMap::from([("ns".to_owned(), &chart)]);
        let records = |all: &[(&str, &str)]| -> Records {
            all.iter().map(|(name, status)| (("ns".to_owned(), (*name).to_owned()), (*status).to_owned())).collect()
        };
        let before = records(&[("v1", "superseded"), ("v2", "deployed"), ("v3", "x")]);
        let after = records(&[("v1", "superseded"), ("v2", "superseded"), ("v4", "deployed")]);
        let told: Vec<String> =
            changed(&before, &after, &deployed).into_iter().map(|(c, r)| format!("{c} {r}")).collect();
        assert_eq!(told, ["c v2", "c v3", "c v4"]);
        assert!(changed(&before, &before, &deployed).is_empty());
    }
}
