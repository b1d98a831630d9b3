//! A mutating admission webhook inside the test process: HTTPS on 127.0.0.1 with a self-signed certificate.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use axum::serve::Listener;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

/// Mutates an object; the operation is `CREATE` or `UPDATE`.
pub(crate) type Mutate = fn(&str, &mut Value);

/// A served and configured webhook; dropping it stops and removes it.
pub(crate) struct Webhook<'a> {
    cluster: &'a TestCluster,
    name: String,
    _server: Runtime,
}

impl<'a> Webhook<'a> {
    /// Mutates these resources (`group/plural`, or `*/*` for all) in one namespace when they are created or updated.
    pub(crate) fn start(
        cluster: &'a TestCluster,
        namespace: &Namespace<'_>,
        resources: &[&str],
        mutate: Mutate,
    ) -> Webhook<'a> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let tls =
            ServerConfig::builder().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
        let server = Runtime::new().unwrap();
        let listener = server.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let listener = TlsListener { listener, acceptor: TlsAcceptor::from(Arc::new(tls)) };
        let router = Router::new().route("/", post(review)).with_state(mutate);
        server.spawn(async { axum::serve(listener, router).await });
        let name = format!("test-{}", namespace.name());
        let client = json!({"url": url, "caBundle": STANDARD.encode(cert.pem())});
        cluster.apply(&configuration(&name, namespace, resources, &client).to_string()).unwrap();
        Webhook { cluster, name, _server: server }
    }
}

impl Drop for Webhook<'_> {
    fn drop(&mut self) {
        let _ = self.cluster.kubectl(["delete", "mutatingwebhookconfiguration", &self.name, "--ignore-not-found"]);
    }
}

fn configuration(name: &str, namespace: &Namespace<'_>, resources: &[&str], client: &Value) -> Value {
    let rules: Vec<Value> = resources
        .iter()
        .map(|resource| {
            let (group, plural) = resource.split_once('/').unwrap();
            json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [plural]})
        })
        .collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": name},
        "webhooks": [{
            "name": "mutate.my.domain", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded", "clientConfig": client, "rules": rules,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
        }],
    })
}

/// Answers an `AdmissionReview`; replaces top-level fields that differ, such as `metadata` or `spec`, as a whole.
async fn review(State(mutate): State<Mutate>, body: Bytes) -> String {
    let review: Value = serde_json::from_slice(&body).unwrap();
    let request = &review["request"];
    let mut object = request["object"].clone();
    mutate(request["operation"].as_str().unwrap(), &mut object);
    let changed = object.as_object().unwrap().iter().filter(|(key, value)| request["object"][key.as_str()] != **value);
    let patch: Value =
        changed.map(|(key, value)| json!({"op": "add", "path": format!("/{key}"), "value": value})).collect();
    let response = json!({
        "uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()),
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).to_string()
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // Failed connections are the client's responsibility.
            if let Ok((stream, address)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
