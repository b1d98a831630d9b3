//! Makes workloads ready: the controllers of Deployments, StatefulSets, DaemonSets and Jobs, their pods, and the
//! volumes of claims, in one controller.
//!
//! There are no pods: an object's status immediately shows their outcome.

use serde_json::{Value, json};

use super::{Controller, is_going, pick};
use crate::Server;

/// The outcome of an object's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They become ready, or complete.
    Ready,
    /// They never become ready.
    Waits,
    /// They fail.
    Fails,
}

/// Decides the outcome of an object's pods, by path and object.
type Decide = Box<dyn FnMut(&str, &Value) -> Fate + Send>;

/// Updates the status of workloads.
pub struct Kubelet {
    fate: Decide,
}

impl Default for Kubelet {
    fn default() -> Kubelet {
        Kubelet::new(|_, _| Fate::Ready)
    }
}

/// The collections that it manages.
const KINDS: [(&str, &str); 5] = [
    ("apps/v1", "deployments"),
    ("apps/v1", "statefulsets"),
    ("apps/v1", "daemonsets"),
    ("batch/v1", "jobs"),
    ("v1", "persistentvolumeclaims"),
];

impl Kubelet {
    /// Creates a kubelet that calls `fate` for the outcome of each object's pods.
    pub fn new(fate: impl FnMut(&str, &Value) -> Fate + Send + 'static) -> Kubelet {
        Kubelet { fate: Box::new(fate) }
    }
}

impl Controller for Kubelet {
    fn step(&mut self, server: &mut Server, choice: u64) -> bool {
        let now = server.now.to_string();
        let mut late = Vec::new();
        for (api_version, plural) in KINDS {
            for (path, object) in server.objects_of(api_version, plural).into_iter().filter(|(_, o)| !is_going(o)) {
                let fate = (self.fate)(&path, &object);
                let status = status_of(plural, &object, fate, &now);
                late.extend(status.filter(|status| !has(&object["status"], status)).map(|status| (path, status)));
            }
        }
        let Some((path, status)) = pick(late, choice) else { return false };
        server.merge(&format!("{path}/status"), "kube-controller-manager", json!({"status": status}))
    }
}

/// Returns whether a status already has these fields, ignoring the times of its conditions.
fn has(status: &Value, wanted: &Value) -> bool {
    match (status, wanted) {
        (Value::Object(status), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            let is_time = key.ends_with("Time");
            status.get(key).map_or(value.is_null(), |found| is_time || has(found, value))
        }),
        (Value::Array(status), Value::Array(wanted)) => {
            status.len() == wanted.len() && status.iter().zip(wanted).all(|(found, value)| has(found, value))
        }
        _ => status == wanted,
    }
}

fn status_of(plural: &str, object: &Value, fate: Fate, now: &str) -> Option<Value> {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(1);
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let ready = if fate == Fate::Ready { replicas } else { 0 };
    // A count of zero is omitted.
    let count = |number: i64| if number == 0 { Value::Null } else { number.into() };
    match plural {
        "deployments" => Some(json!({
            "observedGeneration": generation, "replicas": count(replicas), "updatedReplicas": count(replicas),
            "readyReplicas": count(ready), "availableReplicas": count(ready), "unavailableReplicas": count(replicas - ready),
            "conditions": deployment_conditions(fate, now),
        })),
        "statefulsets" => Some(json!({
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": count(replicas),
            "readyReplicas": count(ready), "availableReplicas": ready, "currentRevision": "1", "updateRevision": "1",
        })),
        "daemonsets" => {
            let ready = i64::from(fate == Fate::Ready);
            Some(json!({
                "observedGeneration": generation, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
                "updatedNumberScheduled": 1, "numberReady": ready, "numberAvailable": count(ready),
                "numberMisscheduled": 0,
            }))
        }
        "jobs" => Some(job_status(object, fate, now)),
        "persistentvolumeclaims" if fate == Fate::Ready => Some(json!({"phase": "Bound"})),
        _ => None,
    }
}

fn condition(kind: &str, status: bool, reason: &str, now: &str) -> Value {
    let status = if status { "True" } else { "False" };
    json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": now, "lastUpdateTime": now})
}

fn deployment_conditions(fate: Fate, now: &str) -> Value {
    let available = fate == Fate::Ready;
    let reason = if available { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" };
    let progress = match fate {
        Fate::Ready => condition("Progressing", true, "NewReplicaSetAvailable", now),
        Fate::Waits => condition("Progressing", true, "ReplicaSetUpdated", now),
        Fate::Fails => condition("Progressing", false, "ProgressDeadlineExceeded", now),
    };
    json!([condition("Available", available, reason, now), progress])
}

fn job_status(job: &Value, fate: Fate, now: &str) -> Value {
    // A finished Job keeps its status.
    if job["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty()) {
        return job["status"].clone();
    }
    let end = |kind: &str| json!([{"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}]);
    match fate {
        Fate::Ready => json!({"startTime": now, "succeeded": 1, "completionTime": now, "conditions": end("Complete")}),
        Fate::Fails => json!({"startTime": now, "failed": 1, "conditions": end("Failed")}),
        Fate::Waits => json!({"startTime": now, "active": 1}),
    }
}
