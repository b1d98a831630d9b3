//! Writes the page of a release.

use jiff::Timestamp;
use maud::{Markup, html};

use super::tree::tree;
use super::{Frame, LINE, TEXT, age, full_name, moment, section, state, table, text};
use crate::inspect::model::{Hook, ReleaseReport};
use crate::inspect::revisions::Revision;
use crate::status::Condition;
use crate::status::history::HistoryEntry;
use crate::web::actions::{FIELD, PageAction};
use crate::web::address::link;
use crate::web::detail::{Detail, Drifted};

/// The maximum number of conditions. Anyone who may write the status may have added some.
const MAX_CONDITIONS: usize = 50;
/// The maximum number of revisions. An operator keeps ten by default.
const MAX_REVISIONS: usize = 50;

/// Writes a release, headed by `asked` if the viewer has just requested this action.
pub(crate) fn release(detail: &Detail, asked: Option<PageAction>, version: u64, now: Timestamp) -> Markup {
    let release = &detail.release;
    let name = full_name(&release.resource);
    let content = html! {
        p.way { a href="/" { "All releases" } }
        h1 { (text(&name, LINE)) " " (state(release.state)) }
        @if let Some(asked) = asked {
            p.note role="status" { "You asked for “" (asked.label()) "”. This page shows what comes of it." }
        }
        @if let Some(cause) = &release.cause { p.cause { (text(&cause.message, TEXT)) } }
        @for remark in &release.remarks { p.note { (text(remark, TEXT)) } }
        @if !detail.actions.is_empty() { (buttons(detail)) }
        (section("deployed", "Deployed", &facts(release, now)))
        (section("objects", "Objects", &objects(release)))
        (section("conditions", "Conditions", &conditions(&release.conditions, now)))
        @if !release.hooks.is_empty() { (section("hooks", "Hooks", &hooks(&release.hooks, now))) }
        @if !detail.drifted.is_empty() { (section("drift", "Drift", &drift(&detail.drifted))) }
        (section("history", "History", &history(detail, now)))
    };
    Frame::of(&name).following(version).around(&html! {}, &content)
}

/// Writes a form with a button for each action.
fn buttons(detail: &Detail) -> Markup {
    html! {
        form method="post" action=(link(&detail.release.resource)) aria-label="Actions" {
            @for action in &detail.actions {
                button id={ "action-" (action.word()) } type="submit" name=(FIELD) value=(action.word()) {
                    (action.label())
                }
            }
        }
    }
}

fn facts(release: &ReleaseReport, now: Timestamp) -> Markup {
    html! {
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
            dt { "Values" } dd { a href={ (link(&release.resource)) "?view=values" } { "with where each comes from" } }
        }
    }
}

fn objects(release: &ReleaseReport) -> Markup {
    html! {
        @if release.objects.is_empty() { p { "none that the operator knows" } } @else { (tree(release)) }
        @if release.omitted > 0 { p.note { "and " (release.omitted) " more" } }
    }
}

fn conditions(all: &[Condition], now: Timestamp) -> Markup {
    let since =
        |condition: &Condition| -> Option<Timestamp> { condition.last_transition_time.as_deref()?.parse().ok() };
    let rows = html! {
        @for one in all.iter().take(MAX_CONDITIONS) { tr {
            th scope="row" { (text(&one.kind, LINE)) }
            td { (text(&one.status, LINE)) }
            td { (text(&one.reason, LINE)) }
            td { (text(&one.message, TEXT)) }
            td.number { @if let Some(since) = since(one) { (age(since, now)) } }
        } }
    };
    html! {
        @if all.is_empty() { p { "none" } } @else {
            (table("conditions", &["Condition", "Status", "Reason", "Message", "Since"], &rows))
        }
    }
}

fn hooks(all: &[Hook], now: Timestamp) -> Markup {
    let rows = html! {
        @for hook in all { tr {
            th scope="row" { (text(&hook.object, LINE)) }
            td { (text(&hook.events.join(", "), LINE)) }
            td { (text(&hook.phase, LINE)) }
            td.number { @if let Some(started) = hook.started { (age(started, now)) } }
        } }
    };
    table("hooks", &["Object", "Runs", "Outcome", "Started"], &rows)
}

fn drift(all: &[Drifted]) -> Markup {
    let rows = html! {
        @for Drifted { name, change } in all { tr {
            th scope="row" { (text(&full_name(name), LINE)) }
            td { @if change.is_empty() { "differs from the release" } @else { (text(change, TEXT)) } }
        } }
    };
    table("drift", &["Object", "Change"], &rows)
}

/// Writes the recorded revisions; without any, the revisions that the status names.
fn history(detail: &Detail, now: Timestamp) -> Markup {
    let Detail { release, revisions, .. } = detail;
    let rows = html! {
        @for one in revisions.iter().take(MAX_REVISIONS) { tr {
            th scope="row" { (one.revision) }
            td { (text(&one.status, LINE)) }
            td { (text(&one.cause, LINE)) }
            td { (text(&one.chart, LINE)) }
            td.number { @if let Some(updated) = one.updated { (age(updated, now)) } }
        } }
        @if revisions.is_empty() { @for entry in &release.history { (from_status(entry, now)) } }
    };
    html! {
        @if revisions.is_empty() && release.history.is_empty() { p { "none" } } @else {
            (table("history", &["Revision", "Outcome", "Cause", "Chart", "Age"], &rows))
        }
        @if let [newest, ..] = &revisions[..] { (comparison(detail, newest)) }
    }
}

fn from_status(entry: &HistoryEntry, now: Timestamp) -> Markup {
    html! {
        tr {
            th scope="row" { (entry.revision) }
            td { (text(&entry.outcome, LINE)) }
            td { (text(&entry.cause_or_action(), LINE)) }
            td { (text(&entry.chart, LINE)) }
            td.number { @if let Some(updated) = entry.updated { (age(updated, now)) } }
        }
    }
}

/// Writes a form that compares two revisions, at first the last two.
fn comparison(detail: &Detail, newest: &Revision) -> Markup {
    let revisions: Vec<u32> = detail.revisions.iter().take(MAX_REVISIONS).map(|one| one.revision).collect();
    let before = revisions.get(1).copied().unwrap_or_default();
    let choice = |name: &str, label: &str, with_none: bool, chosen: u32| {
        html! {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                @for revision in &revisions { option value=(revision) selected[*revision == chosen] { (revision) } }
                @if with_none { option value="0" selected[chosen == 0] { "nothing" } }
            }
        }
    };
    html! {
        form method="get" action=(link(&detail.release.resource)) aria-label="Compare revisions" {
            input type="hidden" name="view" value="diff";
            div { (choice("from", "From", true, before)) }
            div { (choice("to", "To", false, newest.revision)) }
            div { button type="submit" { "Compare" } }
        }
    }
}
