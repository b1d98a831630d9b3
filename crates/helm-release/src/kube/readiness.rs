//! Judges whether live objects are ready, by the rules of kstatus (`sigs.k8s.io/cli-utils/pkg/kstatus`), which Helm 4 waits by.

use serde_json::Value;

/// The readiness of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It reached its desired state.
    #[default]
    Ready,
    /// It is still changing.
    Progressing,
    /// It cannot become ready without help.
    Failed,
}

/// The fields of `spec` that readiness depends on.
pub(super) const READINESS_FIELDS: [&str; 4] = ["clusterIP", "replicas", "type", "updateStrategy"];

/// Returns an object's readiness by the rules of its kind. The core group is "".
pub(crate) fn readiness_of(
    group: &str,
    kind: &str,
    generation: Option<i64>,
    spec: &Value,
    status: &Value,
) -> Readiness {
    let observed = status.get("observedGeneration").and_then(Value::as_i64);
    if let (Some(generation), Some(observed)) = (generation, observed)
        && observed < generation
    {
        return Readiness::Progressing;
    }
    match (group, kind) {
        ("apps", "Deployment") => deployment(spec, status),
        ("apps", "StatefulSet") => stateful_set(spec, status),
        ("apps", "DaemonSet") => daemon_set(status),
        ("apps", "ReplicaSet") => {
            replicas(spec, status, &["fullyLabeledReplicas", "availableReplicas", "readyReplicas"])
        }
        ("", "ReplicationController") => replicas(spec, status, &["availableReplicas", "readyReplicas"]),
        ("batch", "Job") => job(status),
        ("", "Pod") => pod(status),
        ("", "PersistentVolumeClaim") => ready_if(text(status, "phase") == "Bound"),
        ("", "Service") => service(spec, status),
        ("policy", "PodDisruptionBudget") => {
            ready_if(number(status, "currentHealthy") >= number(status, "desiredHealthy"))
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            ready_if(condition(status, "Established") == Some("True"))
        }
        _ => generic(status),
    }
}

fn ready_if(ready: bool) -> Readiness {
    if ready { Readiness::Ready } else { Readiness::Progressing }
}

fn number(of: &Value, key: &str) -> i64 {
    of.get(key).and_then(Value::as_i64).unwrap_or(0)
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or("")
}

fn find_condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status.get("conditions")?.as_array()?.iter().find(|c| text(c, "type") == kind)
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    find_condition(status, kind).map(|c| text(c, "status"))
}

fn wanted(spec: &Value) -> i64 {
    spec.get("replicas").and_then(Value::as_i64).unwrap_or(1)
}

fn deployment(spec: &Value, status: &Value) -> Readiness {
    if find_condition(status, "Progressing").is_some_and(|c| text(c, "reason") == "ProgressDeadlineExceeded") {
        return Readiness::Failed;
    }
    let unobserved = status.get("observedGeneration").is_none();
    let wanted = wanted(spec);
    let updated = number(status, "updatedReplicas");
    let ready = updated >= wanted
        && number(status, "replicas") <= updated
        && number(status, "availableReplicas") >= updated
        && number(status, "readyReplicas") >= wanted;
    ready_if(ready && !unobserved)
}

fn stateful_set(spec: &Value, status: &Value) -> Readiness {
    if spec.pointer("/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete") {
        return Readiness::Ready;
    }
    let wanted = wanted(spec);
    let partition = spec.pointer("/updateStrategy/rollingUpdate/partition").and_then(Value::as_i64).unwrap_or(0);
    let updated = partition > 0 || text(status, "currentRevision") == text(status, "updateRevision");
    let ready = number(status, "replicas") == wanted
        && number(status, "readyReplicas") >= wanted
        && number(status, "updatedReplicas") >= (wanted - partition).max(0).min(wanted)
        && updated;
    ready_if(ready && status.get("observedGeneration").is_some())
}

fn daemon_set(status: &Value) -> Readiness {
    let desired = number(status, "desiredNumberScheduled");
    let all = ["currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady"];
    ready_if(status.get("observedGeneration").is_some() && all.iter().all(|key| number(status, key) >= desired))
}

fn replicas(spec: &Value, status: &Value, keys: &[&str]) -> Readiness {
    let wanted = wanted(spec);
    ready_if(number(status, "replicas") == wanted && keys.iter().all(|key| number(status, key) >= wanted))
}

/// kstatus counts a running Job as current.
fn job(status: &Value) -> Readiness {
    if condition(status, "Failed") == Some("True") {
        return Readiness::Failed;
    }
    ready_if(condition(status, "Complete") == Some("True") || status.get("startTime").is_some())
}

fn pod(status: &Value) -> Readiness {
    match text(status, "phase") {
        "Succeeded" => Readiness::Ready,
        "Failed" => Readiness::Failed,
        "Running" => ready_if(condition(status, "Ready") == Some("True")),
        _ => Readiness::Progressing,
    }
}

fn service(spec: &Value, status: &Value) -> Readiness {
    let waits = text(spec, "type") == "LoadBalancer" && text(spec, "clusterIP").is_empty();
    let given = status.pointer("/loadBalancer/ingress").and_then(Value::as_array).is_some_and(|i| !i.is_empty());
    ready_if(!waits || given)
}

/// Any other kind: by Kubernetes' conventional conditions.
fn generic(status: &Value) -> Readiness {
    if condition(status, "Stalled") == Some("True") {
        return Readiness::Failed;
    }
    let going = condition(status, "Reconciling") == Some("True");
    let unready = condition(status, "Ready").is_some_and(|ready| ready != "True");
    ready_if(!going && !unready)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const R: Readiness = Readiness::Ready;
    const P: Readiness = Readiness::Progressing;
    const F: Readiness = Readiness::Failed;

    /// Checks that the base is ready, then each case: changes to fields of spec and status (`null` removes one), and the expected readiness.
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
    fn outdated_status_is_progressing_for_every_kind() {
        let at = |generation, observed: Value| {
            readiness_of("x.y", "Db", generation, &Value::Null, &json!({"observedGeneration": observed}))
        };
        assert_eq!(at(Some(2), json!(1)), P);
        assert_eq!(at(Some(2), json!(2)), R);
        assert_eq!(at(Some(2), json!(3)), R);
        assert_eq!(at(None, json!(1)), R);
        assert_eq!(at(Some(2), json!("1")), R);
    }

    #[test]
    fn a_deployment_is_ready_when_all_replicas_are_new_and_available() {
        let spec = json!({"replicas": 3});
        let status = json!({
            "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        });
        let status = &status;
        let exceeded = json!({"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]});
        let other = json!({"conditions": [{"type": "Other", "reason": "ProgressDeadlineExceeded"}]});
        check(
            ("apps", "Deployment"),
            &spec,
            status,
            &[
                (json!({}), json!({"observedGeneration": null}), P),
                (json!({}), json!({"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}), P),
                (json!({}), json!({"replicas": 4}), P),
                (json!({}), json!({"availableReplicas": 2}), P),
                (json!({}), json!({"readyReplicas": 2}), P),
                (json!({"replicas": null}), json!({}), R),
                (json!({"replicas": null}), json!({"readyReplicas": null}), P),
                (json!({"replicas": 2}), json!({}), R),
                (json!({}), exceeded, F),
                (json!({}), other, R),
            ],
        );
    }

    #[test]
    fn a_stateful_set_is_ready_when_its_partition_is_rolled_out() {
        let spec = json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate"}});
        let status = json!({
            "observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3,
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
                (json!({}), json!({"updatedReplicas": 2}), P),
                (json!({}), json!({"currentRevision": "a"}), P),
                (partition(0), json!({"currentRevision": "a"}), P),
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
            &[
                (none(), json!({"currentHealthy": 1}), P),
                (none(), json!({"currentHealthy": 3}), R),
                (none(), json!({"currentHealthy": null}), P),
            ],
        );
        let of = ("apiextensions.k8s.io", "CustomResourceDefinition");
        check(
            of,
            &none(),
            &conditions(&[("Established", "True")]),
            &[(none(), conditions(&[("Established", "False")]), P), (none(), conditions(&[]), P)],
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
}
