//! Whether a live object does what it is for: the rules of kstatus (`sigs.k8s.io/cli-utils/pkg/kstatus`), as Helm 4 waits by.

use serde_json::Value;

/// How an object is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// As it should be.
    #[default]
    Ready,
    /// On its way.
    Progressing,
    /// It will not get there without help.
    Failed,
}

/// The fields of a `spec` that readiness asks for.
pub(super) const READINESS_FIELDS: [&str; 4] = ["clusterIP", "replicas", "type", "updateStrategy"];

/// How an object is doing, by its kind. The core group is "".
pub fn readiness_of(group: &str, kind: &str, generation: Option<i64>, spec: &Value, status: &Value) -> Readiness {
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

/// kstatus calls a running job current: it does what it is for.
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

/// Any other kind: by the conditions that Kubernetes' conventions name.
fn generic(status: &Value) -> Readiness {
    if condition(status, "Stalled") == Some("True") {
        return Readiness::Failed;
    }
    let going = condition(status, "Reconciling") == Some("True");
    let unready = condition(status, "Ready").is_some_and(|ready| ready != "True");
    ready_if(!going && !unready)
}
