//! Writes the page as HTML that is whole without the script. Pure. Every text comes from a cluster, so anyone may have
//! written it: its type escapes it, and it is cut to a length that leaves the page readable.

pub(crate) mod differences;
pub(crate) mod overview;
pub(crate) mod process;
pub(crate) mod release;
pub(crate) mod tree;
pub(crate) mod values;

use controller::report::shorten;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use super::address::{PROCESS, SCRIPT as SCRIPT_ADDRESS, STYLE as STYLE_ADDRESS, link};
use crate::inspect::model::{Health, Name, State};
use crate::inspect::text::duration;
use crate::terminal::plain;

pub(crate) const STYLE: &str = include_str!("../../../assets/style.css");

/// The script, which keeps an open page current. A page works without it.
pub(crate) const SCRIPT: &str = include_str!("../../../assets/page.js");

/// The maximum length of a message in a row, in bytes.
pub(super) const LINE: usize = 300;
/// The maximum length of any other text, in bytes: that of our own messages in conditions.
pub(super) const TEXT: usize = 4096;

/// What is around a page's content.
pub(crate) struct Frame<'t> {
    title: &'t str,
    /// The digest of what is shown, if the page can follow it.
    version: Option<u64>,
    /// How often the script loads the page again, in seconds.
    refresh: Option<u32>,
}

impl<'t> Frame<'t> {
    /// Frames a page that is never refreshed.
    pub(crate) fn of(title: &'t str) -> Frame<'t> {
        Frame { title, version: None, refresh: None }
    }

    /// Makes the script reload the page once its content no longer has this digest.
    pub(crate) fn following(self, version: u64) -> Frame<'t> {
        Frame { version: Some(version), ..self }
    }

    /// Makes the script load the page again at intervals.
    pub(crate) fn refreshed_every(self, seconds: u32) -> Frame<'t> {
        Frame { refresh: Some(seconds), ..self }
    }

    /// Writes a page with a single message.
    pub(crate) fn notice(self, what: &str) -> Markup {
        self.around(
            &html! {},
            &html! {
                h1 { (self.title) }
                p role="status" { (text(what, TEXT)) }
                p { a href="/" { "All releases" } }
            },
        )
    }

    /// Writes a page. The script replaces only the content, not what is fixed.
    pub(crate) fn around(&self, fixed: &Markup, content: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="robots" content="noindex";
                    title { (text(self.title, LINE)) }
                    link rel="stylesheet" href=(STYLE_ADDRESS);
                    script src=(SCRIPT_ADDRESS) defer {}
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    header {
                        nav aria-label="Site" { a href="/" { "Releases" } a href=(PROCESS) { "Process" } }
                        p #connection role="status" {}
                        p.unseen #told role="status" {}
                    }
                    main #content tabindex="-1" {
                        (fixed)
                        div #live data-version=[self.version] data-refresh=[self.refresh] { (content) }
                    }
                    footer { "Each reader sees what their own rights in the cluster allow." }
                }
            }
        }
    }
}

/// Returns a state as a badge. The word repeats what the colour means, for people who cannot see it.
fn state(state: State) -> Markup {
    html! { span class={ "state " (state_class(state)) } { (state_word(state)) } }
}

fn state_class(state: State) -> &'static str {
    match state {
        State::Failed => "failed",
        State::Ready => "ready",
        _ => "waiting",
    }
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

fn health_class(health: Health) -> &'static str {
    match health {
        Health::Ready => "ready",
        Health::Failed | Health::Missing => "failed",
        Health::Progressing => "waiting",
        Health::Unknown => "unknown",
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

/// Returns the name of a resource as people write it: `Shop ns/web`.
fn full_name(resource: &Name) -> String {
    let Name { kind, namespace, name, .. } = resource;
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// Returns the breadcrumbs from a view back to its release.
fn back(resource: &Name) -> Markup {
    html! { p.way { a href="/" { "All releases" } " › " a href=(link(resource)) { (text(&full_name(resource), LINE)) } } }
}

fn section(id: &str, heading: &str, content: &Markup) -> Markup {
    html! { section aria-labelledby=(id) { h2 id=(id) { (heading) } (content) } }
}

/// Returns a table that a narrow screen scrolls; the heading with this id names it.
fn table(id: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        div.wide role="group" tabindex="0" aria-labelledby=(id) { table {
            thead { tr { @for column in columns { th scope="col" { (column) } } } }
            tbody { (rows) }
        } }
    }
}

/// Returns an untrusted text, truncated, and without characters that change the reading direction.
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
