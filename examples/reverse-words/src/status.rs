//! Decides, without I/O, what the status says.

use std::sync::Arc;

use helm_operator::reconciler::WriteError;
use helm_operator::report::{Reason as _, chain};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use crate::api::{ReverseWordsApp, ReverseWordsAppStatus};
use crate::objects::replicas;

const READY: &str = "Ready";
const NOT_READY: &str = "ReverseWordsDeploymentNotReady";

/// Returns the next status; equal to the old one if nothing changed. `applied` is the Deployment, or why not everything
/// could be applied.
pub(crate) fn next(
    app: &ReverseWordsApp,
    applied: Result<&Deployment, &WriteError>,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> ReverseWordsAppStatus {
    let ready = applied.is_ok_and(|deployment| is_ready(app, deployment));
    let failure = applied.err();
    ReverseWordsAppStatus {
        app_pods: pods.iter().filter(|pod| is_alive(pod)).map(|pod| pod.name_any()).collect(),
        conditions: vec![condition(app, READY, ready, failure, now), condition(app, NOT_READY, !ready, failure, now)],
    }
}

/// Returns whether a pod is pending or running, and not terminating.
fn is_alive(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && matches!(phase, Some("Pending" | "Running"))
}

fn is_ready(app: &ReverseWordsApp, deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let is_current = status.observed_generation >= deployment.metadata.generation;
    is_current && status.ready_replicas.unwrap_or(0) == replicas(app) && status.updated_replicas == status.replicas
}

fn condition(
    app: &ReverseWordsApp,
    type_: &str,
    holds: bool,
    failure: Option<&WriteError>,
    now: Timestamp,
) -> Condition {
    let status = if holds { "True" } else { "False" };
    let mut known = app.status.iter().flat_map(|status| &status.conditions);
    let since = known.find(|known| known.type_ == type_ && known.status == status);
    // Kubernetes stores whole seconds: a fraction would differ from the stored value.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: failure.map_or(type_, |error| error.reason()).to_owned(),
        message: failure.map(|error| chain(error)).unwrap_or_default(),
        observed_generation: app.metadata.generation,
        last_transition_time: since.map_or(now, |known| known.last_transition_time.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::ReverseWordsAppSpec;

    fn app() -> ReverseWordsApp {
        ReverseWordsApp::new("a", ReverseWordsAppSpec { replicas: Some(2), app_version: None })
    }

    fn deployment(ready: i32, generation: i64) -> Deployment {
        let status = json!({"replicas": 2, "updatedReplicas": 2, "readyReplicas": ready, "observedGeneration": 1});
        serde_json::from_value(json!({"metadata": {"generation": generation}, "spec": {"selector": {}, "template": {}},
            "status": status}))
        .unwrap()
    }

    fn conditions(deployment: &Deployment) -> Vec<String> {
        let status = next(&app(), Ok(deployment), &[], Timestamp::UNIX_EPOCH);
        status.conditions.iter().map(|c| format!("{} {} {}", c.type_, c.status, c.reason)).collect()
    }

    #[test]
    fn both_conditions_follow_the_deployment() {
        let ready = ["Ready True Ready", "ReverseWordsDeploymentNotReady False ReverseWordsDeploymentNotReady"];
        let not_ready = ["Ready False Ready", "ReverseWordsDeploymentNotReady True ReverseWordsDeploymentNotReady"];
        assert_eq!(conditions(&deployment(2, 1)), ready);
        assert_eq!(conditions(&deployment(1, 1)), not_ready);
        assert_eq!(conditions(&deployment(2, 2)), not_ready, "its status is that of an older generation");
    }

    #[test]
    fn only_pods_that_serve_or_will_serve_are_listed() {
        let pod = |name: &str, phase: &str, deleted: Option<&str>| -> Arc<Pod> {
            let metadata = json!({"name": name, "deletionTimestamp": deleted});
            Arc::new(serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap())
        };
        let gone = Some("2026-01-01T00:00:00Z");
        let pods = [
            pod("a", "Running", None),
            pod("b", "Pending", None),
            pod("c", "Running", gone),
            pod("d", "Succeeded", None),
        ];
        let names = |pods: &[Arc<Pod>]| next(&app(), Ok(&deployment(2, 1)), pods, Timestamp::UNIX_EPOCH).app_pods;
        assert_eq!(names(&pods), ["a", "b"]);
        assert_eq!(json!(next(&app(), Ok(&deployment(2, 1)), &[], Timestamp::UNIX_EPOCH))["appPods"], json!([]));
    }

    #[test]
    fn a_conditions_time_changes_only_with_its_status() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut app = app();
        app.status = Some(next(&app, Ok(&deployment(1, 1)), &[], at(10)));
        let same = next(&app, Ok(&deployment(1, 1)), &[], at(20));
        assert_eq!(json!(same), json!(app.status));
        let ready = next(&app, Ok(&deployment(2, 1)), &[], at(30));
        assert!(ready.conditions.iter().all(|condition| condition.last_transition_time.0 == at(30)));
    }
}
