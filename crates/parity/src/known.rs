//! Differences that are known, each with its reason. One that is no longer there has to go from the list.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde::Deserialize;

use crate::compare::Difference;

/// The project's list.
pub const OURS: &str = include_str!("../known.yaml");

/// One known difference, or several of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The chart's name, or `*` for any.
    pub chart: String,
    /// Part of the case's name; empty: any case.
    #[serde(default)]
    pub case: String,
    /// How [`Difference::what`] begins.
    pub what: String,
    /// How [`Difference::at`] begins; empty: anywhere.
    #[serde(default)]
    pub at: String,
    /// Part of what the operator has; empty: anything.
    #[serde(default)]
    pub ours: String,
    /// Why it is so.
    pub reason: String,
}

/// The known differences, and which of them were seen.
#[derive(Debug, Default)]
pub struct List {
    all: Vec<Known>,
    seen: BTreeSet<usize>,
}

impl List {
    /// Reads a list in YAML.
    ///
    /// # Errors
    /// It is no list of these fields.
    pub fn read(text: &str) -> anyhow::Result<List> {
        let all = serde_yaml::from_str(text).context("cannot read the list of known differences")?;
        Ok(List { all, seen: BTreeSet::new() })
    }

    /// The reason, if the difference is known.
    pub fn reason(&mut self, chart: &str, case: &str, difference: &Difference) -> Option<String> {
        let index = self.all.iter().position(|known| known.is(chart, case, difference))?;
        self.seen.insert(index);
        Some(self.all[index].reason.clone())
    }

    /// Entries for charts that were compared, which did not differ so.
    #[must_use]
    pub fn stale(&self, compared: &BTreeSet<&str>) -> Vec<&Known> {
        let all = self.all.iter().enumerate();
        let stale = all.filter(|(index, known)| !self.seen.contains(index) && compared.contains(known.chart.as_str()));
        stale.map(|(_, known)| known).collect()
    }
}

impl Known {
    fn is(&self, chart: &str, case: &str, difference: &Difference) -> bool {
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
    fn a_difference_is_known_by_all_that_its_entry_says() {
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
    fn entries_that_no_longer_differ_are_stale_if_their_chart_was_compared() {
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
