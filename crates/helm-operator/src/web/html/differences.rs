//! Writes what changed between two revisions. Contents of Secrets stay masked.

use maud::{Markup, html};

use super::{Frame, LINE, TEXT, back, full_name, text};
use crate::mask::Mask;
use crate::plan::Change;
use crate::plan::account::Account;
use crate::plan::diff::{Line, Side, lines};
use crate::plan::text::{differences as of_change, line as of_object};
use crate::web::differences::{Compared, Differences};

/// The maximum size of all differences on a page, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// How many objects of a revision's account a page shows.
const MAX_LINES: usize = 500;

pub(crate) fn differences(of: &Differences) -> Markup {
    let name = full_name(&of.resource);
    let content = html! {
        (back(&of.resource))
        h1 { @match of.from {
            0 => { "All of revision " (of.to) },
            from => { "From revision " (from) " to " (of.to) },
        } }
        @match &of.found {
            Err(why) => p role="status" { (text(why, TEXT)) },
            Ok(Compared { plan, mask, did }) => {
                (account(of.to, did.as_ref(), mask))
                h2 { "Differences" }
                p { (plan.summary()) }
                @for (index, (change, diff)) in shown(&plan.changes, mask).iter().enumerate() { (object(index, change, diff.as_deref())) }
            }
        }
    };
    Frame::of(&format!("{name}: revision {} to {}", of.from, of.to)).around(&html! {}, &content)
}

/// Writes the changes that a revision made.
fn account(revision: u32, did: Option<&Account>, mask: &Mask) -> Markup {
    html! {
        section aria-labelledby="applied" {
            h2 id="applied" { "What revision " (revision) " did" }
            @match did {
                None => p.note { "It is not recorded: someone else made the revision, or an earlier version of the operator." },
                Some(did) => {
                    p { (did.summary()) }
                    ul { @for line in did.lines(mask).iter().take(MAX_LINES) { li { (text(line, LINE)) } } }
                    @if did.changes.len() > MAX_LINES { p.note { "`helm-operator history --diff` shows all of it." } }
                }
            }
        }
    }
}

/// Returns the line and the differences of each object, without differences beyond the limit.
fn shown(changes: &[Change], mask: &Mask) -> Vec<(String, Option<String>)> {
    let mut left = MAX_BYTES;
    let of = |change: &Change| {
        let diff = mask.hide(of_change(change));
        let fits = diff.len() <= left;
        left -= if fits { diff.len() } else { 0 };
        (mask.hide(of_object(change)), fits.then_some(diff))
    };
    changes.iter().map(of).collect()
}

fn object(index: usize, change: &str, diff: Option<&str>) -> Markup {
    let id = format!("object-{index}");
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (text(change, LINE)) }
            @match diff {
                None => p.note { "The differences are too long for this page: `helm-operator history --diff` shows them." },
                Some("") => {},
                Some(diff) => pre.diff role="group" tabindex="0" aria-labelledby=(id) { @for line in lines(diff) { (one(&line)) } },
            }
        }
    }
}

fn one(line: &Line<'_>) -> Markup {
    let Line { side, text: whole, changed } = line;
    let marked = html! {
        @match changed {
            Some(part) => {
                (text(&whole[..part.start], TEXT)) mark { (text(&whole[part.clone()], TEXT)) } (text(&whole[part.end..], TEXT))
            }
            None => (text(whole, TEXT)),
        }
    };
    html! {
        @match side {
            Side::Both => span { (marked) "\n" },
            Side::Removed => del { (marked) "\n" },
            Side::Added => ins { (marked) "\n" },
        }
    }
}
