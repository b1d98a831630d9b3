//! Gauges of the custom resources by readiness and reason, of those that are left alone or pinned, of the deployed
//! charts, and of the recorded revisions. They are counted when they are scraped, so nothing has to be kept up to date.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use golibs::semver::Version;
use helm_release::kube::intern;
use outside::sync;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// The status and reason of a condition.
pub(crate) type Readiness = (Arc<str>, Arc<str>);

/// The name and version of a deployed chart.
pub(crate) type Deployed = (Arc<str>, Arc<str>);

/// The counts of a controller's resources.
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// The resources by status and reason of `Ready`. The reasons are a fixed set.
    pub(crate) ready: BTreeMap<Readiness, usize>,
    pub(crate) charts: BTreeMap<Deployed, usize>,
    /// The number of recorded revisions.
    pub(crate) revisions: usize,
    /// The resources that are left alone, by the annotation that requests it; the author's code counts as `pause`. Zeros
    /// are exported, so that a query finds the series before the first such resource.
    pub(crate) left_alone: BTreeMap<&'static str, usize>,
    /// The number of resources whose release is at the revision that a person pins it to.
    pub(crate) pinned: usize,
    /// How far the rollout is, if the watch has steps for it.
    pub(crate) rollout: Option<RolloutCount>,
}

/// How far a rollout is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RolloutCount {
    /// One of [`PHASES`]; `None`: no rollout is under way.
    pub(crate) phase: Option<&'static str>,
    /// The step, starting at 1; 0 without a rollout.
    pub(crate) step: usize,
    pub(crate) steps: usize,
    /// The share of the releases that it has reached.
    pub(crate) upgraded: f64,
}

/// The phases of a rollout. Each has a series, so that a query finds it before the first rollout.
pub(crate) const PHASES: [&str; 4] = ["moving", "baking", "halted", "rolled-back"];

impl Count {
    /// Counts a deployed chart: `shop-web-0.2.0-rc.1`.
    pub(crate) fn add_chart(&mut self, chart: &str) {
        *self.charts.entry(name_and_version(chart)).or_default() += 1;
    }
}

/// Splits a chart's name from its version. Both may contain dashes, and Helm accepts versions that are not strictly
/// semantic.
fn name_and_version(chart: &str) -> Deployed {
    let find = |is_version: fn(&str) -> bool| {
        chart.match_indices('-').map(|(at, _)| at).find(|at| is_version(&chart[at + 1..]))
    };
    let strict = || find(|text| Version::parse_strict(text).is_ok());
    match strict().or_else(|| find(|text| Version::parse(text).is_ok())) {
        Some(at) => (intern(&chart[..at]), intern(&chart[at + 1..])),
        None => (intern(chart), intern("")),
    }
}

/// Counts the resources of a controller.
pub(crate) trait Census: Send + Sync {
    fn count(&self) -> Count;
}

/// The maximum number of charts of one controller with separate series. A rollout has two, and failed rollouts leave a
/// few more.
const MAX_CHARTS: usize = 20;

/// The censuses of all controllers. A controller that has ended is dropped.
#[derive(Clone, Default)]
pub(super) struct Censuses(Arc<Mutex<Vec<Counted>>>);

/// The name of a controller, and its census.
type Counted = (Arc<str>, Weak<dyn Census>);

type Label = (&'static str, Arc<str>);

/// A gauge: its name, its help text, and its values by their labels.
struct Gauges<const N: usize> {
    name: &'static str,
    help: &'static str,
    values: Vec<([Label; N], usize)>,
}

impl<const N: usize> Gauges<N> {
    fn encode(self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        for (labels, value) in self.values {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Returns the most frequent charts, and the sum of the others.
fn most_frequent(charts: BTreeMap<Deployed, usize>) -> Vec<(Deployed, usize)> {
    let mut all: Vec<_> = charts.into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let others: usize = all.drain(all.len().min(MAX_CHARTS)..).map(|(_, count)| count).sum();
    all.extend((others > 0).then(|| (("other".into(), "".into()), others)));
    all
}

impl Censuses {
    pub(super) fn add(&self, controller: &Arc<str>, census: Weak<dyn Census>) {
        self.lock().push((controller.clone(), census));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Counted>> {
        sync::lock(&self.0)
    }
}

impl fmt::Debug for Censuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Censuses({})", self.lock().len())
    }
}

impl Collector for Censuses {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut all = self.lock();
        all.retain(|(_, census)| census.strong_count() > 0);
        let counts: Vec<(Arc<str>, Count)> = all
            .iter()
            .filter_map(|(controller, census)| Some((controller.clone(), census.upgrade()?.count())))
            .collect();
        drop(all);
        let (mut ready, mut charts, mut revisions, mut left_alone) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut pinned, mut rollouts) = (Vec::new(), Vec::new());
        for (controller, count) in counts {
            rollouts.extend(count.rollout.map(|rollout| (controller.clone(), rollout)));
            let controller = ("controller", controller);
            revisions.push(([controller.clone()], count.revisions));
            pinned.push(([controller.clone()], count.pinned));
            let labels = |(ready, reason)| [controller.clone(), ("ready", ready), ("reason", reason)];
            ready.extend(count.ready.into_iter().map(|(of, count)| (labels(of), count)));
            let labels = |(chart, version)| [("chart", chart), controller.clone(), ("version", version)];
            charts.extend(most_frequent(count.charts).into_iter().map(|(of, count)| (labels(of), count)));
            let labels = |annotation: &str| [("annotation", annotation.into()), controller.clone()];
            left_alone.extend(count.left_alone.into_iter().map(|(of, count)| (labels(of), count)));
        }
        let help = "Custom resources by controller, and by status and reason of Ready.";
        Gauges { name: "helm_operator_resources", help, values: ready }.encode(&mut encoder)?;
        let help = "Deployed releases by controller, chart and version.";
        Gauges { name: "helm_operator_releases", help, values: charts }.encode(&mut encoder)?;
        let help = "Recorded revisions of all releases by controller.";
        Gauges { name: "helm_operator_revisions", help, values: revisions }.encode(&mut encoder)?;
        let help = "Custom resources that are left alone, by controller and annotation; pause includes the operator's own code.";
        Gauges { name: "helm_operator_suspended_resources", help, values: left_alone }.encode(&mut encoder)?;
        let help = "Custom resources whose release stays at a pinned revision, by controller.";
        Gauges { name: "helm_operator_pinned_resources", help, values: pinned }.encode(&mut encoder)?;
        encode_rollouts(&rollouts, &mut encoder)
    }
}

/// Writes how far each rollout is.
fn encode_rollouts(all: &[(Arc<str>, RolloutCount)], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let of = |number: fn(&RolloutCount) -> usize| {
        all.iter().map(|(controller, one)| ([("controller", controller.clone())], number(one))).collect()
    };
    let help = "The step of the rollout by controller, starting at 1; 0 without a rollout.";
    Gauges { name: "helm_operator_rollout_step", help, values: of(|one| one.step) }.encode(encoder)?;
    let help = "The number of steps of a rollout by controller.";
    Gauges { name: "helm_operator_rollout_steps", help, values: of(|one| one.steps) }.encode(encoder)?;
    let phases = all.iter().flat_map(|(controller, one)| {
        let labels = |phase: &str| [("controller", controller.clone()), ("phase", phase.into())];
        PHASES.map(|phase| (labels(phase), usize::from(one.phase == Some(phase))))
    });
    let help = "1 for what the rollout is doing, by controller and phase.";
    Gauges { name: "helm_operator_rollout_phase", help, values: phases.collect() }.encode(encoder)?;
    let help = "The share of the releases that the rollout has reached, by controller; 1 without a rollout.";
    let mut family =
        encoder.encode_descriptor("helm_operator_rollout_upgraded_ratio", help, None, MetricType::Gauge)?;
    for (controller, one) in all {
        let labels = [("controller", controller.clone())];
        ConstGauge::new(one.upgraded).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use controller::metrics::{Format, Metrics};

    use super::super::ChartMetrics;
    use super::*;

    #[test]
    fn a_charts_name_and_version_are_told_apart() {
        for (chart, name, version) in [
            ("shop-0.2.0", "shop", "0.2.0"),
            ("shop-web-0.2.0-rc.1", "shop-web", "0.2.0-rc.1"),
            ("php-7-0.1.0", "php-7", "0.1.0"),
            ("shop-1.2", "shop", "1.2"),
            ("shop", "shop", ""),
        ] {
            assert_eq!(name_and_version(chart), (name.into(), version.into()), "{chart}");
        }
    }

    #[test]
    fn only_the_most_frequent_charts_have_series_of_their_own() {
        let chart = |n: usize| (("shop".into(), format!("0.{n}.0").into()), n + 1);
        let counted = most_frequent((0..MAX_CHARTS + 2).map(chart).collect());
        assert_eq!(counted.len(), MAX_CHARTS + 1);
        assert_eq!(counted[0], chart(MAX_CHARTS + 1));
        assert_eq!(counted[MAX_CHARTS], (("other".into(), "".into()), 1 + 2));
        assert_eq!(most_frequent([chart(3)].into()), [chart(3)]);
    }

    /// A controller in the middle of a rollout.
    struct Halted;

    impl Census for Halted {
        fn count(&self) -> Count {
            let rollout = RolloutCount { phase: Some("halted"), step: 2, steps: 4, upgraded: 0.25 };
            Count { rollout: Some(rollout), ..Count::default() }
        }
    }

    #[test]
    fn a_rollout_has_a_series_for_each_phase() {
        let (metrics, halted): (_, Arc<dyn Census>) = (Metrics::default(), Arc::new(Halted));
        ChartMetrics::new(&metrics).resources(&"shop-controller".into(), Arc::downgrade(&halted));
        let text = metrics.encode(Format::Classic);
        for line in [
            r#"helm_operator_rollout_phase{controller="shop-controller",phase="moving"} 0"#,
            r#"helm_operator_rollout_phase{controller="shop-controller",phase="halted"} 1"#,
            r#"helm_operator_rollout_step{controller="shop-controller"} 2"#,
            r#"helm_operator_rollout_steps{controller="shop-controller"} 4"#,
            r#"helm_operator_rollout_upgraded_ratio{controller="shop-controller"} 0.25"#,
        ] {
            assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
        }
    }
}
