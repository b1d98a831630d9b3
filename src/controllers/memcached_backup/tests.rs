//! Single reconciles against an API server with scripted responses that records requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use helm_operator::context::{Context, ControllerConfig};
use helm_operator::metrics::Metrics;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::api::memcached_backup::MemcachedBackupSpec;

const NAME: &str = "memcachedbackup-controller";

/// A request: method, path, body.
type Asked = (String, String, Value);

/// A server that answers in this order, and what it was asked.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<(VecDeque<Value>, Vec<Asked>)>>);

impl Script {
    fn answering(answers: impl IntoIterator<Item = Value>) -> Script {
        Script(Arc::new(Mutex::new((answers.into_iter().collect(), Vec::new()))))
    }

    fn client(&self) -> Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
                let mut script = script.0.lock().unwrap();
                let is_event = parts.uri.path().contains("/events");
                script.1.push((parts.method.to_string(), parts.uri.path().to_owned(), body));
                // Events need no script.
                let answer = if is_event { None } else { script.0.pop_front() }.unwrap_or(json!({}));
                let code = answer["code"].as_u64().map_or(200, |code| u16::try_from(code).unwrap());
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        Client::new(service, "ns")
    }

    /// Reconciles once.
    async fn reconcile(
        &self,
        backup: MemcachedBackup,
        deployments: Vec<Deployment>,
        pods: Vec<PartialObjectMeta<Pod>>,
    ) -> Result<Next, WriteError> {
        let (config, metrics, shutdown) = (ControllerConfig::default(), Metrics::default(), CancellationToken::new());
        let context = Context::new(self.client(), config, metrics, shutdown).for_controller(NAME);
        let caches = Caches {
            deployments: Cache::with(deployments, objects::backup_of),
            pods: Cache::with(pods, objects::backup_of),
        };
        let result = Controller.reconcile(&Scope::new(&context, &Arc::new(backup), NAME), &caches).await;
        // Events are published in the background.
        tokio::task::yield_now().await;
        result
    }

    /// Returns the requests except events, as `METHOD path`.
    fn asked(&self) -> Vec<String> {
        let asked = &self.0.lock().unwrap().1;
        let requests = asked.iter().filter(|(_, path, _)| !path.contains("/events"));
        requests.map(|(method, path, _)| format!("{method} {path}")).collect()
    }

    fn status(&self) -> Value {
        let asked = &self.0.lock().unwrap().1;
        asked.iter().find(|(_, path, _)| path.ends_with("/status")).map(|(_, _, body)| body["status"].clone()).unwrap()
    }
}

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/ns/deployments/b";
const STATUS: &str = "PATCH /apis/cache.my.domain/v1/namespaces/ns/memcachedbackups/b/status";

fn backup(size: i32) -> MemcachedBackup {
    let mut backup = MemcachedBackup::new("b", MemcachedBackupSpec { size });
    backup.metadata.namespace = Some("ns".into());
    backup.metadata.uid = Some("uid-1".into());
    backup.metadata.generation = Some(1);
    backup
}

/// Returns the Deployment of `backup` as stored by the server, with this many ready pods.
fn deployment(backup: &MemcachedBackup, ready: i32) -> Deployment {
    let mut deployment = objects::deployment(backup);
    deployment.metadata.owner_references = Some(vec![kube::Resource::controller_owner_ref(backup, &()).unwrap()]);
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

#[tokio::test]
async fn a_new_backup_gets_its_deployment_and_is_progressing() {
    let backup = backup(2);
    let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
    let script = Script::answering([missing, json!(deployment(&backup, 0)), json!(backup)]);
    script.reconcile(backup, vec![], vec![]).await.unwrap();
    assert_eq!(script.asked(), [format!("GET {DEPLOYMENT}"), format!("PATCH {DEPLOYMENT}"), STATUS.to_owned()]);
    assert_eq!(script.status()["conditions"][0]["reason"], "Progressing");
}

#[tokio::test]
async fn the_status_lists_the_backups_live_pods_in_order() {
    let backup = backup(2);
    let existing = deployment(&backup, 2);
    let script = Script::answering([json!(existing), json!(backup)]);
    let pods = vec![
        pod("b-2", "b", "ns", false),
        pod("b-1", "b", "ns", false),
        pod("b-3", "b", "ns", true),
        pod("other", "o", "ns", false),
        pod("elsewhere", "b", "else", false),
    ];
    script.reconcile(backup, vec![existing], pods).await.unwrap();
    let status = script.status();
    assert_eq!((&status["nodes"], &status["nodeCount"]), (&json!(["b-1", "b-2"]), &json!(2)));
    assert_eq!(status["conditions"][0]["status"], "True");
}

#[tokio::test]
async fn somebody_elses_deployment_is_not_taken_over_and_the_status_says_so() {
    let backup = backup(1);
    let mut foreign = deployment(&backup, 1);
    foreign.metadata.owner_references = None;
    let script = Script::answering([json!(backup)]);
    let error = script.reconcile(backup, vec![foreign], vec![]).await.unwrap_err();
    assert!(error.to_string().starts_with("Deployment \"b\" exists and belongs to something else"), "{error}");
    assert_eq!(script.status()["conditions"][0]["reason"], "ObjectConflict");
    assert_eq!(script.asked(), [STATUS]);
}
