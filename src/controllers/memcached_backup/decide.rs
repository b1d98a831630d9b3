//! Decides, without I/O: the next step, and the status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::api::memcached_backup::MemcachedBackupStatus;

/// Reason of `Ready` when all pods are ready.
pub(super) const READY: &str = "PodsReady";
/// Reason of `Ready` while pods start or stop.
pub(super) const PROGRESSING: &str = "Progressing";

/// The observed state.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) size: i32,
    pub(super) generation: Option<i64>,
    pub(super) deployment: Option<Deployed>,
    /// Pod names, sorted.
    pub(super) nodes: Vec<String>,
    pub(super) status: Option<MemcachedBackupStatus>,
}

/// The relevant parts of the Deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Deployed {
    pub(super) replicas: i32,
    pub(super) ready: i32,
    /// Whether `ready` refers to the current generation.
    pub(super) current: bool,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Nothing,
    Create,
    Scale { from: i32, to: i32 },
}

/// Decides what to do next.
pub(super) fn next_step(observed: &Observed) -> Step {
    match observed.deployment {
        None => Step::Create,
        Some(Deployed { replicas, .. }) if replicas != observed.size => {
            Step::Scale { from: replicas, to: observed.size }
        }
        Some(_) => Step::Nothing,
    }
}

/// Returns the next status; equal to the old one if nothing changed. `problem` is a failure's reason and message.
pub(super) fn next_status(
    observed: &Observed,
    problem: Option<(&str, String)>,
    now: Timestamp,
) -> MemcachedBackupStatus {
    let (status, reason, message) = match problem {
        Some((reason, message)) => ("False", reason, message),
        None if is_ready(observed) => ("True", READY, ready_message(observed)),
        None => ("False", PROGRESSING, ready_message(observed)),
    };
    let before = ready(observed.status.as_ref());
    let since = before.filter(|b| b.status == status).map_or(Time(to_seconds(now)), |b| b.last_transition_time.clone());
    MemcachedBackupStatus {
        node_count: i32::try_from(observed.nodes.len()).unwrap_or(i32::MAX),
        nodes: observed.nodes.clone(),
        observed_generation: observed.generation,
        conditions: vec![Condition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: observed.generation,
            last_transition_time: since,
        }],
    }
}

/// Builds the `Ready` condition.
pub(super) fn ready(status: Option<&MemcachedBackupStatus>) -> Option<&Condition> {
    status?.conditions.iter().find(|c| c.type_ == "Ready")
}

fn is_ready(observed: &Observed) -> bool {
    let nodes = i32::try_from(observed.nodes.len()).unwrap_or(i32::MAX);
    let wanted = Deployed { replicas: observed.size, ready: observed.size, current: true };
    observed.deployment == Some(wanted) && nodes == observed.size
}

fn ready_message(observed: &Observed) -> String {
    let ready = observed.deployment.map_or(0, |d| d.ready);
    format!("{ready} of {} pods are ready", observed.size)
}

/// Truncates to seconds, as Kubernetes does; a fraction would differ from the stored value.
fn to_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(size: i32, deployment: Option<(i32, i32)>, nodes: usize) -> Observed {
        let deployment = deployment.map(|(replicas, ready)| Deployed { replicas, ready, current: true });
        let nodes = (0..nodes).map(|n| format!("pod-{n}")).collect();
        Observed { size, generation: Some(1), deployment, nodes, status: None }
    }

    #[test]
    fn a_missing_deployment_is_created_and_a_different_size_scaled() {
        let check = |size, deployment, expected| assert_eq!(next_step(&observed(size, deployment, 0)), expected);
        check(2, None, Step::Create);
        check(0, None, Step::Create);
        check(2, Some((2, 0)), Step::Nothing);
        check(4, Some((2, 2)), Step::Scale { from: 2, to: 4 });
        check(0, Some((4, 4)), Step::Scale { from: 4, to: 0 });
    }

    #[test]
    fn ready_means_exactly_the_wanted_pods_exist_and_are_ready() {
        let check = |size, deployment, nodes, expected: &str| {
            let status = next_status(&observed(size, deployment, nodes), None, Timestamp::UNIX_EPOCH);
            let condition = ready(Some(&status)).unwrap();
            let text = format!("{} {}: {}", condition.status, condition.reason, condition.message);
            assert_eq!(text, expected);
        };
        check(2, None, 0, "False Progressing: 0 of 2 pods are ready");
        check(2, Some((2, 1)), 2, "False Progressing: 1 of 2 pods are ready");
        check(2, Some((2, 2)), 2, "True PodsReady: 2 of 2 pods are ready");
        check(2, Some((2, 2)), 3, "False Progressing: 2 of 2 pods are ready");
        check(0, Some((0, 0)), 0, "True PodsReady: 0 of 0 pods are ready");
        check(0, Some((0, 0)), 1, "False Progressing: 0 of 0 pods are ready");
    }

    #[test]
    fn a_stale_count_of_ready_pods_is_ignored() {
        let mut observed = observed(2, Some((2, 2)), 2);
        observed.deployment = observed.deployment.map(|d| Deployed { current: false, ..d });
        let status = next_status(&observed, None, Timestamp::UNIX_EPOCH);
        assert_eq!(ready(Some(&status)).unwrap().status, "False");
    }

    #[test]
    fn a_conditions_time_changes_only_with_its_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut now = observed(2, Some((2, 1)), 2);
        now.status = Some(next_status(&now, None, at(10)));
        assert_eq!(next_status(&now, None, at(20)), now.status.clone().unwrap());
        now.nodes.pop();
        assert_eq!(ready(Some(&next_status(&now, None, at(30)))).unwrap().last_transition_time.0, at(10));
        let all = Observed { status: now.status, ..observed(2, Some((2, 2)), 2) };
        assert_eq!(ready(Some(&next_status(&all, None, at(40)))).unwrap().last_transition_time.0, at(40));
    }

    #[test]
    fn a_failure_is_reported_with_its_reason() {
        let status = next_status(&observed(2, None, 0), Some(("CreateFailed", "no".into())), Timestamp::UNIX_EPOCH);
        let condition = ready(Some(&status)).unwrap();
        assert_eq!((&*condition.status, &*condition.reason, &*condition.message), ("False", "CreateFailed", "no"));
    }
}
