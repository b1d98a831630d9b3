//! Writes the page as HTML that needs no script. Pure. Every text comes from a cluster, so anyone may have written it:
//! its type escapes it, and it is cut to a length that leaves the page readable.

use controller::report::shorten;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use super::address::{Filter, STYLE as STYLE_ADDRESS, link};
use super::model::{Overview, Row, Table, groups};
use super::sight::MAX_NAMESPACES;
use crate::inspect::model::{Health, Name, Node, Release, State};
use crate::inspect::text::{duration, plain};
use crate::status::Condition;
use crate::status::history::{Action, HistoryEntry};

/// The style sheet.
pub(crate) const STYLE: &str = include_str!("../../assets/style.css");

/// The maximum length of a message in a row, in bytes.
const LINE: usize = 300;
/// The maximum length of any other text, in bytes: that of our own messages in conditions.
const TEXT: usize = 4096;
/// The maximum number of conditions. Anyone who may write the status may have added some.
const MAX_CONDITIONS: usize = 50;

/// Writes the overview.
pub(crate) fn overview(overview: &Overview, now: Timestamp) -> Markup {
    whole(
        "Releases",
        &html! {
            h1 { "Releases" }
            (form(&overview.filter))
            @if !overview.complete {
                p.note role="status" { "The operator is still listing; releases may be missing." }
            }
            @if overview.kinds.is_empty() { p { "There is no kind to show." } }
            @for kind in &overview.kinds { (table(kind, now)) }
            p.note {
                "Only kinds and namespaces that you may list are shown. If you may not list a kind in all namespaces, the "
                "page asks about the first " (MAX_NAMESPACES) " that have any; name a namespace to see another."
            }
        },
    )
}

/// Writes a release.
pub(crate) fn release(release: &Release, now: Timestamp) -> Markup {
    let name = full_name(&release.resource);
    whole(
        &name,
        &html! {
            p { a href="/" { "All releases" } }
            h1 { (text(&name, LINE)) }
            p { (state(release.state)) }
            @if let Some(cause) = &release.cause { p.cause { (text(&cause.message, TEXT)) } }
            @for remark in &release.remarks { p.note { (text(remark, TEXT)) } }
            (facts(release, now))
            (conditions(&release.conditions, now))
            (objects(release))
            (history(&release.history, now))
        },
    )
}

/// Writes a page that says one thing.
pub(crate) fn notice(what: &str) -> Markup {
    whole(
        "Releases",
        &html! {
            h1 { "Releases" }
            p role="status" { (what) }
            p { a href="/" { "All releases" } }
        },
    )
}

fn whole(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (text(title, LINE)) }
                link rel="stylesheet" href=(STYLE_ADDRESS);
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header { nav aria-label="Site" { a href="/" { "helm-operator" } } }
                main #content tabindex="-1" { (content) }
                footer { "Read-only. Each reader sees what their own rights in the cluster allow." }
            }
        }
    }
}

fn form(filter: &Filter) -> Markup {
    let field = |name: &str, label: &str, value: &str| {
        html! {
            label for=(name) { (label) }
            input id=(name) name=(name) value=(text(value, LINE)) autocomplete="off" maxlength="253";
        }
    };
    html! {
        form method="get" action="/" role="search" aria-label="Filter releases" {
            div { (field("kind", "Kind", &filter.kind)) }
            div { (field("namespace", "Namespace", &filter.namespace)) }
            div { (field("q", "Name, chart, reason or message", &filter.q)) }
            div { button type="submit" { "Filter" } " " a href="/" { "Show all" } }
        }
    }
}

fn table(kind: &Table, now: Timestamp) -> Markup {
    let Table { ready, total, omitted, .. } = kind;
    html! {
        section {
            h2 { (text(&kind.kind, LINE)) " " small { (text(&kind.group, LINE)) } }
            p { (ready) " of " (total) " ready" }
            @if *omitted > 0 { p.note { (omitted) " more are not shown: filter to find them." } }
            @if !kind.releases.is_empty() {
                div.wide role="region" tabindex="0" aria-label={ "Releases of " (text(&kind.kind, LINE)) } {
                    table {
                        caption { "Releases of " (text(&kind.kind, LINE)) ", what fails first" }
                        thead { tr {
                            @for column in ["Name", "State", "Message", "Chart", "Revision", "Age"] {
                                th scope="col" { (column) }
                            }
                        } }
                        @for rows in groups(&kind.releases) { (group(rows, now)) }
                    }
                }
            }
        }
    }
}

/// Writes the rows of one state and reason.
fn group(rows: &[Row], now: Timestamp) -> Markup {
    let Some(first) = rows.first() else { return html! {} };
    html! {
        tbody {
            tr { th.group scope="rowgroup" colspan="6" {
                (state(first.line.state)) " " (text(&first.reason, LINE)) " (" (rows.len()) ")"
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
            td { (state_word(line.state)) @if !reason.is_empty() { ": " (text(reason, LINE)) } }
            td { (text(&line.message, LINE)) }
            td { (text(&line.chart, LINE)) }
            td.number { @if line.revision > 0 { (line.revision) } }
            td.number { @if let Some(created) = created { (age(*created, now)) } }
        }
    }
}

fn facts(release: &Release, now: Timestamp) -> Markup {
    html! {
        section aria-labelledby="deployed" {
            h2 #deployed { "Deployed" }
            dl {
                @match &release.release {
                    Some(deployed) => {
                        dt { "Release" } dd { (text(&deployed.name, LINE)) }
                        dt { "Revision" } dd { (deployed.revision) }
                        dt { "Chart" } dd { (text(&deployed.chart, LINE)) }
                        @if !deployed.app_version.is_empty() {
                            dt { "App version" } dd { (text(&deployed.app_version, LINE)) }
                        }
                    }
                    None => { dt { "Release" } dd { "none" } }
                }
                @if let Some(next) = release.next_attempt {
                    dt { "Next attempt" } dd { (moment(next)) @if next <= now { ", and then after at most 5 minutes each" } }
                }
            }
        }
    }
}

fn conditions(all: &[Condition], now: Timestamp) -> Markup {
    let since = |condition: &Condition| condition.last_transition_time.as_deref().and_then(|time| time.parse().ok());
    html! {
        section aria-labelledby="conditions" {
            h2 #conditions { "Conditions" }
            @if all.is_empty() { p { "none" } } @else { div.wide role="region" tabindex="0" aria-labelledby="conditions" { table {
                thead { tr {
                    @for column in ["Condition", "Status", "Reason", "Message", "Since"] { th scope="col" { (column) } }
                } }
                tbody { @for one in all.iter().take(MAX_CONDITIONS) { tr {
                    th scope="row" { (text(&one.kind, LINE)) }
                    td { (text(&one.status, LINE)) }
                    td { (text(&one.reason, LINE)) }
                    td { (text(&one.message, TEXT)) }
                    td.number { @if let Some(since) = since(one) { (age(since, now)) } }
                } } }
            } } }
        }
    }
}

fn objects(release: &Release) -> Markup {
    html! {
        section aria-labelledby="objects" {
            h2 #objects { "Objects" }
            @if release.objects.is_empty() { p { "none that the operator knows" } } @else {
                div.wide role="region" tabindex="0" aria-labelledby="objects" { table {
                    thead { tr { @for column in ["Kind", "Name", "State"] { th scope="col" { (column) } } } }
                    tbody { @for Node { name, health, .. } in &release.objects { tr {
                        td { (text(&name.kind, LINE)) @if !name.group.is_empty() { " " small { (text(&name.group, LINE)) } } }
                        th scope="row" {
                            @if !name.namespace.is_empty() { (text(&name.namespace, LINE)) "/" wbr; }
                            (text(&name.name, LINE))
                        }
                        td { (health_word(*health)) }
                    } } }
                } }
            }
            @if release.omitted > 0 { p.note { "and " (release.omitted) " more" } }
        }
    }
}

fn history(all: &[HistoryEntry], now: Timestamp) -> Markup {
    html! {
        section aria-labelledby="history" {
            h2 #history { "History" }
            @if all.is_empty() { p { "none" } } @else { div.wide role="region" tabindex="0" aria-labelledby="history" { table {
                thead { tr {
                    @for column in ["Revision", "Action", "Outcome", "Chart", "Age"] { th scope="col" { (column) } }
                } }
                tbody { @for one in all { tr {
                    th scope="row" { (one.revision) }
                    td { (action(one.action)) }
                    td { (text(&one.outcome, LINE)) }
                    td { (text(&one.chart, LINE)) }
                    td.number { @if let Some(updated) = one.updated { (age(updated, now)) } }
                } } }
            } } }
        }
    }
}

/// Returns a state as a badge. The word says it, too, so no one depends on the colour.
fn state(state: State) -> Markup {
    let class = match state {
        State::Failed => "state failed",
        State::Ready => "state ready",
        _ => "state waiting",
    };
    html! { span class=(class) { (state_word(state)) } }
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Failed => "Failed",
        State::Unserved => "Not served",
        State::Progressing => "Not ready",
        State::Uninstalling => "Uninstalling",
        State::Suspended => "Suspended",
        State::Ready => "Ready",
    }
}

fn health_word(health: Health) -> &'static str {
    match health {
        Health::Ready => "Ready",
        Health::Progressing => "Not ready",
        Health::Failed => "Failed",
        Health::Missing => "Missing",
        Health::Unknown => "Unknown",
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Install => "install",
        Action::Upgrade => "upgrade",
        Action::Rollback => "rollback",
    }
}

/// Returns the name of a resource as people write it: `Shop ns/web`.
fn full_name(resource: &Name) -> String {
    let Name { kind, namespace, name, .. } = resource;
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// Returns a text that anyone may have written, within a length and without what redirects reading.
fn text(text: &str, most: usize) -> String {
    plain(&shorten(text, most)).to_string()
}

fn moment(time: Timestamp) -> Markup {
    html! { time datetime=(time) { (time) } }
}

/// Returns how long ago that was, with the time itself for machines and on hovering.
fn age(time: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(time) title=(time) { (duration(now.duration_since(time))) } }
}
