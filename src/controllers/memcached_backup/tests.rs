//! Single reconciles against an API server with scripted responses that records requests.

use std::collections::VecDeque;
use std::sync::Mutex;

use helm_operator::context::ControllerConfig;
use helm_operator::metrics::Metrics;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::runtime::reflector;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::api::memcached_backup::MemcachedBackupSpec;

/// A recorded request: method, path, body.
type Asked = (String, String, Value);

#[derive(Clone, Default)]
struct Script(Arc<Mutex<Conversation>>);

/// The scripted responses and the recorded requests.
type Conversation = (VecDeque<(u16, Value)>, Vec<Asked>);

impl Script {
    fn client(&self) -> Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
                let mut script = script.0.lock().unwrap();
                script.1.push((parts.method.to_string(), parts.uri.path().to_owned(), body));
                // Events need no script.
                let is_event = parts.uri.path().contains("/events");
                let (code, answer) = if is_event { None } else { script.0.pop_front() }.unwrap_or((200, json!({})));
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        Client::new(service, "ns")
    }

    fn answer(&self, code: u16, body: impl serde::Serialize) {
        self.0.lock().unwrap().0.push_back((code, json!(body)));
    }

    /// The requests except events, as `METHOD path`.
    fn asked(&self) -> Vec<String> {
        let asked = &self.0.lock().unwrap().1;
        asked
            .iter()
            .filter(|(_, path, _)| !path.contains("/events"))
            .map(|(m, path, _)| format!("{m} {path}"))
            .collect()
    }

    fn body(&self, method: &str, path: &str) -> Value {
        let asked = &self.0.lock().unwrap().1;
        asked.iter().find(|(m, p, _)| m == method && p.ends_with(path)).map(|(_, _, body)| body.clone()).unwrap()
    }

    fn events(&self) -> Vec<String> {
        let asked = &self.0.lock().unwrap().1;
        let events = asked.iter().filter(|(_, path, _)| path.contains("/events"));
        events
            .map(|(_, _, body)| format!("{} {}", body["type"].as_str().unwrap(), body["reason"].as_str().unwrap()))
            .collect()
    }
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";
const STATUS: &str = "PATCH /apis/cache.my.domain/v1/namespaces/ns/memcachedbackups/b/status";

fn backup(size: i32) -> MemcachedBackup {
    let mut backup = MemcachedBackup::new("b", MemcachedBackupSpec { size });
    backup.metadata.namespace = Some("ns".into());
    backup.metadata.uid = Some("uid-1".into());
    backup.metadata.generation = Some(1);
    backup
}

/// The Deployment of `backup`, with this many replicas desired and ready.
fn deployment(backup: &MemcachedBackup, replicas: i32, ready: i32) -> Deployment {
    let mut deployment = objects::deployment(backup);
    deployment.spec.replicas = Some(replicas);
    deployment.status = serde_json::from_value(json!({"readyReplicas": ready})).unwrap();
    deployment
}

fn pod(name: &str, instance: &str, namespace: &str, terminating: bool) -> PartialObjectMeta<Pod> {
    let deletion = terminating.then_some("2026-01-01T00:00:00Z");
    serde_json::from_value(json!({"metadata": {
        "name": name, "namespace": namespace, "deletionTimestamp": deletion,
        "labels": {"app.kubernetes.io/instance": instance},
    }}))
    .unwrap()
}

fn shared(script: &Script, deployments: Vec<Deployment>, pods: Vec<PartialObjectMeta<Pod>>) -> Arc<Shared> {
    let context =
        Context::new(script.client(), ControllerConfig::default(), Metrics::default(), CancellationToken::new());
    Arc::new(Shared {
        context: context.for_controller(NAME),
        deployments: filled(deployments),
        pods: filled(pods),
        backoff: Backoff::default(),
    })
}

fn filled<K>(objects: Vec<K>) -> Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    let (store, mut writer) = reflector::store();
    writer.apply_watcher_event(&Event::Init);
    for object in objects {
        writer.apply_watcher_event(&Event::InitApply(object));
    }
    writer.apply_watcher_event(&Event::InitDone);
    store
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason, "code": code})
}

#[tokio::test]
async fn a_new_backup_gets_its_deployment_and_is_progressing() {
    let script = Script::default();
    let backup = backup(2);
    script.answer(201, objects::deployment(&backup));
    script.answer(200, &backup);
    reconcile(Arc::new(backup), shared(&script, vec![], vec![])).await.unwrap();
    assert_eq!(script.asked(), [format!("POST {DEPLOYMENTS}"), STATUS.to_owned()]);
    let body = script.body("POST", "/deployments");
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    assert_eq!(body["spec"]["replicas"], 2);
    assert_eq!(script.body("PATCH", "/status")["status"]["conditions"][0]["reason"], "Progressing");
    assert_eq!(script.events(), ["Normal Created"]);
}

#[tokio::test]
async fn only_the_replicas_of_an_existing_deployment_are_written() {
    let script = Script::default();
    let backup = backup(4);
    let existing = deployment(&backup, 2, 2);
    script.answer(200, &existing);
    script.answer(200, &backup);
    reconcile(Arc::new(backup), shared(&script, vec![existing], vec![])).await.unwrap();
    assert_eq!(script.body("PATCH", "/deployments/b"), json!({"spec": {"replicas": 4}}));
    assert_eq!(script.events(), ["Normal Scaled"]);
}

#[tokio::test]
async fn the_status_lists_the_backups_live_pods_in_order() {
    let script = Script::default();
    let backup = backup(2);
    script.answer(200, &backup);
    let pods = vec![
        pod("b-2", "b", "ns", false),
        pod("b-1", "b", "ns", false),
        pod("b-3", "b", "ns", true),
        pod("other", "o", "ns", false),
        pod("elsewhere", "b", "else", false),
    ];
    let existing = deployment(&backup, 2, 2);
    reconcile(Arc::new(backup), shared(&script, vec![existing], pods)).await.unwrap();
    let status = &script.body("PATCH", "/status")["status"];
    assert_eq!((&status["nodes"], &status["nodeCount"]), (&json!(["b-1", "b-2"]), &json!(2)));
    assert_eq!(status["conditions"][0]["status"], "True");
    assert_eq!(script.events(), ["Normal Ready"]);
}

#[tokio::test]
async fn no_change_means_no_request() {
    let script = Script::default();
    let mut backup = backup(1);
    let (existing, pods) = (deployment(&backup, 1, 1), vec![pod("b-1", "b", "ns", false)]);
    let all = shared(&script, vec![existing], pods);
    backup.status = Some(next_status(&observe(&backup, &all), None, Timestamp::now()));
    reconcile(Arc::new(backup), all).await.unwrap();
    assert_eq!(script.asked(), Vec::<String>::new());
    assert_eq!(script.events(), Vec::<String>::new());
}

#[tokio::test]
async fn a_backup_that_is_being_deleted_is_left_alone() {
    let script = Script::default();
    let mut backup = backup(1);
    backup.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    reconcile(Arc::new(backup), shared(&script, vec![], vec![])).await.unwrap();
    assert_eq!(script.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_deployment_missing_from_the_cache_is_not_a_failure() {
    let script = Script::default();
    let backup = backup(1);
    script.answer(409, failure(409, "AlreadyExists"));
    script.answer(200, objects::deployment(&backup));
    script.answer(200, &backup);
    reconcile(Arc::new(backup), shared(&script, vec![], vec![])).await.unwrap();
    assert_eq!(script.events(), Vec::<String>::new());
}

#[tokio::test]
async fn somebody_elses_deployment_is_not_taken_over_and_the_status_says_so_once() {
    let script = Script::default();
    let mut backup = backup(1);
    let mut foreign = objects::deployment(&backup);
    foreign.metadata.owner_references = None;
    for _ in 0..2 {
        script.answer(409, failure(409, "AlreadyExists"));
        script.answer(200, &foreign);
        script.answer(200, &backup);
    }
    let all = shared(&script, vec![], vec![]);
    let error = reconcile(Arc::new(backup.clone()), all.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "deployment \"b\" exists and belongs to something else");
    let status = script.body("PATCH", "/status")["status"].clone();
    assert_eq!(status["conditions"][0]["reason"], "DeploymentConflict");
    assert_eq!(script.events(), ["Warning ReconcileFailed"]);
    backup.status = serde_json::from_value(status).unwrap();
    reconcile(Arc::new(backup), all).await.unwrap_err();
    assert_eq!(script.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_does_not_block_the_shutdown() {
    let script = Script::default();
    let not_found = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
    (0..50).for_each(|_| script.answer(404, not_found.clone()));
    let shutdown = CancellationToken::new();
    let context = Context::new(script.client(), ControllerConfig::default(), Metrics::default(), shutdown.clone());
    let told = async {
        while script.asked().len() < 3 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        shutdown.cancel();
    };
    let both = async { tokio::join!(native::Controller::run(Box::new(Controller), context), told).0 };
    tokio::time::timeout(std::time::Duration::from_secs(5), both).await.expect("it ends").unwrap();
}
