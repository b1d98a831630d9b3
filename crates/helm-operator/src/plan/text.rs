//! Prints a plan for a terminal.

use super::diff::{self, Colour};
use super::{Change, Plan};
use crate::mask::Mask;
use crate::terminal::plain_lines;

/// How a plan is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) colour: Colour,
    /// The most lines of differences; more are left out, with a line that says so. `None` shows all.
    pub(crate) max_lines: Option<usize>,
}

/// Returns a plan as text: a line and the differences of each object, the reason if the reconcile fails or waits, and a
/// summary. What objects and messages contain controls no terminal.
pub(crate) fn text(plan: &Plan, mask: &Mask, style: Style) -> String {
    let shown = |text: String| plain_lines(&mask.hide(text));
    let differences: Vec<String> = plan.changes.iter().map(|change| shown(differences(change))).collect();
    let lines: usize = differences.iter().map(|diff| diff.lines().count()).sum();
    let is_folded = style.max_lines.is_some_and(|most| lines > most);
    let mut text = String::new();
    for (change, diff) in plan.changes.iter().zip(&differences) {
        text.push_str(&shown(line(change)));
        text.push('\n');
        if !is_folded && !diff.is_empty() {
            text.push_str(&diff::coloured(diff, style.colour));
            text.push('\n');
        }
    }
    if is_folded {
        text.push_str(&format!("({lines} lines of differences are left out: --full shows them)\n"));
    }
    if let Some(notice) = &plan.notice {
        let verb = if notice.is_failure { "fails" } else { "waits" };
        text.push_str(&shown(format!("{verb}: {}: {}\n", notice.reason, notice.message)));
    }
    text.push_str(&plain_lines(&format!("{}: {}\n", plan.resource, plan.summary())));
    text
}

/// Returns the line of an object: its mark, its name and any remarks.
pub(crate) fn line(change: &Change) -> String {
    line_with(change, Vec::new())
}

/// Returns the line of an object with more notes.
pub(super) fn line_with(change: &Change, more: Vec<String>) -> String {
    let mut notes: Vec<String> = Vec::new();
    if let Some(round) = change.round {
        notes.push(format!("round {round}"));
    }
    if !change.action.note().is_empty() {
        notes.push(change.action.note().to_owned());
    }
    if !change.losers.is_empty() {
        notes.push(format!("takes fields from {}", change.losers.join(", ")));
    }
    if change.is_unchecked {
        notes.push("not checked by the API server: it depends on an earlier write".to_owned());
    }
    notes.extend(more);
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    let refused = change.refused.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{} {}{notes}{refused}", change.action.mark(), change.object)
}

/// Returns how an object's fields change; empty if they do not.
pub(crate) fn differences(change: &Change) -> String {
    if change.before == change.after {
        return String::new();
    }
    diff::of(&change.object.to_string(), change.before.as_ref(), change.after.as_ref())
}
