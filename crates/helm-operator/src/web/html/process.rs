//! Writes the state of the process.

use maud::{Markup, html};

use super::{Frame, LINE, TEXT, section, table, text};
use crate::view::coverage::Watching;
use crate::web::process::{Controller, Process};

/// How often the script loads the page again, in seconds.
const REFRESH: u32 = 5;

/// Writes the state of the process.
pub(crate) fn process(process: &Process) -> Markup {
    let content = html! { h1 { "Process" } (parts(process)) };
    Frame::of("Process").refreshed_every(REFRESH).around(&html! {}, &content)
}

/// Writes what a replica shows that serves no resources: only a sentence if the reader may not see its state.
pub(crate) fn idle(sentence: &str, process: Option<&Process>, version: u64) -> Markup {
    let content = html! {
        h1 { "Releases" }
        p role="status" { (sentence) }
        @if let Some(process) = process { (parts(process)) }
    };
    Frame::of("Releases").following(version).around(&html! {}, &content)
}

fn parts(process: &Process) -> Markup {
    let Process { version, replica, leader, waits_for, controllers } = process;
    html! {
        dl {
            @if let Some(replica) = replica { dt { "Replica" } dd { (text(replica, LINE)) } }
            dt { "Leader" } dd { (text(leader.as_deref().unwrap_or("none: leader election is off, or nobody holds the lease"), LINE)) }
            dt { "Version" } dd { (version) }
            dt { "Ready" } dd {
                @if waits_for.is_empty() { "yes" } @else { "no, it waits for:" ul { @for one in waits_for { li { (text(one, TEXT)) } } } }
            }
        }
        @if !controllers.is_empty() {
            (section("queues", "Queues", &queues(controllers)))
            (section("watches", "Watches", &watches(controllers)))
        }
    }
}

fn queues(controllers: &[Controller]) -> Markup {
    let rows = html! {
        @for one in controllers { tr {
            th scope="row" { (text(&one.kind, LINE)) " " small { (text(&one.group, LINE)) } }
            td { (text(&one.chart, LINE)) }
            td.number { (one.resources) }
            td.number { (one.queue.running) }
            td.number { (one.queue.waiting) }
            td.number { (one.queue.retrying) }
            td.number { (one.queue.later) }
        } }
    };
    table("queues", &["Kind", "Chart", "Resources", "With a worker", "Waiting", "To be retried", "Later"], &rows)
}

fn watches(controllers: &[Controller]) -> Markup {
    let rows = html! {
        @for controller in controllers { @for watched in &controller.watches { tr {
            th scope="row" { (text(&watched.kind, LINE)) @if !watched.group.is_empty() { " " small { (text(&watched.group, LINE)) } } }
            td { (text(&controller.kind, LINE)) }
            td { (word(watched.state)) }
        } } }
    };
    table("watches", &["Kind", "For", "State"], &rows)
}

fn word(state: Watching) -> Markup {
    let (class, word) = match state {
        Watching::Listed => ("ready", "listed"),
        Watching::Listing => ("waiting", "not listed yet"),
        Watching::Refused => ("failed", "refused by the API server"),
        Watching::Unserved => ("failed", "no version is served"),
    };
    html! { span class=(class) { (word) } }
}
