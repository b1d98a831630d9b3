//! Decides, without I/O, what the status says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::api::memcached_backup::{MemcachedBackup, MemcachedBackupStatus};

/// Reason of `Ready` when all pods are ready.
pub(super) const READY: &str = "PodsReady";
/// Reason of `Ready` while pods start or stop.
pub(super) const PROGRESSING: &str = "Progressing";

/// What exists.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) deployment: Option<Deployed>,
    /// Pod names, sorted.
    pub(super) nodes: Vec<String>,
}

/// The relevant parts of the Deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Deployed {
    pub(super) replicas: i32,
    pub(super) ready: i32,
    /// Whether `ready` refers to the current generation.
    pub(super) current: bool,
}

/// Returns the next status; equal to the old one if nothing changed. `problem` is a failure's reason and message.
pub(super) fn next_status(
    backup: &MemcachedBackup,
    observed: Observed,
    problem: Option<(&str, String)>,
    now: Timestamp,
) -> MemcachedBackupStatus {
    let (status, reason, message) = match problem {
        Some((reason, message)) => ("False", reason, message),
        None if is_ready(backup, &observed) => ("True", READY, ready_message(backup, &observed)),
        None => ("False", PROGRESSING, ready_message(backup, &observed)),
    };
    let before = ready(backup.status.as_ref());
    let since = before.filter(|b| b.status == status).map_or(Time(to_seconds(now)), |b| b.last_transition_time.clone());
    let generation = backup.metadata.generation;
    MemcachedBackupStatus {
        node_count: i32::try_from(observed.nodes.len()).unwrap_or(i32::MAX),
        nodes: observed.nodes,
        observed_generation: generation,
        conditions: vec![Condition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: generation,
            last_transition_time: since,
        }],
    }
}

pub(super) fn ready(status: Option<&MemcachedBackupStatus>) -> Option<&Condition> {
    status?.conditions.iter().find(|c| c.type_ == "Ready")
}

fn is_ready(backup: &MemcachedBackup, observed: &Observed) -> bool {
    let size = backup.spec.size;
    let nodes = i32::try_from(observed.nodes.len()).unwrap_or(i32::MAX);
    observed.deployment == Some(Deployed { replicas: size, ready: size, current: true }) && nodes == size
}

fn ready_message(backup: &MemcachedBackup, observed: &Observed) -> String {
    let ready = observed.deployment.map_or(0, |d| d.ready);
    format!("{ready} of {} pods are ready", backup.spec.size)
}

/// Truncates to seconds, as Kubernetes does; a fraction would differ from the stored value.
fn to_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::memcached_backup::MemcachedBackupSpec;

    fn backup(size: i32) -> MemcachedBackup {
        let mut backup = MemcachedBackup::new("b", MemcachedBackupSpec { size });
        backup.metadata.generation = Some(1);
        backup
    }

    fn observed(deployment: Option<(i32, i32)>, nodes: usize) -> Observed {
        let deployment = deployment.map(|(replicas, ready)| Deployed { replicas, ready, current: true });
        Observed { deployment, nodes: (0..nodes).map(|n| format!("pod-{n}")).collect() }
    }

    #[test]
    fn ready_means_exactly_the_wanted_pods_exist_and_are_ready() {
        let check = |size, deployment, nodes, expected: &str| {
            let status = next_status(&backup(size), observed(deployment, nodes), None, Timestamp::UNIX_EPOCH);
            let condition = ready(Some(&status)).unwrap();
            let text = format!("{} {}: {}", condition.status, condition.reason, condition.message);
            assert_eq!(text, expected);
        };
        check(2, None, 0, "False Progressing: 0 of 2 pods are ready");
        check(2, Some((2, 1)), 2, "False Progressing: 1 of 2 pods are ready");
        check(2, Some((2, 2)), 2, "True PodsReady: 2 of 2 pods are ready");
        check(2, Some((2, 2)), 3, "False Progressing: 2 of 2 pods are ready");
        check(2, Some((3, 2)), 2, "False Progressing: 2 of 2 pods are ready");
        check(0, Some((0, 0)), 0, "True PodsReady: 0 of 0 pods are ready");
        check(0, Some((0, 0)), 1, "False Progressing: 0 of 0 pods are ready");
    }

    #[test]
    fn a_stale_count_of_ready_pods_is_ignored() {
        let mut observed = observed(Some((2, 2)), 2);
        observed.deployment = observed.deployment.map(|d| Deployed { current: false, ..d });
        let status = next_status(&backup(2), observed, None, Timestamp::UNIX_EPOCH);
        assert_eq!(ready(Some(&status)).unwrap().status, "False");
    }

    #[test]
    fn a_conditions_time_changes_only_with_its_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut backup = backup(2);
        let starting = || observed(Some((2, 1)), 2);
        backup.status = Some(next_status(&backup, starting(), None, at(10)));
        assert_eq!(next_status(&backup, starting(), None, at(20)), backup.status.clone().unwrap());
        let fewer = next_status(&backup, observed(Some((2, 1)), 1), None, at(30));
        assert_eq!(ready(Some(&fewer)).unwrap().last_transition_time.0, at(10));
        let all = next_status(&backup, observed(Some((2, 2)), 2), None, at(40));
        assert_eq!(ready(Some(&all)).unwrap().last_transition_time.0, at(40));
    }

    #[test]
    fn a_failure_is_reported_with_its_reason() {
        let problem = Some(("WriteFailed", "no".into()));
        let status = next_status(&backup(2), observed(None, 0), problem, Timestamp::UNIX_EPOCH);
        let condition = ready(Some(&status)).unwrap();
        assert_eq!((&*condition.status, &*condition.reason, &*condition.message), ("False", "WriteFailed", "no"));
    }
}
