//! Metrics of releases: how long actions and hooks take, and which drift is repaired.
//!
//! Labels are bounded: kinds and events come from charts. Users may invent names of field managers, so only a few of
//! them become labels.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helm_release::action::Action;
use helm_release::release::{Hook, HookEvent, HookPhase};
use outside::sync;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::ChartMetrics;

/// The upper bounds of the buckets for actions and hooks in seconds: from an install of two objects to a migration.
const BUCKETS: [f64; 14] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0];

/// The maximum number of field managers that become labels.
const MAX_MANAGERS: usize = 20;
/// The maximum length of a field manager's name in a label; Kubernetes allows 128 characters.
const MAX_MANAGER: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    action: &'static str,
    controller: Arc<str>,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HookLabels {
    controller: Arc<str>,
    event: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RepairLabels {
    controller: Arc<str>,
    kind: Arc<str>,
    manager: Arc<str>,
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// The families of metrics, which [`Releases::register`] adds to a registry.
#[derive(Debug)]
pub(super) struct Releases {
    actions: Seconds<ActionLabels>,
    hooks: Seconds<HookLabels>,
    repairs: Family<RepairLabels, Counter>,
    managers: Mutex<BTreeSet<Arc<str>>>,
}

impl Releases {
    pub(super) fn new() -> Releases {
        Releases {
            actions: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            hooks: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            repairs: Family::default(),
            managers: Mutex::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let actions = "Duration of installs, upgrades, rollbacks and uninstalls, hooks included, by controller, action and result";
        registry.register("helm_operator_action_duration_seconds", actions, self.actions.clone());
        let hooks = "Duration of the charts' hooks by controller, event and result";
        registry.register("helm_operator_hook_duration_seconds", hooks, self.hooks.clone());
        let repairs = "Objects whose drift was repaired by controller, kind and the field manager that changed them";
        registry.register("helm_operator_drift_repairs", repairs, self.repairs.clone());
    }

    /// Returns the label of a field manager: its name, or `other` once there are too many.
    fn manager(&self, name: Option<&str>) -> Arc<str> {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return "unknown".into() };
        let name: String = name.chars().take(MAX_MANAGER).collect();
        let mut known = sync::lock(&self.managers);
        if let Some(known) = known.get(&*name) {
            return known.clone();
        }
        if known.len() >= MAX_MANAGERS {
            return "other".into();
        }
        let name: Arc<str> = name.into();
        known.insert(name.clone());
        name
    }
}

impl ChartMetrics {
    /// Counts an action that ended. `result` is one of a few words.
    pub(crate) fn acted(&self, controller: &Arc<str>, action: Action, result: &'static str, took: Duration) {
        let labels = ActionLabels { action: action.as_str(), controller: controller.clone(), result };
        self.0.releases.actions.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Counts a hook that ended.
    pub(crate) fn hook_ran(&self, controller: &Arc<str>, hook: &Hook, event: HookEvent, took: Duration) {
        let result = if hook.last_run.phase == HookPhase::Succeeded { "success" } else { "failed" };
        let labels = HookLabels { controller: controller.clone(), event: event.as_str(), result };
        self.0.releases.hooks.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Counts an object whose drift was repaired, with the field manager that changed it, if known.
    pub(crate) fn repaired(&self, controller: &Arc<str>, kind: &Arc<str>, manager: Option<&str>) {
        let manager = self.0.releases.manager(manager);
        let labels = RepairLabels { controller: controller.clone(), kind: kind.clone(), manager };
        self.0.releases.repairs.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use controller::metrics::{Format, Metrics};
    use helm_release::release::LastRun;

    use super::*;

    fn has(metrics: &Metrics, line: &str) -> bool {
        metrics.encode(Format::Classic).lines().any(|one| one == line)
    }

    #[test]
    fn actions_hooks_and_repairs_are_counted_by_what_they_are() {
        let (metrics, shop) = (Metrics::default(), Arc::from("shop-controller"));
        let counts = ChartMetrics::new(&metrics);
        counts.acted(&shop, Action::Upgrade, "success", Duration::from_secs(2));
        let hook = Hook { last_run: LastRun { phase: HookPhase::Failed, ..LastRun::default() }, ..Hook::default() };
        counts.hook_ran(&shop, &hook, HookEvent::PreUpgrade, Duration::from_secs(70));
        counts.repaired(&shop, &"Deployment".into(), Some("kubectl-scale"));
        counts.repaired(&shop, &"ConfigMap".into(), None);
        for line in [
            r#"helm_operator_action_duration_seconds_bucket{le="2.5",action="upgrade",controller="shop-controller",result="success"} 1"#,
            r#"helm_operator_action_duration_seconds_bucket{le="1.0",action="upgrade",controller="shop-controller",result="success"} 0"#,
            r#"helm_operator_hook_duration_seconds_sum{controller="shop-controller",event="pre-upgrade",result="failed"} 70.0"#,
            r#"helm_operator_drift_repairs_total{controller="shop-controller",kind="Deployment",manager="kubectl-scale"} 1"#,
            r#"helm_operator_drift_repairs_total{controller="shop-controller",kind="ConfigMap",manager="unknown"} 1"#,
        ] {
            assert!(has(&metrics, line), "no {line} in\n{}", metrics.encode(Format::Classic));
        }
    }

    #[test]
    fn names_that_anyone_may_choose_do_not_make_series_without_end() {
        let (metrics, shop) = (Metrics::default(), Arc::from("shop-controller"));
        let counts = ChartMetrics::new(&metrics);
        for n in 0..1000 {
            counts.repaired(&shop, &"ConfigMap".into(), Some(&format!("{n}{}", "x".repeat(100))));
        }
        let text = metrics.encode(Format::Classic);
        let series: Vec<&str> =
            text.lines().filter(|line| line.starts_with("helm_operator_drift_repairs_total{")).collect();
        assert_eq!(series.len(), MAX_MANAGERS + 1);
        assert!(series.iter().any(|line| line.ends_with("manager=\"other\"} 980")));
        assert!(series.iter().all(|line| line.len() < 200), "{series:?}");
    }
}
