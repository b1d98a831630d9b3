//! Counts and prints outcomes by group.

use std::collections::BTreeMap;

use conformance::terminal::print_line;

pub(crate) enum Outcome {
    /// Byte-identical output or error text.
    Exact,
    /// Both fail with different text: expected and actual.
    OtherText(String, String),
    /// Same data in different bytes, or equal without random parts.
    Alike(&'static str),
    /// Different: expected and actual.
    Wrong(String, String),
}

/// How much of a difference is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Differences {
    /// Both texts.
    InFull,
    /// What surrounds the first difference.
    Shortened,
}

#[derive(Default)]
struct Row {
    exact: usize,
    alike: usize,
    other_text: usize,
    wrong: usize,
}

/// Running totals by group.
pub(crate) struct Report {
    differences: Differences,
    groups: BTreeMap<String, Row>,
}

impl Report {
    pub(crate) fn new(differences: Differences) -> Report {
        Report { differences, groups: BTreeMap::new() }
    }

    /// Counts the outcome, and prints it unless it is exact.
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
            Outcome::OtherText(expected, actual) => {
                row.other_text += 1;
                self.difference("text", group, id, expected, actual);
            }
            Outcome::Wrong(expected, actual) => {
                row.wrong += 1;
                self.difference("FAIL", group, id, expected, actual);
            }
        }
    }

    fn difference(&self, mark: &str, group: &str, id: &str, expected: &str, actual: &str) {
        if self.differences == Differences::InFull {
            line(mark, group, id, &format!("\n--- expected\n{expected}\n--- actual\n{actual}\n"));
            return;
        }
        let (expected, actual) = around_first_difference(expected, actual);
        line(mark, group, id, &format!("expected {expected:?} actual {actual:?}"));
    }

    /// Prints the table and the totals; returns whether every case passed.
    pub(crate) fn finish(self) -> bool {
        let mut total = Row::default();
        print_line(&format!("{:<44} {:>6} {:>6} {:>6} {:>6}", "group", "exact", "alike", "text", "failed"));
        for (group, row) in &self.groups {
            print_line(&format!(
                "{group:<44} {:>6} {:>6} {:>6} {:>6}",
                row.exact, row.alike, row.other_text, row.wrong
            ));
            total.exact += row.exact;
            total.alike += row.alike;
            total.other_text += row.other_text;
            total.wrong += row.wrong;
        }
        print_line("alike: same data, different bytes; text: both fail, with different text");
        print_line(&format!(
            "{:<44} {:>6} {:>6} {:>6} {:>6}",
            "all", total.exact, total.alike, total.other_text, total.wrong
        ));
        print_line(&format!("{} passed, {} failed", total.exact + total.alike + total.other_text, total.wrong));
        total.wrong == 0
    }
}

fn line(mark: &str, group: &str, id: &str, what: &str) {
    print_line(&format!("{mark:<5} {group} {id} {what}"));
}

/// Cuts both texts to a line around their first difference.
fn around_first_difference(expected: &str, actual: &str) -> (String, String) {
    let same = expected.chars().zip(actual.chars()).take_while(|(a, b)| a == b).count();
    let start = same.saturating_sub(40);
    let cut = |text: &str| text.chars().skip(start).take(160).collect();
    (cut(expected), cut(actual))
}
