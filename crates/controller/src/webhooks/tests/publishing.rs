//! Leaders that keep the API server's configuration current, each with the others' changes in its watches.

use std::sync::Arc;
use std::time::Duration;

use outside::MemoryApi;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::context::Context;
use crate::reconciler::Controller as _;
use crate::runtime::readiness::Readiness;

const SECRET: &str = "/api/v1/namespaces/x/secrets/hook-certificate";

fn path(kind: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/hook")
}

/// Returns a server with the configurations that an installation brings.
fn cluster() -> Arc<MemoryApi> {
    let server = Arc::new(MemoryApi::new());
    for (kind, plural) in [("Validating", "validating"), ("Mutating", "mutating")] {
        let (kind, version) = (format!("{kind}WebhookConfiguration"), "admissionregistration.k8s.io/v1");
        server.serve_cluster_scoped(version, &kind, &format!("{plural}webhookconfigurations"));
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "hook"}});
        server.put(&self::path(plural), object, "installer");
    }
    server
}

/// Serves webhooks from a namespace, as a leader does.
fn lead(server: &Arc<MemoryApi>, namespace: &str) {
    let place = Endpoint { name: "hook".into(), namespace: Some(namespace.into()), url: None };
    let certificates = Certificates::new(&Settings::default(), place);
    let client = watched::client(server);
    let needs = NeedsCertificate(Readiness::default().require("certificate", "none"));
    tokio::spawn(certificates.clone().run(client.clone(), Default::default(), needs));
    let context = Context::new(client, Default::default(), Default::default(), Default::default());
    let publisher = Box::new(Publisher { webhooks: webhooks(), certificates });
    tokio::spawn(publisher.run(context.for_controller("webhooks")));
}

#[tokio::test(start_paused = true)]
async fn a_rotation_leaves_alone_what_others_keep_in_the_secret() {
    let server = cluster();
    server.make_immutable("secrets", "/type");
    lead(&server, "x");
    sleep(Duration::from_secs(5)).await;
    let mut first = server.object(SECRET).unwrap();
    server.remove(SECRET);
    first["type"] = "Opaque".into();
    first["data"]["note"] = "Q0E=".into();
    let metadata =
        json!({"labels": {"team": "a"}, "annotations": {"rotate": "now", "note": "a"}, "finalizers": ["a/b"]});
    for field in ["labels", "annotations", "finalizers"] {
        first["metadata"][field] = metadata[field].clone();
    }
    server.put(SECRET, first.clone(), "user");
    sleep(Duration::from_secs(60)).await;
    let rotated = server.object(SECRET).unwrap();
    assert_ne!(rotated["data"]["tls.crt"], first["data"]["tls.crt"]);
    assert_eq!((&rotated["data"]["next.json"], &rotated["data"]["note"]), (&Value::Null, &json!("Q0E=")));
    assert_eq!(rotated["type"], "Opaque");
    assert_eq!(rotated["metadata"]["labels"], metadata["labels"]);
    assert_eq!(rotated["metadata"]["finalizers"], metadata["finalizers"]);
    assert_eq!(rotated["metadata"]["annotations"], json!({"note": "a"}), "the request is done");
}
