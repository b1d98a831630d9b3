//! The overview: a table for each kind, what fails first. Its JSON is that of the page. Pure.

use jiff::Timestamp;
use serde::Serialize;

use super::address::Filter;
use crate::inspect::model::State;
use crate::inspect::overview::{Line, line};
use crate::status::condition;
use crate::view::primary::{Primary, Received};

/// The maximum number of releases in an overview, which the kinds share.
pub(crate) const MAX_ROWS: usize = 1000;

/// The releases that a caller may see.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    pub(crate) filter: Filter,
    /// Whether the process has listed everything that it serves.
    pub(crate) complete: bool,
    pub(crate) kinds: Vec<Table>,
}

/// The releases of a kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Table {
    pub(crate) group: String,
    pub(crate) kind: String,
    /// How many of the selected releases are ready.
    pub(crate) ready: usize,
    /// How many releases are selected.
    pub(crate) total: usize,
    /// How many of them are not shown.
    pub(crate) omitted: usize,
    /// The worst first; those of one state by reason.
    pub(crate) releases: Vec<Row>,
}

/// A release.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) line: Line,
    /// The reason of `Ready`.
    pub(crate) reason: String,
    /// When the resource was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Timestamp>,
}

/// Returns the row of a resource.
pub(crate) fn row(primary: &Primary, now: Timestamp) -> Row {
    let ready = primary.status.find(condition::READY);
    let mut line = line(Received::known(primary), now);
    line.resource.namespace = primary.own_namespace().to_owned();
    Row { line, reason: ready.map(|ready| ready.reason.to_string()).unwrap_or_default(), created: created(primary) }
}

/// Returns the creation time of a resource; `None` if it is unknown.
pub(crate) fn created(primary: &Primary) -> Option<Timestamp> {
    Timestamp::from_second(primary.created as i64).ok().filter(|time| *time != Timestamp::UNIX_EPOCH)
}

/// Returns the table of a kind with the rows that the filter selects.
pub(crate) fn table((group, kind): (&str, &str), mut rows: Vec<Row>, filter: &Filter) -> Table {
    rows.retain(|Row { line, reason, .. }| {
        let name = format!("{}/{}", line.resource.namespace, line.resource.name);
        filter.finds(&[&name, &line.chart, reason, &line.message])
    });
    rows.sort_by(|a, b| key(a).cmp(&key(b)));
    let ready = rows.iter().filter(|row| row.line.state == State::Ready).count();
    Table { group: group.to_owned(), kind: kind.to_owned(), ready, total: rows.len(), omitted: 0, releases: rows }
}

fn key(row: &Row) -> (State, &str, &str, &str) {
    (row.line.state, &row.reason, &row.line.resource.namespace, &row.line.resource.name)
}

/// Sorts kinds, and leaves out what is beyond the limit.
pub(crate) fn overview(filter: Filter, complete: bool, mut kinds: Vec<Table>) -> Overview {
    kinds.sort_by(|a, b| (&a.kind, &a.group).cmp(&(&b.kind, &b.group)));
    let most = MAX_ROWS / kinds.len().max(1);
    for table in &mut kinds {
        table.omitted = table.total.saturating_sub(most);
        table.releases.truncate(most);
    }
    Overview { filter, complete, kinds }
}

/// Divides rows by state and reason, in their order.
pub(crate) fn groups(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| (a.line.state, &a.reason) == (b.line.state, &b.reason))
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a resource with this status and reason of `Ready`.
    pub(crate) fn primary(namespace: &str, name: &str, (ready, reason): (&str, &str)) -> Primary {
        let conditions = json!([
            {"type": "Initialized", "status": "True", "reason": "Served"},
            {"type": "Ready", "status": ready, "reason": reason, "message": format!("{name} is so")},
        ]);
        let status = json!({
            "observedGeneration": 1, "conditions": conditions, "readyObjects": "3/4",
            "deployedRelease": {"name": name, "revision": 2, "chart": "shop-0.2.0"},
        });
        let metadata = json!({
            "name": name, "namespace": namespace, "generation": 1, "uid": format!("{namespace}-{name}"),
            "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
        });
        let object = json!({"apiVersion": "g.io/v1", "kind": "Shop", "metadata": metadata, "status": status});
        serde_json::from_value::<Received>(object).unwrap().primary
    }

    pub(crate) fn shown(filter: &Filter) -> Table {
        let all = [
            ("a", "True", "Ready"),
            ("b", "False", "Progressing"),
            ("c", "False", "InstallError"),
            ("d", "False", "Progressing"),
        ];
        let rows = all.map(|(name, ready, reason)| row(&primary("ns", name, (ready, reason)), Timestamp::UNIX_EPOCH));
        table(("g.io", "Shop"), rows.to_vec(), filter)
    }

    #[test]
    fn what_is_not_ready_comes_first_and_each_reason_together() {
        let table = shown(&Filter::default());
        assert_eq!((table.ready, table.total), (1, 4));
        let groups: Vec<Vec<&str>> = groups(&table.releases)
            .map(|rows| rows.iter().map(|row| row.line.resource.name.as_str()).collect())
            .collect();
        assert_eq!(groups, [vec!["c"], vec!["b", "d"], vec!["a"]]);
    }

    #[test]
    fn what_the_filter_leaves_out_is_not_counted() {
        let found = |q: &str| {
            let table = shown(&Filter { q: q.into(), ..Filter::default() });
            (table.ready, table.total)
        };
        assert_eq!(found("progress"), (0, 2));
        assert_eq!(found("ns/A"), (1, 1));
        assert_eq!(found("shop-0.2.0"), (1, 4));
        assert_eq!(found("nothing"), (0, 0));
    }

    #[test]
    fn kinds_share_the_limit_and_say_what_is_left_out() {
        let rows = |count: usize| {
            let one = row(&primary("ns", "a", ("True", "Ready")), Timestamp::UNIX_EPOCH);
            vec![one; count]
        };
        let tables = ["B", "A"].map(|kind| table(("g", kind), rows(MAX_ROWS), &Filter::default()));
        let overview = overview(Filter::default(), true, tables.into());
        let seen: Vec<_> =
            overview.kinds.iter().map(|one| (&*one.kind, one.total, one.omitted, one.releases.len())).collect();
        assert_eq!(seen, [("A", 1000, 500, 500), ("B", 1000, 500, 500)]);
    }
}
