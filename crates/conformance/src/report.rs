//! Counts outcomes by group and prints them.

use std::collections::BTreeMap;
use std::io::Write as _;

/// How one case ended.
pub(crate) enum Outcome {
    /// Byte for byte, or the same error text.
    Exact,
    /// Both fail, with different texts: wanted and got.
    OtherText(String, String),
    /// The same data in other bytes, or equal once random parts are left out.
    Alike(&'static str),
    /// Different: wanted and got.
    Wrong(String, String),
}

#[derive(Default)]
struct Row {
    exact: usize,
    alike: usize,
    other_text: usize,
    wrong: usize,
}

/// The running count.
pub(crate) struct Report {
    verbose: bool,
    groups: BTreeMap<String, Row>,
}

impl Report {
    pub(crate) fn new(verbose: bool) -> Report {
        Report { verbose, groups: BTreeMap::new() }
    }

    /// Counts the outcome, and prints a line unless it is exact.
    pub(crate) fn add(&mut self, group: &str, id: &str, outcome: &Outcome) {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.to_owned(), Row::default());
        }
        let Some(row) = self.groups.get_mut(group) else { return };
        match outcome {
            Outcome::Exact => row.exact += 1,
            Outcome::Alike(how) => {
                row.alike += 1;
                line("alike", group, id, how);
            }
            Outcome::OtherText(wanted, got) => {
                row.other_text += 1;
                self.difference("text", group, id, wanted, got);
            }
            Outcome::Wrong(wanted, got) => {
                row.wrong += 1;
                self.difference("FAIL", group, id, wanted, got);
            }
        }
    }

    fn difference(&self, mark: &str, group: &str, id: &str, wanted: &str, got: &str) {
        if self.verbose {
            line(mark, group, id, &format!("\n--- wanted\n{wanted}\n--- got\n{got}\n"));
            return;
        }
        let (wanted, got) = around_first_difference(wanted, got);
        line(mark, group, id, &format!("wanted {wanted:?} got {got:?}"));
    }

    /// Prints the table and the closing line; whether nothing failed.
    pub(crate) fn finish(self) -> bool {
        let mut total = Row::default();
        say(&format!("{:<44} {:>6} {:>6} {:>6} {:>6}", "group", "exact", "alike", "text", "failed"));
        for (group, row) in &self.groups {
            say(&format!("{group:<44} {:>6} {:>6} {:>6} {:>6}", row.exact, row.alike, row.other_text, row.wrong));
            total.exact += row.exact;
            total.alike += row.alike;
            total.other_text += row.other_text;
            total.wrong += row.wrong;
        }
        say("alike: same data, other bytes; text: both fail, in other words");
        say(&format!("{:<44} {:>6} {:>6} {:>6} {:>6}", "all", total.exact, total.alike, total.other_text, total.wrong));
        say(&format!("{} passed, {} failed", total.exact + total.alike + total.other_text, total.wrong));
        total.wrong == 0
    }
}

fn line(mark: &str, group: &str, id: &str, what: &str) {
    say(&format!("{mark:<5} {group} {id} {what}"));
}

/// Writes a line; nobody may be left to read it, as behind `head`.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The two texts from shortly before their first difference, cut to a line's length.
fn around_first_difference(wanted: &str, got: &str) -> (String, String) {
    let same = wanted.chars().zip(got.chars()).take_while(|(a, b)| a == b).count();
    let start = same.saturating_sub(40);
    let cut = |text: &str| text.chars().skip(start).take(160).collect();
    (cut(wanted), cut(got))
}
