//! Prints plans as Markdown, for a comment on a pull request.

use super::text::{differences, line};
use super::{Change, Plan};
use crate::mask::Mask;
use crate::terminal::plain_lines;

/// The maximum size of a comment, in bytes: GitHub's limit is 65,536 characters.
const MAX_BYTES: usize = 60_000;

/// Returns plans as one comment below 60 kB: a heading for each resource, and its changes, folded. Differences that do
/// not fit are left out, and the comment says how many. What objects and messages contain controls no terminal.
pub(crate) fn markdown<'p>(plans: impl Iterator<Item = (&'p Plan, &'p Mask)>) -> String {
    let (mut text, mut left_out) = (String::new(), 0);
    for (plan, mask) in plans {
        let heading = plain_lines(&heading(plan, mask));
        if text.len() + heading.len() > MAX_BYTES - LAST {
            left_out += plan.changes.len().max(1);
            continue;
        }
        text.push_str(&heading);
        for change in &plan.changes {
            let block = plain_lines(&block(change, mask));
            match text.len() + block.len() > MAX_BYTES - LAST {
                true => left_out += 1,
                false => text.push_str(&block),
            }
        }
    }
    if left_out > 0 {
        text.push_str(&format!("\n{left_out} more changes are left out, because a comment has room for 60 kB.\n"));
    }
    text
}

/// The room for the last line, in bytes.
const LAST: usize = 200;

fn heading(plan: &Plan, mask: &Mask) -> String {
    let notice = plan.notice.as_ref().map(|notice| {
        let verb = if notice.is_failure { "fails" } else { "waits" };
        let message = mask.hide(notice.message.clone());
        format!("\n**{verb}: {}**\n{}\n", notice.reason, fenced(&message, "text"))
    });
    format!("### {}: {}\n{}", escaped(&plan.resource.to_string()), plan.summary(), notice.unwrap_or_default())
}

fn block(change: &Change, mask: &Mask) -> String {
    let (line, diff) = (escaped(&mask.hide(line(change))), mask.hide(differences(change)));
    if diff.is_empty() {
        return format!("\n{line}\n");
    }
    format!("\n<details><summary>{line}</summary>\n{}\n</details>\n", fenced(&diff, "diff"))
}

/// Returns a text in a fence that nothing in the text ends.
fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("\n{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

/// Returns a text that HTML shows literally.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\n', " ")
}
