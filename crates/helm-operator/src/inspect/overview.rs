//! Shows many releases, one line each, those that need people most first; and for each kind how many are ready.

use jiff::Timestamp;
use serde::Serialize;

use super::build::name;
use super::cause::first_cause;
use super::model::{CauseKind, Name, State};
use super::seen::Seen;
use super::state::state;
use crate::view::primary::Received;

/// A release in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    pub(crate) resource: Name,
    pub(crate) state: State,
    /// The deployed revision; 0 without one.
    pub(crate) revision: u32,
    pub(crate) chart: String,
    /// How many objects are ready: `3/4`.
    pub(crate) objects: String,
    /// Why it is not ready, or what it is if it is.
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<CauseKind>,
}

/// The resources of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KindSummary {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) ready: usize,
    pub(crate) total: usize,
    /// Why they could not be listed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) error: String,
    /// The releases that are not ready, worst first.
    pub(crate) unready: Vec<Line>,
}

/// Returns the line of a resource, from the resource alone.
pub(crate) fn line(resource: Received, now: Timestamp) -> Line {
    let state = state(&resource, now);
    let seen = Seen::resource_alone(resource);
    let cause = first_cause(&seen, state, now);
    let status = &seen.resource.primary.status;
    let ready = || status.find(crate::status::condition::READY).map(|ready| ready.message.to_string());
    let release = status.deployed_release.as_ref();
    Line {
        resource: name(&seen.resource.primary),
        state,
        revision: release.map_or(0, |release| release.revision),
        chart: release.map(|release| release.chart.to_string()).unwrap_or_default(),
        objects: status.ready_objects.to_string(),
        message: cause.as_ref().map(|cause| cause.message.clone()).or_else(ready).unwrap_or_default(),
        cause: cause.map(|cause| cause.kind),
    }
}

/// Sorts releases, the worst first, and those of one state by namespace and name.
pub(crate) fn sort(lines: &mut [Line]) {
    lines.sort_by(|a, b| {
        let place = |line: &Line| (line.state, line.resource.namespace.clone(), line.resource.name.clone());
        place(a).cmp(&place(b))
    });
}

/// Returns the summary of a kind.
pub(crate) fn kind((group, kind): (&str, &str), mut lines: Vec<Line>) -> KindSummary {
    sort(&mut lines);
    let total = lines.len();
    lines.retain(|line| line.state != State::Ready);
    KindSummary {
        group: group.to_owned(),
        kind: kind.to_owned(),
        ready: total - lines.len(),
        total,
        error: String::new(),
        unready: lines,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(name: &str, ready: &str, reason: &str) -> Received {
        let conditions = json!([
            {"type": "Initialized", "status": "True", "reason": "Served"},
            {"type": "Ready", "status": ready, "reason": reason, "message": format!("{name} is so")},
        ]);
        let status = json!({
            "observedGeneration": 1, "conditions": conditions, "readyObjects": "3/4",
            "deployedRelease": {"name": name, "revision": 2, "chart": "shop-0.2.0"},
        });
        let metadata = json!({"name": name, "namespace": "ns", "generation": 1});
        let object = json!({"apiVersion": "g/v1", "kind": "Shop", "metadata": metadata, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_worst_release_comes_first_and_a_kind_counts_the_ready_ones() {
        let all = [("b", "True", "Ready"), ("a", "False", "Progressing"), ("c", "True", "Ready")];
        let lines = all.map(|(name, ready, reason)| line(resource(name, ready, reason), Timestamp::UNIX_EPOCH));
        let mut sorted = lines.to_vec();
        sort(&mut sorted);
        let names: Vec<&str> = sorted.iter().map(|line| line.resource.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!((&*sorted[0].message, &*sorted[0].chart, sorted[0].revision), ("a is so", "shop-0.2.0", 2));
        let kind = kind(("g", "Shop"), lines.to_vec());
        assert_eq!((kind.ready, kind.total, kind.unready.len()), (2, 3, 1));
    }
}
