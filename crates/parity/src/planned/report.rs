//! Reports differences as lines, and counts as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::Change;
use super::agree::{Agreement, Unknowable};
use super::walk::Row;

/// The results of all charts.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<String>,
    counts: BTreeMap<Change, Count>,
    unknowable: BTreeMap<Unknowable, usize>,
    whole: usize,
    refused: usize,
    failed: usize,
}

/// What is counted for one change.
#[derive(Debug, Default)]
struct Count {
    plans: usize,
    failures: usize,
    writes: usize,
    objects: usize,
    lines: usize,
    differing: usize,
}

impl Report {
    /// Returns how many charts went through all changes.
    pub fn whole(&self) -> usize {
        self.whole
    }

    pub(super) fn add(&mut self, chart: &str, rows: Vec<Row>, took: Duration) {
        match rows.len() {
            0 => {}
            len if len == Change::ALL.len() => self.whole += 1,
            _ => self.refused += 1,
        }
        let said: Vec<String> =
            rows.iter().map(|row| row.failure.clone().unwrap_or_else(|| row.summary.clone())).collect();
        eprintln!("{:>4}  {chart:<48} {:>5.1} s  {}", self.whole, took.as_secs_f64(), said.join(" | "));
        for row in rows {
            self.add_row(chart, row);
        }
    }

    fn add_row(&mut self, chart: &str, row: Row) {
        let Agreement { writes, objects, lines, differences, unknowable } = row.agreement;
        let count = self.counts.entry(row.change).or_default();
        count.plans += 1;
        count.failures += usize::from(row.failure.is_some());
        count.writes += writes;
        count.objects += objects;
        count.lines += lines;
        count.differing += usize::from(!differences.is_empty());
        for (why, number) in unknowable {
            *self.unknowable.entry(why).or_default() += number;
        }
        for difference in differences {
            let line = format!("{chart}, {}: {difference}", row.change);
            eprintln!("      {line}");
            self.lines.push(line);
        }
    }

    /// Adds a chart that could not be taken through the changes.
    pub(super) fn broken(&mut self, chart: &str, why: &str) {
        eprintln!("      {chart}: {why}");
        self.lines.push(format!("{chart}: {why}"));
        self.failed += 1;
    }

    /// Returns whether there were plans, and every one equals what followed.
    pub fn passed(&self) -> bool {
        self.lines.is_empty() && self.whole > 0
    }

    /// Returns the report: lines, and a table in Markdown.
    pub fn text(&self) -> String {
        let mut text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        text.push_str("\n| change | plans | of failures | writes | objects | changed lines | plans that differ |\n|---|---|---|---|---|---|---|\n");
        for (change, count) in &self.counts {
            let Count { plans, failures, writes, objects, lines, differing } = count;
            _ = writeln!(text, "| {change} | {plans} | {failures} | {writes} | {objects} | {lines} | {differing} |");
        }
        let Report { whole, refused, failed, unknowable, .. } = self;
        _ = writeln!(
            text,
            "\n{whole} charts went through all changes, {refused} could not be installed, {failed} broke off; lines that no plan can know: {unknowable:?}"
        );
        text
    }
}
