//! Writes the overview.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{Frame, LINE, age, state, state_class, state_word, text};
use crate::inspect::model::{CauseKind, Name, State};
use crate::web::address::{Filter, Order, link};
use crate::web::model::{Count, Overview, Row, Table, groups};
use crate::web::sight::MAX_NAMESPACES;

/// The columns, and the order that each heading asks for.
const COLUMNS: [(&str, Option<Order>); 6] = [
    ("Name", Some(Order::Name)),
    ("State", Some(Order::Worst)),
    ("Message", None),
    ("Chart", Some(Order::Chart)),
    ("Revision", Some(Order::Revision)),
    ("Age", Some(Order::Age)),
];

pub(crate) fn overview(overview: &Overview, version: u64, now: Timestamp) -> Markup {
    let filter = &overview.filter;
    let fixed = html! {
        h1 { "Releases" }
        (form(filter))
    };
    let content = html! {
        @if !overview.complete {
            p.note role="status" { "The operator is still listing; releases may be missing." }
        }
        (states(&overview.states, filter))
        @if overview.kinds.is_empty() { p { "There is no kind to show." } }
        @for kind in &overview.kinds { (table(kind, filter, now)) }
        p.note {
            "Only kinds and namespaces that you may list are shown. If you may not list a kind in all namespaces, the "
            "page asks about the first " (MAX_NAMESPACES) " that have any; name a namespace to see another."
        }
    };
    Frame::of("Releases").following(version).around(&fixed, &content)
}

fn form(filter: &Filter) -> Markup {
    let field = |name: &str, label: &str, value: &str| {
        html! {
            label for=(name) { (label) }
            input id=(name) name=(name) value=(text(value, LINE)) autocomplete="off" maxlength="253";
        }
    };
    html! {
        form #filter method="get" action="/" role="search" aria-label="Filter releases" {
            div.long { (field("q", "Name, chart, reason or message", &filter.q)) }
            div { (field("namespace", "Namespace", &filter.namespace)) }
            div { (field("kind", "Kind", &filter.kind)) }
            @for (name, value) in [("state", &*filter.state), ("sort", filter.sort.word())] {
                @if !value.is_empty() { input type="hidden" name=(name) value=(text(value, LINE)); }
            }
            div { button type="submit" { "Filter" } a.quiet href="/" { "Show all" } }
        }
    }
}

/// Writes how many releases are in each state, each with a link to them alone.
fn states(counts: &[Count], filter: &Filter) -> Markup {
    html! {
        @if !counts.is_empty() {
            ul.states aria-label="Releases by state" {
                @for Count { state, total } in counts {
                    @let is_chosen = filter.state.eq_ignore_ascii_case(state.into_str());
                    @let next = if is_chosen { String::new() } else { state.into_str().to_owned() };
                    li { a id={ "state-" (state.into_str()) } class={ "state " (state_class(*state)) } aria-current=[is_chosen.then_some("true")]
                        data-live href=(Filter { state: next, ..filter.clone() }.link()) {
                        (total) " " (state_word(*state))
                    } }
                }
            }
        }
    }
}

fn table(kind: &Table, filter: &Filter, now: Timestamp) -> Markup {
    let Table { ready, total, omitted, .. } = kind;
    let is_grouped = filter.sort == Order::Worst;
    html! {
        section {
            h2 { (text(&kind.kind, LINE)) " " small { (text(&kind.group, LINE)) } }
            p { (ready) " of " (total) " ready" }
            @if let Some(rollout) = &kind.rollout { p.note { "Rollout of the chart: " (text(rollout, LINE)) } }
            @if *omitted > 0 { p.note { (omitted) " more are not shown: filter to find them." } }
            @if !kind.releases.is_empty() {
                div.wide role="group" tabindex="0" aria-label={ "Releases of " (text(&kind.kind, LINE)) } {
                    table.releases {
                        thead { tr { @for (column, order) in COLUMNS { (heading(column, order, filter)) } } }
                        @if is_grouped {
                            @for rows in groups(&kind.releases) { (group(rows, now)) }
                        } @else {
                            tbody { @for row in &kind.releases { (line(row, now)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Writes the heading of a column, with a link that sorts by it.
fn heading(column: &str, order: Option<Order>, filter: &Filter) -> Markup {
    let is_sorted = order == Some(filter.sort);
    let direction = match order {
        Some(Order::Revision) => "descending",
        _ => "ascending",
    };
    html! {
        th scope="col" aria-sort=[is_sorted.then_some(direction)] {
            @match order {
                Some(sort) => a id={ "sort-" (sort.word()) } data-live href=(Filter { sort, ..filter.clone() }.link()) { (column) },
                None => (column),
            }
        }
    }
}

/// Writes the rows of one state, cause and reason.
fn group(rows: &[Row], now: Timestamp) -> Markup {
    let Some(first) = rows.first() else { return html! {} };
    html! {
        tbody {
            tr { th.group scope="rowgroup" colspan="6" {
                (state(first.line.state)) " "
                @if let Some(cause) = first.line.cause.and_then(cause_word) { (cause) ": " }
                @if says_more(&first.reason, first.line.state) { (text(&first.reason, LINE)) " " }
                "(" (rows.len()) ")"
            } }
            @for row in rows { (line(row, now)) }
        }
    }
}

fn line(row: &Row, now: Timestamp) -> Markup {
    let Row { line, reason, created } = row;
    let Name { namespace, name, .. } = &line.resource;
    html! {
        tr {
            th scope="row" { a href=(link(&line.resource)) {
                @if !namespace.is_empty() { (text(namespace, LINE)) "/" wbr; }
                (text(name, LINE))
            } }
            td { span class=(state_class(line.state)) { (state_word(line.state)) } @if says_more(reason, line.state) { ": " (text(reason, LINE)) } }
            td { (text(&line.message, LINE)) }
            td { (text(&line.chart, LINE)) }
            td.number data-label="revision" { @if line.revision > 0 { (line.revision) } }
            td.number data-label="age" { @if let Some(created) = created { (age(*created, now)) } }
        }
    }
}

/// Returns whether a reason says more than the state does.
fn says_more(reason: &str, state: State) -> bool {
    !reason.is_empty() && reason != state_word(state)
}

/// Returns the cause in a word or two; `None` if the release's own reason must explain it.
fn cause_word(cause: CauseKind) -> Option<&'static str> {
    Some(match cause {
        CauseKind::Image => "Image",
        CauseKind::Configuration => "Configuration of a container",
        CauseKind::Crash => "Crash",
        CauseKind::Exit => "Exit",
        CauseKind::Quota => "Quota",
        CauseKind::Webhook => "Webhook",
        CauseKind::Volume => "Volume",
        CauseKind::Unschedulable => "Unschedulable",
        CauseKind::Probe => "Probe",
        CauseKind::Missing => "Missing object",
        CauseKind::ImmutableField => "Immutable field",
        CauseKind::Hook => "Hook",
        CauseKind::InvalidValues => "Invalid values",
        CauseKind::Render => "Chart does not render",
        CauseKind::Conflict => "Conflict",
        CauseKind::Forbidden => "Missing permission",
        CauseKind::Unserved => "No operator",
        CauseKind::Other => return None,
    })
}
