//! Judges whether live objects are ready, and why not, by the rules of kstatus (`sigs.k8s.io/cli-utils/pkg/kstatus`),
//! which Helm 4 uses to wait.
//!
//! Differences: a failed Pod is not ready, a paused Deployment is ready (as for `helm --wait`), and a
//! ReplicationController uses ReplicaSet's rule.

use golibs::shorten::{MAX_MESSAGE, shorten};
use helm::sequence;
use serde_json::Value;

use crate::kube::objects::expiry::{RUN_POLICY, TIME_TO_LIVE, TTL, TTL_STRATEGY};

/// The readiness of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It reached its desired state.
    #[default]
    Ready,
    /// It is still changing.
    Progressing,
    /// It needs intervention to become ready.
    Failed,
}

/// Why an object is not ready, from its own fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// Whether it needs intervention to become ready.
    pub failed: bool,
    /// The reason for people, shortened: `0 of 3 replicas are available`.
    pub why: String,
    /// Whether the reason comes from the object's own status, which may quote values, for instance if a webhook refuses
    /// its pods.
    pub quotes: bool,
    /// A digest of its status without times and messages: it changes when the object makes progress.
    pub progress: u64,
}

impl Unready {
    /// Creates the state of an object that may become ready by itself, for a reason that does not come from its status.
    pub fn because(why: impl Into<String>) -> Unready {
        Unready { failed: false, why: why.into(), quotes: false, progress: 0 }
    }
}

/// The fields of `spec` that readiness depends on, including the readiness of an object that no longer exists.
pub(in crate::kube) const READINESS_FIELDS: [&str; 10] = [
    "clusterIP",
    "paused",
    "progressDeadlineSeconds",
    "replicas",
    RUN_POLICY,
    TIME_TO_LIVE,
    TTL,
    TTL_STRATEGY,
    "type",
    "updateStrategy",
];

/// The value of `progressDeadlineSeconds` that means no deadline.
const NO_DEADLINE: i64 = i32::MAX as i64;

/// A verdict: `Ok` if ready.
type Verdict = Result<(), Fault>;

/// Why an object is not ready.
struct Fault {
    failed: bool,
    why: String,
    quotes: bool,
}

impl Fault {
    fn into_unready(self, status: &Value) -> Unready {
        let Fault { failed, why, quotes } = self;
        let why = shorten(&why, MAX_MESSAGE).into_owned();
        Unready { failed, why, quotes, progress: progress_of(status) }
    }
}

fn progressing(why: impl Into<String>) -> Verdict {
    Err(Fault { failed: false, why: why.into(), quotes: false })
}

fn failed(why: impl Into<String>) -> Verdict {
    Err(Fault { failed: true, why: why.into(), quotes: false })
}

/// Gives the reason in the words of the object's status.
fn quoting(verdict: Verdict) -> Verdict {
    verdict.map_err(|fault| Fault { quotes: true, ..fault })
}

/// Returns an object's readiness by the rules of its kind. The core group is "".
pub(crate) fn readiness_of(
    group: &str,
    kind: &str,
    generation: Option<i64>,
    spec: &Value,
    status: &Value,
) -> Readiness {
    match verdict(group, kind, generation, spec, status) {
        Ok(()) => Readiness::Ready,
        Err(Fault { failed: true, .. }) => Readiness::Failed,
        Err(Fault { failed: false, .. }) => Readiness::Progressing,
    }
}

/// Returns why an object is not ready; `None` if it is.
pub(in crate::kube) fn unready_of(
    group: &str,
    kind: &str,
    generation: Option<i64>,
    spec: &Value,
    status: &Value,
) -> Option<Unready> {
    Some(verdict(group, kind, generation, spec, status).err()?.into_unready(status))
}

/// Returns why an object is not ready by the conditions in its annotations; `None` if it is.
pub(in crate::kube) fn unready_as(
    said: &sequence::Verdict,
    generation: Option<i64>,
    status: &Value,
) -> Option<Unready> {
    let fault = observed_generation(generation, status).and_then(|()| match said {
        sequence::Verdict::Ready => Ok(()),
        sequence::Verdict::Failed(condition) => quoting(failed(format!("{condition} (helm.sh/readiness-failure)"))),
        sequence::Verdict::Waiting => progressing("no condition of helm.sh/readiness-success holds"),
    });
    Some(fault.err()?.into_unready(status))
}

/// Requires that a controller has observed the current generation, if the status reports an observed one.
fn observed_generation(generation: Option<i64>, status: &Value) -> Verdict {
    match (generation, status.get("observedGeneration").and_then(Value::as_i64)) {
        (Some(generation), Some(observed)) if observed != generation => {
            progressing(format!("generation {generation} is not observed yet"))
        }
        _ => Ok(()),
    }
}

fn verdict(group: &str, kind: &str, generation: Option<i64>, spec: &Value, status: &Value) -> Verdict {
    observed_generation(generation, status)?;
    by_standard_conditions(status)?;
    match (group, kind) {
        ("apps", "Deployment") => deployment(spec, status),
        ("apps", "StatefulSet") => stateful_set(spec, status),
        ("apps", "DaemonSet") => daemon_set(status),
        ("apps", "ReplicaSet") => replica_set(spec, status),
        ("", "ReplicationController") => replicas(spec, status, &["available", "ready"]),
        ("batch", "Job") => job(status),
        ("", "Pod") => pod(status),
        ("", "PersistentVolumeClaim") => claim(status),
        ("", "Service") => service(spec, status),
        ("policy", "PodDisruptionBudget") => Ok(()),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(status),
        _ => generic(status),
    }
}

/// Decides by the conditions that kstatus defines for every kind.
fn by_standard_conditions(status: &Value) -> Verdict {
    for condition in conditions(status).filter(|c| text(c, "status") == "True") {
        match text(condition, "type") {
            "Reconciling" => return quoting(progressing(words(condition))),
            "Stalled" => return quoting(failed(words(condition))),
            _ => {}
        }
    }
    Ok(())
}

fn number(of: &Value, key: &str) -> i64 {
    of.get(key).and_then(Value::as_i64).unwrap_or(0)
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or("")
}

fn conditions(status: &Value) -> impl Iterator<Item = &Value> {
    status.get("conditions").and_then(Value::as_array).into_iter().flatten()
}

fn find_condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions(status).find(|c| text(c, "type") == kind)
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    find_condition(status, kind).map(|c| text(c, "status"))
}

/// Returns a condition's reason and message: `ProgressDeadlineExceeded: ReplicaSet "web-1" has timed out progressing.`
fn words(condition: &Value) -> String {
    match (text(condition, "reason"), text(condition, "message")) {
        ("", "") => format!("{} is {}", text(condition, "type"), text(condition, "status")),
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Returns why pods could not be created: an exceeded quota, a rejecting webhook.
fn replica_failure(status: &Value) -> Option<String> {
    find_condition(status, "ReplicaFailure").filter(|c| text(c, "status") == "True").map(words)
}

fn wanted(spec: &Value) -> i64 {
    spec.get("replicas").and_then(Value::as_i64).unwrap_or(1)
}

/// Requires `found >= wanted` replicas in this state.
fn enough(found: i64, wanted: i64, state: &str) -> Verdict {
    if found >= wanted { Ok(()) } else { progressing(format!("{found} of {wanted} replicas are {state}")) }
}

fn none_left(found: i64, wanted: i64) -> Verdict {
    if found <= wanted { Ok(()) } else { progressing(format!("{} old replicas still exist", found - wanted)) }
}

fn deployment(spec: &Value, status: &Value) -> Verdict {
    if spec.get("paused").and_then(Value::as_bool) == Some(true) {
        return Ok(());
    }
    let rollout = find_condition(status, "Progressing");
    let failure = replica_failure(status);
    if let Some(exceeded) = rollout.filter(|c| text(c, "reason") == "ProgressDeadlineExceeded") {
        return quoting(failed(failure.unwrap_or_else(|| words(exceeded))));
    }
    let (wanted, updated) = (wanted(spec), number(status, "updatedReplicas"));
    let counts = enough(number(status, "replicas"), wanted, "created")
        .and_then(|()| enough(updated, wanted, "updated"))
        .and_then(|()| none_left(number(status, "replicas"), wanted))
        .and_then(|()| enough(number(status, "availableReplicas"), updated, "available"))
        .and_then(|()| enough(number(status, "readyReplicas"), wanted, "ready"));
    if let (Err(_), Some(failure)) = (&counts, failure) {
        return quoting(progressing(failure));
    }
    counts?;
    let deadline = spec.get("progressDeadlineSeconds").and_then(Value::as_i64).unwrap_or(NO_DEADLINE);
    let done = rollout.is_some_and(|c| text(c, "status") == "True" && text(c, "reason") == "NewReplicaSetAvailable");
    match condition(status, "Available") {
        _ if deadline != NO_DEADLINE && !done => progressing("its rollout is not complete"),
        Some("True") => Ok(()),
        _ => progressing("it is not available"),
    }
}

fn stateful_set(spec: &Value, status: &Value) -> Verdict {
    if spec.pointer("/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete") {
        return Ok(());
    }
    observed(status)?;
    let wanted = wanted(spec);
    enough(number(status, "replicas"), wanted, "created")?;
    enough(number(status, "readyReplicas"), wanted, "ready")?;
    none_left(number(status, "replicas"), wanted)?;
    if let Some(partition) = spec.pointer("/updateStrategy/rollingUpdate/partition").and_then(Value::as_i64) {
        return enough(number(status, "updatedReplicas"), (wanted - partition).max(0), "updated");
    }
    enough(number(status, "currentReplicas"), wanted, "current")?;
    match text(status, "currentRevision") == text(status, "updateRevision") {
        true => Ok(()),
        false => progressing("its update is not complete"),
    }
}

fn observed(status: &Value) -> Verdict {
    if status.get("observedGeneration").is_some() { Ok(()) } else { progressing("its controller has not seen it yet") }
}

fn daemon_set(status: &Value) -> Verdict {
    observed(status)?;
    let Some(desired) = status.get("desiredNumberScheduled").and_then(Value::as_i64) else {
        return progressing("its controller has not counted its nodes yet");
    };
    let states = [
        ("currentNumberScheduled", "created"),
        ("updatedNumberScheduled", "updated"),
        ("numberAvailable", "available"),
        ("numberReady", "ready"),
    ];
    states.iter().try_for_each(|(key, state)| enough(number(status, key), desired, state))
}

fn replica_set(spec: &Value, status: &Value) -> Verdict {
    if let Some(failure) = replica_failure(status) {
        return quoting(progressing(failure));
    }
    replicas(spec, status, &["fullyLabeled", "available", "ready"])
}

fn replicas(spec: &Value, status: &Value, states: &[&str]) -> Verdict {
    let wanted = wanted(spec);
    states.iter().try_for_each(|state| enough(number(status, &format!("{state}Replicas")), wanted, state))?;
    enough(number(status, "replicas"), wanted, "created")?;
    none_left(number(status, "replicas"), wanted)
}

/// Judges a Job. A running one counts as ready, as kstatus counts it as current.
fn job(status: &Value) -> Verdict {
    match find_condition(status, "Failed").filter(|c| text(c, "status") == "True") {
        Some(over) => quoting(failed(words(over))),
        None if condition(status, "Complete") == Some("True") || status.get("startTime").is_some() => Ok(()),
        None => progressing("it has not started"),
    }
}

/// Returns whether an object with this status has finished, with whatever result. Of other kinds than Jobs, that is
/// unknown.
pub(in crate::kube) fn has_finished(group: &str, kind: &str, status: &Value) -> bool {
    let has_ended = |how: &str| condition(status, how) == Some("True");
    (group, kind) == ("batch", "Job") && (has_ended("Complete") || has_ended("Failed"))
}

fn pod(status: &Value) -> Verdict {
    let crashes = || {
        let containers = status.get("containerStatuses").and_then(Value::as_array).into_iter().flatten();
        let waits = |c: &&Value| c.pointer("/state/waiting/reason").and_then(Value::as_str) == Some("CrashLoopBackOff");
        containers.into_iter().find(waits).map(|c| text(c, "name").to_owned())
    };
    match text(status, "phase") {
        "Succeeded" => Ok(()),
        "Failed" if text(status, "reason").is_empty() => failed("it failed"),
        "Failed" => quoting(failed(words(status))),
        "Running" if condition(status, "Ready") == Some("True") => Ok(()),
        "Running" => match crashes() {
            Some(container) => failed(format!("container {container:?} keeps crashing")),
            None => progressing("it runs but is not ready"),
        },
        "" => progressing("no node has accepted it yet"),
        phase => progressing(format!("its phase is {phase}")),
    }
}

fn claim(status: &Value) -> Verdict {
    match text(status, "phase") {
        "Bound" => Ok(()),
        "" => progressing("it is not bound"),
        phase => progressing(format!("it is not bound; its phase is {phase}")),
    }
}

fn service(spec: &Value, status: &Value) -> Verdict {
    let waits = text(spec, "type") == "LoadBalancer" && text(spec, "clusterIP").is_empty();
    let given = status.pointer("/loadBalancer/ingress").and_then(Value::as_array).is_some_and(|i| !i.is_empty());
    if waits && !given { progressing("its load balancer has no address yet") } else { Ok(()) }
}

fn definition(status: &Value) -> Verdict {
    for condition in conditions(status) {
        match (text(condition, "type"), text(condition, "status")) {
            ("NamesAccepted", "False") => return quoting(failed(words(condition))),
            ("Established", "False") if text(condition, "reason") != "Installing" => {
                return quoting(failed(words(condition)));
            }
            ("Established", "True") => return Ok(()),
            _ => {}
        }
    }
    progressing("it is not established")
}

/// Judges any other kind by its condition `Ready`, if it has one.
fn generic(status: &Value) -> Verdict {
    match find_condition(status, "Ready") {
        Some(ready) if text(ready, "status") != "True" => quoting(progressing(words(ready))),
        _ => Ok(()),
    }
}

/// Digests what counts as progress: everything except times, and messages of conditions, which some controllers rewrite
/// constantly.
pub fn progress_of(status: &Value) -> u64 {
    use std::hash::{DefaultHasher, Hasher as _};
    let mut hasher = DefaultHasher::new();
    digest(status, &mut hasher);
    hasher.finish()
}

fn digest(value: &Value, hasher: &mut std::hash::DefaultHasher) {
    use std::hash::Hash as _;
    let is_noise = |key: &str| key == "message" || key.ends_with("Time") || key.ends_with("Timestamp");
    match value {
        Value::Object(fields) => fields.iter().filter(|(key, _)| !is_noise(key)).for_each(|(key, field)| {
            key.hash(hasher);
            digest(field, hasher);
        }),
        Value::Array(items) => items.iter().for_each(|item| digest(item, hasher)),
        scalar => scalar.to_string().hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const R: Readiness = Readiness::Ready;
    const P: Readiness = Readiness::Progressing;
    const F: Readiness = Readiness::Failed;

    /// Checks that the base is ready, then each case: changes to fields of spec and status (`null` removes one), and
    /// the expected readiness.
    #[track_caller]
    fn check(of: (&str, &str), spec: &Value, status: &Value, cases: &[(Value, Value, Readiness)]) {
        assert_eq!(readiness_of(of.0, of.1, Some(2), spec, status), R, "{of:?} itself");
        for (spec_change, status_change, expected) in cases {
            let (spec, status) = (changed(spec, spec_change), changed(status, status_change));
            assert_eq!(readiness_of(of.0, of.1, Some(2), &spec, &status), *expected, "{of:?} {spec} {status}");
        }
    }

    fn changed(base: &Value, change: &Value) -> Value {
        let mut value = base.clone();
        for (key, field) in change.as_object().unwrap() {
            value[key] = field.clone();
        }
        value.as_object_mut().unwrap().retain(|_, field| !field.is_null());
        value
    }

    fn conditions(all: &[(&str, &str)]) -> Value {
        let all = all.iter().map(|(kind, status)| json!({"type": kind, "status": status}));
        json!({"conditions": all.collect::<Vec<_>>()})
    }

    #[test]
    fn only_a_job_that_succeeded_or_failed_has_finished() {
        for (of, status, expected) in [
            (("batch", "Job"), conditions(&[("Complete", "True")]), true),
            (("batch", "Job"), conditions(&[("Failed", "True")]), true),
            (("batch", "Job"), conditions(&[("Complete", "False"), ("FailureTarget", "True")]), false),
            (("batch", "Job"), json!({"startTime": "2026-01-01T00:00:00Z"}), false),
            (("batch", "Job"), Value::Null, false),
            (("batch.volcano.sh", "Job"), conditions(&[("Complete", "True")]), false),
            (("", "Pod"), json!({"phase": "Succeeded"}), false),
        ] {
            assert_eq!(has_finished(of.0, of.1, &status), expected, "{of:?} {status}");
        }
    }

    #[test]
    fn outdated_status_is_progressing_for_every_kind() {
        let at = |generation, observed: Value| {
            readiness_of("x.y", "Db", generation, &Value::Null, &json!({"observedGeneration": observed}))
        };
        assert_eq!(at(Some(2), json!(1)), P);
        assert_eq!(at(Some(2), json!(2)), R);
        assert_eq!(at(Some(2), json!(3)), P, "restored from a backup");
        assert_eq!(at(None, json!(1)), R);
        assert_eq!(at(Some(2), json!("1")), R);
    }

    #[test]
    fn a_deployment_is_ready_when_all_replicas_are_new_and_available() {
        let spec = json!({"replicas": 3, "progressDeadlineSeconds": 600});
        let done = json!({"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"});
        let available = json!({"type": "Available", "status": "True"});
        let status = json!({
            "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "conditions": [done, available],
        });
        let status = &status;
        let exceeded =
            json!({"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}, available]});
        let other = json!({"conditions": [{"type": "Other", "reason": "ProgressDeadlineExceeded"}, done, available]});
        let rolling = json!({"conditions": [{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}, available]});
        check(
            ("apps", "Deployment"),
            &spec,
            status,
            &[
                (json!({}), json!({"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}), P),
                (json!({}), json!({"replicas": 4}), P),
                (json!({}), json!({"availableReplicas": 2}), P),
                (json!({}), json!({"conditions": [done]}), P),
                (json!({}), rolling.clone(), P),
                (json!({"progressDeadlineSeconds": null}), rolling, R),
                (json!({"paused": true}), json!({"updatedReplicas": 0}), R),
                (json!({}), json!({"readyReplicas": 2}), P),
                (json!({"replicas": null}), json!({}), P),
                (json!({"replicas": 2}), json!({}), P),
                (json!({}), exceeded, F),
                (json!({}), other, R),
            ],
        );
    }

    #[test]
    fn a_stateful_set_is_ready_when_its_partition_is_rolled_out() {
        let spec = json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate"}});
        let status = json!({
            "observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "currentReplicas": 3,
            "currentRevision": "b", "updateRevision": "b",
        });
        let partition = |n: i64| json!({"updateStrategy": {"rollingUpdate": {"partition": n}}});
        let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
        check(
            ("apps", "StatefulSet"),
            &spec,
            &status,
            &[
                (json!({}), json!({"observedGeneration": null}), P),
                (json!({}), json!({"replicas": 2}), P),
                (json!({}), json!({"replicas": 4}), P),
                (json!({}), json!({"readyReplicas": 2}), P),
                (json!({}), json!({"currentRevision": "a"}), P),
                (json!({}), json!({"currentReplicas": 2}), P),
                (partition(0), json!({"updatedReplicas": 2}), P),
                (partition(1), json!({"currentRevision": "a", "updatedReplicas": 2}), R),
                (partition(1), json!({"currentRevision": "a", "updatedReplicas": 1}), P),
                (partition(5), json!({"currentRevision": "a", "updatedReplicas": 0}), R),
                (on_delete, json!({"readyReplicas": 0, "currentRevision": "a"}), R),
            ],
        );
    }

    #[test]
    fn a_daemon_set_is_ready_when_every_node_runs_the_update() {
        let status = json!({
            "observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 3,
            "numberAvailable": 3, "numberReady": 3,
        });
        let none = || json!({});
        check(
            ("apps", "DaemonSet"),
            &none(),
            &status,
            &[
                (none(), json!({"observedGeneration": null}), P),
                (none(), json!({"currentNumberScheduled": 2}), P),
                (none(), json!({"updatedNumberScheduled": 2}), P),
                (none(), json!({"numberAvailable": 2}), P),
                (none(), json!({"numberReady": null}), P),
                (none(), json!({"desiredNumberScheduled": null}), P),
                (none(), json!({"numberReady": 4}), R),
            ],
        );
    }

    #[test]
    fn replicas_are_ready_at_the_desired_count() {
        let (spec, none) = (json!({"replicas": 3}), || json!({}));
        let status = json!({"replicas": 3, "fullyLabeledReplicas": 3, "availableReplicas": 3, "readyReplicas": 3});
        let both = [
            (none(), json!({"replicas": 2}), P),
            (none(), json!({"replicas": 4}), P),
            (none(), json!({"availableReplicas": 2}), P),
            (none(), json!({"readyReplicas": 2}), P),
        ];
        let fully = |expected| [(none(), json!({"fullyLabeledReplicas": 2}), expected)];
        check(("apps", "ReplicaSet"), &spec, &status, &both);
        check(("apps", "ReplicaSet"), &spec, &status, &fully(P));
        check(("apps", "ReplicaSet"), &spec, &status, &[(none(), conditions(&[("ReplicaFailure", "True")]), P)]);
        check(("", "ReplicationController"), &spec, &status, &both);
        check(("", "ReplicationController"), &spec, &status, &fully(R));
    }

    #[test]
    fn jobs_and_pods_succeed_or_fail() {
        let none = || json!({});
        check(
            ("batch", "Job"),
            &none(),
            &conditions(&[("Complete", "True")]),
            &[
                (none(), conditions(&[]), P),
                (none(), conditions(&[("Complete", "False")]), P),
                (none(), json!({"conditions": null, "startTime": "2026-01-01T00:00:00Z"}), R),
                (none(), conditions(&[("Failed", "True")]), F),
                (none(), conditions(&[("Failed", "False")]), P),
            ],
        );
        let waiting = |reason: &str| json!({"name": "b", "state": {"waiting": {"reason": reason}}});
        let running = changed(&conditions(&[("Ready", "True")]), &json!({"phase": "Running"}));
        check(
            ("", "Pod"),
            &none(),
            &running,
            &[
                (none(), conditions(&[("Ready", "False")]), P),
                (none(), conditions(&[]), P),
                (none(), json!({"phase": "Pending"}), P),
                (none(), json!({"phase": null}), P),
                (none(), json!({"phase": "Succeeded", "conditions": null}), R),
                (none(), json!({"phase": "Failed"}), F),
                (
                    none(),
                    changed(
                        &conditions(&[]),
                        &json!({"containerStatuses": [{"name": "a"}, waiting("ContainerCreating")]}),
                    ),
                    P,
                ),
                (
                    none(),
                    changed(
                        &conditions(&[]),
                        &json!({"containerStatuses": [{"name": "a"}, waiting("CrashLoopBackOff")]}),
                    ),
                    F,
                ),
            ],
        );
    }

    #[test]
    fn claims_services_budgets_and_crds_have_their_own_rules() {
        let none = || json!({});
        check(
            ("", "PersistentVolumeClaim"),
            &none(),
            &json!({"phase": "Bound"}),
            &[(none(), json!({"phase": "Pending"}), P), (none(), json!({"phase": null}), P)],
        );
        let ingress = |all: Value| json!({"loadBalancer": {"ingress": all}});
        let balancer = json!({"type": "LoadBalancer", "clusterIP": ""});
        check(
            ("", "Service"),
            &json!({"type": "ClusterIP"}),
            &none(),
            &[
                (balancer.clone(), none(), P),
                (balancer.clone(), ingress(json!([])), P),
                (balancer, ingress(json!([{"ip": "1.2.3.4"}])), R),
                (json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}), none(), R),
            ],
        );
        check(
            ("policy", "PodDisruptionBudget"),
            &none(),
            &json!({"currentHealthy": 2, "desiredHealthy": 2}),
            &[(none(), json!({"currentHealthy": 1}), R), (none(), json!({"observedGeneration": 1}), P)],
        );
        let of = ("apiextensions.k8s.io", "CustomResourceDefinition");
        check(
            of,
            &none(),
            &conditions(&[("Established", "True")]),
            &[
                (none(), conditions(&[("Established", "False")]), F),
                (
                    none(),
                    json!({"conditions": [{"type": "Established", "status": "False", "reason": "Installing"}]}),
                    P,
                ),
                (none(), conditions(&[("NamesAccepted", "False"), ("Established", "True")]), F),
                (none(), conditions(&[]), P),
            ],
        );
    }

    #[test]
    fn other_kinds_are_judged_by_conditions() {
        let none = || json!({});
        for of in [("x.y", "Db"), ("x.y", "Deployment"), ("", "Job"), ("apps", "Pod")] {
            check(
                of,
                &none(),
                &none(),
                &[
                    (none(), conditions(&[("Ready", "True")]), R),
                    (none(), conditions(&[("Ready", "False")]), P),
                    (none(), conditions(&[("Ready", "Unknown")]), P),
                    (none(), conditions(&[("Reconciling", "True"), ("Ready", "True")]), P),
                    (none(), conditions(&[("Reconciling", "False")]), R),
                    (none(), conditions(&[("Ready", "True"), ("Stalled", "True")]), F),
                    (none(), conditions(&[("Stalled", "False")]), R),
                ],
            );
        }
    }

    #[test]
    fn an_unready_object_says_why() {
        let why = |of: (&str, &str), spec: Value, status: Value| {
            unready_of(of.0, of.1, Some(1), &spec, &status).map(|unready| unready.why).unwrap_or_default()
        };
        let failed = |kind: &str, reason: &str, message: &str| json!([{"type": kind, "status": "True", "reason": reason, "message": message}]);
        let deployment = |status: Value| why(("apps", "Deployment"), json!({"replicas": 3}), status);
        assert_eq!(deployment(json!({"observedGeneration": 0})), "generation 1 is not observed yet");
        assert_eq!(deployment(json!({"replicas": 1})), "1 of 3 replicas are created");
        let quota = failed("ReplicaFailure", "FailedCreate", "pods \"web-1\" is forbidden: exceeded quota: q");
        let message = "FailedCreate: pods \"web-1\" is forbidden: exceeded quota: q";
        assert_eq!(deployment(json!({"conditions": quota})), message);
        let both =
            json!([quota[0], {"type": "Progressing", "reason": "ProgressDeadlineExceeded", "message": "timed out"}]);
        assert_eq!(deployment(json!({"conditions": both})), message, "the cause says more than its effect");
        let job = json!({"conditions": failed("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")});
        assert_eq!(
            why(("batch", "Job"), json!({}), job),
            "BackoffLimitExceeded: Job has reached the specified backoff limit"
        );
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."});
        assert_eq!(why(("", "Pod"), json!({}), evicted), "Evicted: The node was low on memory.");
        assert_eq!(why(("", "Pod"), json!({}), json!({"phase": "Failed"})), "it failed");
        assert_eq!(why(("x.y", "Db"), json!({}), conditions(&[("Ready", "False")])), "Ready is False");
        assert_eq!(why(("x.y", "Db"), json!({}), conditions(&[("Ready", "True")])), "");
        let long = json!([{"type": "Ready", "status": "False", "message": "x".repeat(1 << 20)}]);
        assert!(why(("x.y", "Db"), json!({}), json!({"conditions": long})).len() <= MAX_MESSAGE);
    }

    #[test]
    fn progress_is_a_change_of_anything_but_times_and_texts() {
        let progress = |status: Value| progress_of(&status);
        let base = json!({"replicas": 3, "readyReplicas": 1, "conditions": [{"type": "A", "status": "False", "message": "x", "lastUpdateTime": "1"}]});
        let same = json!({"replicas": 3, "readyReplicas": 1, "conditions": [{"type": "A", "status": "False", "message": "y", "lastUpdateTime": "2"}], "startTime": "3"});
        assert_eq!(progress(base.clone()), progress(same));
        for (pointer, value) in [("/readyReplicas", json!(2)), ("/conditions/0/status", json!("True"))] {
            let mut other = base.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_ne!(progress(base.clone()), progress(other), "{pointer}");
        }
    }
}
