//! Shows a release's revisions, each with why it was made, as far as its record says.

use jiff::Timestamp;
use serde::Serialize;

use crate::reconcile::steps::causes;

/// A revision as its record was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeenRevision {
    pub(crate) revision: u32,
    /// Helm's status: `deployed`.
    pub(crate) status: String,
    /// `shop-0.2.0`.
    pub(crate) chart: String,
    pub(crate) app_version: String,
    pub(crate) updated: Option<Timestamp>,
    /// Helm's one line about it.
    pub(crate) description: String,
    /// The revision that it repeats.
    pub(crate) rolled_back_to: Option<u32>,
    /// The digests of its inputs; empty if they are not recorded, `None` if this operator did not write the record.
    pub(crate) inputs: Option<String>,
    /// How many objects it created, changed and deleted; empty if that is not recorded.
    pub(crate) did: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Revision {
    pub(crate) revision: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) updated: Option<Timestamp>,
    pub(crate) status: String,
    pub(crate) chart: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) app_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) description: String,
    /// What it did: `+1 ~2 -0`; empty if that is not recorded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) did: String,
    /// Why it was made; empty if that is not recorded.
    pub(crate) cause: String,
}

/// Returns the revisions with their causes, newest first. `seen` is sorted, oldest first.
pub(crate) fn revisions(seen: &[SeenRevision]) -> Vec<Revision> {
    let of = |(at, one): (usize, &SeenRevision)| Revision {
        revision: one.revision,
        updated: one.updated,
        status: one.status.clone(),
        chart: one.chart.clone(),
        app_version: one.app_version.clone(),
        description: one.description.clone(),
        did: one.did.clone(),
        cause: cause(one, &seen[..at]),
    };
    seen.iter().enumerate().map(of).rev().collect()
}

fn cause(one: &SeenRevision, earlier: &[SeenRevision]) -> String {
    if let Some(to) = one.rolled_back_to {
        let failed = earlier.last().filter(|last| last.status == "failed");
        let why = failed.map(|failed| format!(", because revision {} failed", failed.revision)).unwrap_or_default();
        return format!("rolled back to revision {to}{why}");
    }
    let Some(inputs) = &one.inputs else { return "made with helm".to_owned() };
    if one.revision == 1 {
        return "installed".to_owned();
    }
    // The changes of a failed revision did not stay.
    let Some(base) = earlier.iter().rev().find(|other| ["deployed", "superseded"].contains(&&*other.status)) else {
        return String::new();
    };
    match &base.inputs {
        None => format!("replaces revision {}, which was made with helm", base.revision),
        Some(recorded) if inputs.is_empty() || recorded.is_empty() => chart_change(base, one),
        Some(recorded) => causes::between((recorded, &base.chart), (inputs, &one.chart)).join(", "),
    }
}

fn chart_change(base: &SeenRevision, one: &SeenRevision) -> String {
    let is_known = !base.chart.is_empty() && !one.chart.is_empty() && base.chart != one.chart;
    if is_known { format!("chart {} → {}", base.chart, one.chart) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(revision: u32, status: &str, chart: &str, inputs: Option<&str>) -> SeenRevision {
        let (status, chart, inputs) = (status.to_owned(), chart.to_owned(), inputs.map(str::to_owned));
        SeenRevision { revision, status, chart, inputs, ..SeenRevision::default() }
    }

    #[test]
    fn each_revision_names_the_input_that_made_it() {
        let mut all = vec![
            seen(1, "superseded", "shop-1", Some("2:a.own.chart=1,overrides=1")),
            seen(2, "superseded", "shop-1", Some("2:b.other.chart=1,overrides=1")),
            seen(3, "superseded", "shop-2", Some("2:c.other.chart=2,overrides=1")),
            seen(4, "failed", "shop-2", Some("")),
            SeenRevision {
                rolled_back_to: Some(3),
                ..seen(5, "superseded", "shop-2", Some("2:c.other.chart=2,overrides=1"))
            },
            seen(6, "superseded", "shop-2", None),
            seen(7, "deployed", "shop-2", Some("2:d.other.chart=3,overrides=2")),
        ];
        let causes: Vec<String> = revisions(&all).into_iter().rev().map(|one| one.cause).collect();
        let expected = [
            "installed",
            "spec changed",
            "chart shop-1 → shop-2",
            "",
            "rolled back to revision 3, because revision 4 failed",
            "made with helm",
            "replaces revision 6, which was made with helm",
        ];
        assert_eq!(causes, expected);
        all.remove(5);
        assert_eq!(revisions(&all)[0].cause, "the operator's override values changed");
    }
}
