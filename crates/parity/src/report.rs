//! Reports differences as lines and counts as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::compare::{Action, Difference, Sides, Verdict};
use crate::known;
use crate::outcome::Outcome;
use crate::restart::Restart;

/// Maximum length of a printed value.
const MAX_VALUE: usize = 160;

/// The results of all charts.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<String>,
    rows: BTreeMap<(Row, Action), usize>,
    totals: Verdict,
    releases: usize,
    unexplained: usize,
}

#[derive(Debug)]
pub(crate) struct ChartReport {
    pub(crate) chart: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) case: String,
    /// Whether client-side Helm, server-side Helm and the operator succeeded.
    pub(crate) done: [bool; 3],
    /// Helm's error, if a mode refused.
    pub(crate) refusal: Option<String>,
    pub(crate) verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Steps,
    Same,
    ServerSideRefuses,
    ClientSideRefuses,
    RefusedByAll,
    Known,
    Unexplained,
}

const ROWS: [(Row, &str); 7] = [
    (Row::Steps, "steps"),
    (Row::Same, "done by all three, with identical objects"),
    (Row::ServerSideRefuses, "refused by server-side Helm, done by client-side Helm and us, with identical objects"),
    (Row::ClientSideRefuses, "refused by client-side Helm, done by server-side Helm; we match one of them"),
    (Row::RefusedByAll, "refused by all three, for the same reason"),
    (Row::Known, "known differences"),
    (Row::Unexplained, "unexplained differences"),
];

impl Step {
    pub(crate) fn of(sides: &Sides<'_>) -> Step {
        Step {
            action: sides.ours.action,
            case: sides.ours.case.clone(),
            done: [sides.client, sides.server, sides.ours].map(|seen| seen.outcome == Outcome::Done),
            refusal: refusal(sides),
            verdict: Verdict::default(),
        }
    }

    fn agreed(&self) -> Row {
        match self.done {
            [true, true, _] => Row::Same,
            [true, false, _] => Row::ServerSideRefuses,
            [false, true, _] => Row::ClientSideRefuses,
            [false, false, _] => Row::RefusedByAll,
        }
    }
}

fn refusal(sides: &Sides<'_>) -> Option<String> {
    match (&sides.client.outcome, &sides.server.outcome) {
        (Outcome::Done, Outcome::Done) => None,
        (Outcome::Done, Outcome::Refused(_, text)) => Some(format!("Helm's server-side apply refuses: {text}")),
        (Outcome::Refused(_, text), Outcome::Done) => Some(format!("Helm's client refuses: {text}")),
        (Outcome::Refused(_, text), Outcome::Refused(..)) => Some(format!("Helm refuses: {text}")),
    }
}

impl Report {
    pub(crate) fn new(charts: Vec<ChartReport>, restart: Restart, wanted: usize, known: &mut known::List) -> Report {
        let mut report = Report::default();
        charts.iter().for_each(|chart| report.add_chart(chart, known));
        report.add_restart(restart, known);
        for chart in charts.len()..wanted {
            report.fail(format!("chart {} of {wanted} did not start: time limit reached", chart + 1));
        }
        let compared: BTreeSet<&str> = charts.iter().map(|chart| chart.chart.as_str()).collect();
        for entry in known.stale(&compared) {
            report.fail(format!(
                "known difference no longer occurs: {} {} {} ({})",
                entry.chart, entry.what, entry.at, entry.reason
            ));
        }
        report
    }

    /// Returns whether every difference is known.
    pub fn passed(&self) -> bool {
        self.unexplained == 0
    }

    /// Returns the report: lines, and a table in Markdown.
    pub fn text(&self) -> String {
        let mut text = self.lines.join("\n");
        let _ = write!(text, "\n\n| | install | upgrade | uninstall |\n|---|---|---|---|\n");
        for (row, name) in ROWS {
            let count = |action| self.rows.get(&(row, action)).copied().unwrap_or_default();
            let counts = [Action::Install, Action::Upgrade, Action::Uninstall].map(count);
            if counts != [0; 3] || matches!(row, Row::Steps | Row::Unexplained) {
                let _ = writeln!(text, "| {name} | {} | {} | {} |", counts[0], counts[1], counts[2]);
            }
        }
        let totals = &self.totals;
        let _ = write!(
            text,
            "\n{} objects. Places that are random in Helm or server-assigned: {}. Integers that Helm reads as floats: {}. Where Helm's modes differ, \
             we match client-side {} times and server-side {} times.\n{} releases had no new revision after three new kinds and a restart.\n",
            totals.objects, totals.random, totals.integers, totals.as_client, totals.as_server, self.releases,
        );
        let _ = writeln!(text, "{} unexplained", self.unexplained);
        text
    }

    fn add_chart(&mut self, chart: &ChartReport, known: &mut known::List) {
        for step in &chart.steps {
            self.count(Row::Steps, step.action);
            self.totals.add(&step.verdict);
            let place = format!("{} {} {:?}", chart.chart, step.case, step.action);
            self.lines.extend(step.refusal.iter().map(|text| format!("refused {place}: {}", first_line(text))));
            let unknown = self.add_differences(&place, &chart.chart, step, known);
            let row = match (unknown, step.verdict.differences.is_empty()) {
                (0, true) => step.agreed(),
                (0, false) => Row::Known,
                _ => Row::Unexplained,
            };
            self.count(row, step.action);
        }
    }

    /// Adds a step's differences; returns the number of unknown ones.
    fn add_differences(&mut self, place: &str, chart: &str, step: &Step, known: &mut known::List) -> usize {
        let mut unknown = 0;
        for difference in &step.verdict.differences {
            match known.reason(chart, &step.case, difference) {
                Some(reason) => self.lines.push(format!("known {place}: {}: {reason}", at(difference))),
                None => {
                    unknown += 1;
                    self.fail(format!("DIFFERS {place}: {}", describe(difference)));
                }
            }
        }
        unknown
    }

    fn add_restart(&mut self, restart: Restart, known: &mut known::List) {
        self.releases = restart.releases;
        for (chart, record) in restart.changed {
            let difference =
                Difference { what: "restart".into(), at: String::new(), helm: String::new(), ours: record };
            match known.reason(&chart, "", &difference) {
                Some(reason) => self.lines.push(format!("known {chart} restart: {reason}")),
                None => self
                    .fail(format!("DIFFERS {chart}: record {} is new or changed after the restart", difference.ours)),
            }
        }
    }

    fn count(&mut self, row: Row, action: Action) {
        *self.rows.entry((row, action)).or_default() += 1;
    }

    fn fail(&mut self, line: String) {
        self.unexplained += 1;
        self.lines.push(line);
    }
}

impl Verdict {
    fn add(&mut self, other: &Verdict) {
        self.objects += other.objects;
        self.random += other.random;
        self.integers += other.integers;
        self.as_client += other.as_client;
        self.as_server += other.as_server;
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(2 * MAX_VALUE).collect()
}

fn at(difference: &Difference) -> String {
    format!("{} {}", difference.what, difference.at).trim_end().to_owned()
}

fn describe(difference: &Difference) -> String {
    let (helm, ours) = around(&difference.helm, &difference.ours);
    format!("{}\n        helm {helm}\n        ours {ours}", at(difference))
}

/// Cuts both texts around their first difference.
fn around(helm: &str, ours: &str) -> (String, String) {
    let same = helm.chars().zip(ours.chars()).take_while(|(a, b)| a == b).count();
    let start = if helm.len().max(ours.len()) <= MAX_VALUE { 0 } else { same.saturating_sub(40) };
    let cut = |text: &str| text.chars().skip(start).take(MAX_VALUE).collect();
    (cut(helm), cut(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(done: [bool; 3], differences: Vec<Difference>) -> Step {
        let verdict = Verdict { differences, objects: 2, ..Verdict::default() };
        Step { action: Action::Install, case: "default".into(), done, refusal: None, verdict }
    }

    fn difference(at: &str) -> Difference {
        Difference { what: "ConfigMap ns/x".into(), at: at.into(), helm: "1".into(), ours: "2".into() }
    }

    fn report(steps: Vec<Step>, restart: Restart, wanted: usize) -> Report {
        let list = "[{chart: c, what: ConfigMap, at: /data, reason: that is why}, {chart: c, what: restart, ours: v2, reason: so}]";
        let mut known = known::List::read(list).unwrap();
        Report::new(vec![ChartReport { chart: "c".into(), steps }], restart, wanted, &mut known)
    }

    fn known_restart() -> Restart {
        Restart { releases: 1, changed: vec![("c".into(), "x.v2".into())] }
    }

    #[test]
    fn each_step_is_counted_once() {
        let steps = vec![
            step([true; 3], vec![]),
            step([true, false, true], vec![]),
            step([false, true, true], vec![]),
            step([false; 3], vec![]),
            step([true; 3], vec![difference("/data")]),
        ];
        let report = report(steps, known_restart(), 1);
        assert!(report.passed(), "{}", report.text());
        let text = report.text();
        for (row, name) in ROWS.iter().filter(|(row, _)| !matches!(row, Row::Steps | Row::Unexplained)) {
            assert!(text.contains(&format!("| {name} | 1 | 0 | 0 |")), "{row:?}: {text}");
        }
        assert!(text.contains("| steps | 5 | 0 | 0 |") && text.contains("\n10 objects"), "{text}");
        assert!(text.contains("known c default Install: ConfigMap ns/x /data: that is why"), "{text}");
    }

    #[test]
    fn an_unknown_difference_is_shown_and_fails_the_report() {
        let steps = vec![step([true; 3], vec![difference("/data"), difference("/other")])];
        let report = report(steps, known_restart(), 1);
        assert!(!report.passed());
        assert!(
            report.text().contains("DIFFERS c default Install: ConfigMap ns/x /other\n        helm 1\n        ours 2")
        );
        assert!(
            report.text().contains("| unexplained differences | 1 | 0 | 0 |")
                && report.text().ends_with("1 unexplained\n")
        );
    }

    #[test]
    fn stale_entries_skipped_charts_and_new_revisions_fail_the_report() {
        let known = || vec![step([true; 3], vec![difference("/data")])];
        let lines = |report: &Report| report.lines.join("\n");
        let stale = report(known(), Restart::default(), 1);
        assert!(
            !stale.passed() && lines(&stale).contains("known difference no longer occurs: c restart"),
            "{}",
            lines(&stale)
        );
        let late = report(known(), known_restart(), 2);
        assert!(!late.passed() && lines(&late).contains("chart 2 of 2 did not start"), "{}", lines(&late));
        let changed = Restart { releases: 1, changed: vec![("c".into(), "x.v2".into()), ("c".into(), "x.v3".into())] };
        let revised = report(known(), changed, 1);
        assert!(!revised.passed() && lines(&revised).contains("record x.v3 is new or changed"), "{}", lines(&revised));
    }

    #[test]
    fn long_values_are_cut_around_their_first_difference() {
        let (helm, ours) = (format!("{}a", "x".repeat(500)), format!("{}b", "x".repeat(500)));
        assert_eq!(around(&helm, &ours), (format!("{}a", "x".repeat(40)), format!("{}b", "x".repeat(40))));
        assert_eq!(around("a", "b"), ("a".to_owned(), "b".to_owned()));
    }
}
