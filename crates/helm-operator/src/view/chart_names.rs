//! Determines the charts whose label the objects of releases may have: the chart that is served, and those that the
//! releases were deployed with, now or in an earlier revision.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use outside::sync::lock;

/// The maximum number of charts besides the one that is served. Their names are part of a selector in each request.
const MAX_NAMES: usize = 16;

/// Returns the chart that is served and the charts in the texts of each release's status, such as `shop-1.2.3`; of too
/// many, those of the most releases. Anyone may have written a status.
pub(crate) fn of_releases<'c, C: IntoIterator<Item = &'c str>>(
    served: &str,
    releases: impl Iterator<Item = C>,
) -> BTreeSet<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for charts in releases {
        others(served, charts).into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
    }
    let mut others: Vec<(&str, usize)> = counts.into_iter().collect();
    others.sort_by_key(|(_, count)| Reverse(*count));
    let others = others.into_iter().take(MAX_NAMES).map(|(name, _)| name);
    others.chain([served]).map(str::to_owned).collect()
}

/// The charts whose objects a controller's watches select. None is ever removed.
#[derive(Default)]
pub(crate) struct SelectedCharts(Mutex<Selection>);

#[derive(Default)]
struct Selection {
    names: BTreeSet<String>,
    /// Whether watches have started.
    is_used: bool,
}

impl SelectedCharts {
    /// Adds a chart, unless there are too many already. If watches have started without it, passes on the number of
    /// charts before anyone can see the new one, and returns `true`.
    pub(crate) fn add(&self, name: &str, widened: impl FnOnce(usize)) -> bool {
        let mut selection = lock(&self.0);
        let is_late = add(&mut selection.names, name) && selection.is_used;
        if is_late {
            widened(selection.names.len());
        }
        is_late
    }

    /// Begins with the charts of the known releases, and those that were added before.
    pub(crate) fn begin(&self, known: BTreeSet<String>) {
        let mut selection = lock(&self.0);
        // A resource may have come while the charts of the others were counted.
        let early = std::mem::replace(&mut selection.names, known);
        early.iter().for_each(|name| _ = add(&mut selection.names, name));
        selection.is_used = true;
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        lock(&self.0).names.clone()
    }
}

fn add(names: &mut BTreeSet<String>, name: &str) -> bool {
    names.len() <= MAX_NAMES && names.insert(name.to_owned())
}

/// Returns the names of these charts, without the name of the served chart.
pub(crate) fn others<'c>(served: &str, charts: impl IntoIterator<Item = &'c str>) -> BTreeSet<&'c str> {
    charts.into_iter().filter_map(recorded).filter(|name| *name != served).collect()
}

/// Returns the chart's name in a status's text, such as `shop-1.2.3`, if it can be a label.
fn recorded(chart: &str) -> Option<&str> {
    let is_label = |name: &&str| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        name.bytes().all(is_valid) && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
    };
    registry::name_of(chart).filter(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(deployed: &[&str]) -> String {
        of_releases("store", deployed.iter().map(|chart| [*chart])).into_iter().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn objects_may_have_the_label_of_the_served_chart_and_of_those_that_are_deployed() {
        let rows: [(&[&str], &str); 4] = [
            (&[], "store"),
            (&["store-1.0.0", "", "shop"], "store"),
            (&["shop-1.0.0", "shop-2.0.0-rc.1", "web-2-0.1.0", "store-1.0.0"], "shop store web-2"),
            (&["a b-1.0.0", "a,c-1.0.0", "é-1.0.0", "_a-1.0.0", "-1.0.0"], "store"),
        ];
        for (deployed, expected) in rows {
            assert_eq!(names(deployed), expected, "{deployed:?}");
        }
    }

    #[test]
    fn a_chart_is_added_once_while_there_is_room() {
        let charts = SelectedCharts::default();
        let add = |name: &str| {
            let mut number = None;
            assert_eq!(charts.add(name, |charts| number = Some(charts)), number.is_some(), "{name}");
            number
        };
        assert_eq!(add("early"), None, "the watches have not started yet");
        charts.begin(of_releases("store", [["shop-1.0.0"]].into_iter()));
        assert_eq!(["shop", "store", "web", "web"].map(add), [None, None, Some(4), None]);
        assert_eq!(charts.names(), ["early", "shop", "store", "web"].map(str::to_owned).into());
        (0..100).for_each(|number| _ = add(&format!("a{number}")));
        assert_eq!(charts.names().len(), MAX_NAMES + 1);
    }

    #[test]
    fn of_too_many_charts_those_of_the_most_releases_count() {
        let mut all: Vec<String> = (0..100).map(|number| format!("a{number}-1.0.0")).collect();
        all.extend(["shop-1.0.0", "shop-1.1.0"].map(str::to_owned));
        let found = of_releases("store", all.iter().map(|chart| [chart.as_str()]));
        assert_eq!((found.len(), found.contains("shop"), found.contains("store")), (MAX_NAMES + 1, true, true));
    }

    #[test]
    fn a_release_counts_once_for_each_chart_that_it_has_had() {
        let twice = (0..MAX_NAMES).flat_map(|number| [number; 2]).map(|number| vec![format!("a{number}-1.0.0")]);
        let often: Vec<String> = (0..5).map(|minor| format!("web-1.{minor}.0")).chain(["shop-1.0.0".into()]).collect();
        assert_eq!(others("store", often.iter().map(String::as_str)), ["shop", "web"].into());
        let all: Vec<Vec<String>> = twice.chain([often]).collect();
        let found = of_releases("store", all.iter().map(|charts| charts.iter().map(String::as_str)));
        assert_eq!((found.len(), found.contains("web")), (MAX_NAMES + 1, false));
    }
}
