//! Does what a plan takes for granted that the cluster's controllers do: completes Jobs and Pods of hooks, and lets go of
//! objects that are deleted in the foreground.

use std::convert::Infallible;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::plane::Plane;

const POLL: Duration = Duration::from_millis(100);

/// Kinds that hooks wait for, or that are recreated.
const COLLECTIONS: [&str; 7] = [
    "/apis/batch/v1/jobs",
    "/api/v1/pods",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/statefulsets",
    "/api/v1/configmaps",
    "/api/v1/services",
];

/// Acts until this future is dropped.
pub(super) async fn act(plane: &Plane) -> Infallible {
    loop {
        for collection in COLLECTIONS {
            let list = plane.get(collection).await.unwrap_or_default();
            for object in list["items"].as_array().into_iter().flatten() {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let (root, plural) = collection.rsplit_once('/').unwrap_or_default();
                let path = format!("{root}/namespaces/{}/{plural}/{}", text("namespace"), text("name"));
                // Another client may be faster; the next round sees it.
                _ = match (is_let_go(object), status(plural, object)) {
                    (true, _) => plane.send(Method::PATCH, &path, &json!({"metadata": {"finalizers": null}})).await,
                    (false, Some(status)) => plane.send(Method::PATCH, &format!("{path}/status"), &status).await,
                    (false, None) => continue,
                };
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

fn is_let_go(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["deletionTimestamp"].is_string() && metadata["finalizers"] == json!(["foregroundDeletion"])
}

/// Returns the status of a hook that is waited for.
fn status(plural: &str, object: &Value) -> Option<Value> {
    if !object["metadata"]["annotations"]["helm.sh/hook"].is_string() {
        return None;
    }
    let now = &object["metadata"]["creationTimestamp"];
    let holds = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now});
    let status = match plural {
        "jobs" if object["status"]["succeeded"] != 1 => json!({
            "startTime": now, "completionTime": now, "succeeded": 1, "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": [holds("SuccessCriteriaMet"), holds("Complete")],
        }),
        "pods" if object["status"]["phase"] != "Succeeded" => json!({"phase": "Succeeded"}),
        _ => return None,
    };
    Some(json!({"status": status}))
}
