//! Known differences, each with its reason. Entries that no longer occur must be removed.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde::Deserialize;

use crate::compare::Difference;

/// This repository's list.
pub const OURS: &str = include_str!("../known.yaml");

/// One known difference, or a group of similar ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The chart's name, or `*` for any.
    pub chart: String,
    /// Part of the case name; any case if empty.
    #[serde(default)]
    pub case: String,
    /// Prefix of [`Difference::what`].
    pub what: String,
    /// Prefix of [`Difference::at`]; any place if empty.
    #[serde(default)]
    pub at: String,
    /// Part of [`Difference::ours`]; any value if empty.
    #[serde(default)]
    pub ours: String,
    /// Why we differ.
    pub reason: String,
}

/// The known differences, and which of them occurred.
#[derive(Debug, Default)]
pub struct List {
    all: Vec<Known>,
    seen: BTreeSet<usize>,
}

impl List {
    /// Parses a list in YAML.
    ///
    /// # Errors
    /// If the text is not a list of [`Known`].
    pub fn read(text: &str) -> anyhow::Result<List> {
        let all = serde_yaml::from_str(text).context("cannot read the list of known differences")?;
        Ok(List { all, seen: BTreeSet::new() })
    }

    /// Returns the reason if the difference is known, and marks the entry as seen.
    pub fn reason(&mut self, chart: &str, case: &str, difference: &Difference) -> Option<String> {
        let index = self.all.iter().position(|known| known.matches(chart, case, difference))?;
        self.seen.insert(index);
        Some(self.all[index].reason.clone())
    }

    /// Returns the entries of compared charts that did not occur.
    pub fn stale(&self, compared: &BTreeSet<&str>) -> Vec<&Known> {
        let all = self.all.iter().enumerate();
        let stale = all.filter(|(index, known)| !self.seen.contains(index) && compared.contains(known.chart.as_str()));
        stale.map(|(_, known)| known).collect()
    }
}

impl Known {
    fn matches(&self, chart: &str, case: &str, difference: &Difference) -> bool {
        (self.chart == "*" || self.chart == chart)
            && case.contains(&self.case)
            && difference.what.starts_with(&self.what)
            && difference.at.starts_with(&self.at)
            && difference.ours.contains(&self.ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "
- {chart: a, what: ConfigMap, at: /data/x, reason: first}
- {chart: b, case: flip, what: outcome, ours: limit, reason: second}
- {chart: '*', what: Secret, reason: any}
";

    fn difference(what: &str, at: &str, ours: &str) -> Difference {
        Difference { what: what.into(), at: at.into(), helm: String::new(), ours: ours.into() }
    }

    #[test]
    fn an_entry_matches_only_if_all_its_fields_do() {
        let mut list = List::read(LIST).unwrap();
        let mut reason = |chart: &str, case: &str, what: &str, at: &str, ours: &str| {
            list.reason(chart, case, &difference(what, at, ours))
        };
        assert_eq!(reason("a", "default", "ConfigMap ns/x", "/data/x/0", "").as_deref(), Some("first"));
        assert_eq!(reason("b", "flip-err", "outcome", "", "limit x").as_deref(), Some("second"));
        assert_eq!(reason("c", "", "Secret ns/x", "/data", "").as_deref(), Some("any"));
        for (chart, case, what, at, ours) in [
            ("b", "", "ConfigMap ns/x", "/data/x", ""),
            ("a", "", "ConfigMap ns/x", "/data/y", ""),
            ("a", "", "Service ns/x", "/data/x", ""),
            ("b", "default", "outcome", "", "limit"),
            ("b", "flip", "outcome", "", "other"),
        ] {
            assert_eq!(reason(chart, case, what, at, ours), None, "{chart} {case} {what} {at}");
        }
    }

    #[test]
    fn entries_that_did_not_occur_are_stale_if_their_chart_was_compared() {
        let mut list = List::read(LIST).unwrap();
        list.reason("a", "", &difference("ConfigMap x", "/data/x", ""));
        let stale = |charts: &[&str]| {
            list.stale(&charts.iter().copied().collect()).iter().map(|k| k.reason.clone()).collect::<Vec<_>>()
        };
        assert_eq!(stale(&["a", "b"]), ["second"]);
        assert_eq!(stale(&["a"]), [""; 0]);
        assert!(List::read("{}").is_err() && List::read("- {chart: a, odd: b}").is_err());
    }
}
