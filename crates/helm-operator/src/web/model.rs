//! The overview: a table for each kind, what fails first, grouped by cause. Its JSON is that of the page. Pure.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::Serialize;

use super::address::{Filter, Order};
use crate::inspect::model::{CauseKind, State};
use crate::inspect::overview::{Line, line};
use crate::status::condition;
use crate::view::primary::{Primary, Received};

/// The maximum number of releases in an overview, which the kinds share. Each open page loads them again after a
/// change.
pub(crate) const MAX_ROWS: usize = 500;

/// The releases that a caller may see.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    pub(crate) filter: Filter,
    /// Whether the process has listed everything that it serves.
    pub(crate) complete: bool,
    /// How many of the selected releases are in each state, worst first.
    pub(crate) states: Vec<Count>,
    pub(crate) kinds: Vec<Table>,
}

/// How many releases are in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub(crate) state: State,
    pub(crate) total: usize,
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
    /// How far the rollout of its chart is, if one is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rollout: Option<String>,
    /// In the filter's order: by default the worst first, those of one state by cause and reason.
    pub(crate) releases: Vec<Row>,
    #[serde(skip)]
    states: Vec<Count>,
}

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

/// Returns the table of a kind with the first of the rows that the filter selects. Keeps little more in memory than it
/// shows, regardless of the number of releases, because several people may view it at the same time.
pub(crate) fn table((group, kind): (&str, &str), rows: impl IntoIterator<Item = Row>, filter: &Filter) -> Table {
    let (mut releases, mut ready, mut total, mut states) = (Vec::new(), 0, 0, Vec::new());
    for row in rows.into_iter().filter(|row| is_found(row, filter)) {
        let state = row.line.state;
        // The counts are those of all states, so that each can be chosen.
        count(&mut states, Count { state, total: 1 });
        if filter.state.is_empty() || filter.state.eq_ignore_ascii_case(state.into_str()) {
            (ready, total) = (ready + usize::from(state == State::Ready), total + 1);
            releases.push(row);
            if releases.len() == 2 * MAX_ROWS {
                keep_first(&mut releases, filter.sort);
            }
        }
    }
    keep_first(&mut releases, filter.sort);
    Table { group: group.to_owned(), kind: kind.to_owned(), ready, total, omitted: 0, rollout: None, releases, states }
}

fn is_found(Row { line, reason, .. }: &Row, filter: &Filter) -> bool {
    let name = format!("{}/{}", line.resource.namespace, line.resource.name);
    filter.finds(&[&name, &line.chart, reason, &line.message])
}

fn keep_first(rows: &mut Vec<Row>, order: Order) {
    sort(rows, order);
    rows.truncate(MAX_ROWS);
}

/// Adds to the counts, which stay in the order of the states.
fn count(counts: &mut Vec<Count>, more: Count) {
    match counts.binary_search_by_key(&more.state, |count| count.state) {
        Ok(at) => counts[at].total += more.total,
        Err(at) => counts.insert(at, more),
    }
}

fn sort(rows: &mut [Row], order: Order) {
    fn name(row: &Row) -> (&str, &str) {
        (&row.line.resource.namespace, &row.line.resource.name)
    }
    match order {
        Order::Worst => rows.sort_by(|a, b| (group(a), name(a)).cmp(&(group(b), name(b)))),
        Order::Name => rows.sort_by(|a, b| name(a).cmp(&name(b))),
        Order::Chart => rows.sort_by(|a, b| (&a.line.chart, name(a)).cmp(&(&b.line.chart, name(b)))),
        Order::Revision => {
            rows.sort_by(|a, b| (Reverse(a.line.revision), name(a)).cmp(&(Reverse(b.line.revision), name(b))));
        }
        Order::Age => rows.sort_by(|a, b| (Reverse(a.created), name(a)).cmp(&(Reverse(b.created), name(b)))),
    }
}

/// Returns the key by which releases with the same cause are grouped.
fn group(row: &Row) -> (State, Option<CauseKind>, &str) {
    (row.line.state, row.line.cause, &row.reason)
}

/// Whether everything that the process watches was listed at least once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caches {
    Filling,
    Complete,
}

/// Sorts kinds, and leaves out what is beyond the limit.
pub(crate) fn overview(filter: Filter, caches: Caches, mut kinds: Vec<Table>) -> Overview {
    kinds.sort_by(|a, b| (&a.kind, &a.group).cmp(&(&b.kind, &b.group)));
    let most = MAX_ROWS / kinds.len().max(1);
    let mut states = Vec::new();
    kinds.iter().flat_map(|kind| &kind.states).for_each(|more| count(&mut states, *more));
    for table in &mut kinds {
        table.omitted = table.total.saturating_sub(most);
        table.releases.truncate(most);
    }
    Overview { filter, complete: caches == Caches::Complete, states, kinds }
}

/// Divides rows by state, cause and reason, in their order.
pub(crate) fn groups(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| group(a) == group(b))
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
        table(("g.io", "Shop"), rows, filter)
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
    fn a_state_can_be_chosen_and_the_others_are_still_counted() {
        let table = shown(&Filter { state: "Progressing".into(), ..Filter::default() });
        assert_eq!((table.ready, table.total), (0, 3));
        let overview = overview(Filter::default(), Caches::Complete, vec![table]);
        let counts: Vec<(State, usize)> = overview.states.iter().map(|count| (count.state, count.total)).collect();
        assert_eq!(counts, [(State::Progressing, 3), (State::Ready, 1)]);
    }

    #[test]
    fn rows_are_ordered_as_asked() {
        let names = |sort: Order| -> String {
            let table = shown(&Filter { sort, ..Filter::default() });
            table.releases.iter().map(|row| row.line.resource.name.as_str()).collect()
        };
        assert_eq!([Order::Worst, Order::Name, Order::Age].map(names), ["cbda", "abcd", "abcd"]);
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
    fn of_many_the_first_in_order_are_shown_and_all_are_counted() {
        let name = |number: usize| format!("n{:04}", number * 7919 % 3000);
        let all = (0..3000).map(|number| row(&primary("ns", &name(number), ("True", "Ready")), Timestamp::UNIX_EPOCH));
        let table = table(("g.io", "Shop"), all, &Filter { sort: Order::Name, ..Filter::default() });
        assert_eq!((table.ready, table.total), (3000, 3000));
        let shown: Vec<String> = table.releases.into_iter().map(|row| row.line.resource.name).collect();
        let first: Vec<String> = (0..MAX_ROWS).map(|number| format!("n{number:04}")).collect();
        assert_eq!(shown, first);
    }

    #[test]
    fn kinds_share_the_limit_and_say_what_is_left_out() {
        let rows = |count: usize| {
            let one = row(&primary("ns", "a", ("True", "Ready")), Timestamp::UNIX_EPOCH);
            vec![one; count]
        };
        let tables = ["B", "A"].map(|kind| table(("g", kind), rows(MAX_ROWS), &Filter::default()));
        let overview = overview(Filter::default(), Caches::Complete, tables.into());
        let seen: Vec<_> =
            overview.kinds.iter().map(|one| (&*one.kind, one.total, one.omitted, one.releases.len())).collect();
        assert_eq!(seen, [("A", 500, 250, 250), ("B", 500, 250, 250)]);
    }
}
