//! An in-memory API server for tests of a [`Reconciler`]: no cluster, no network, no waiting.
//!
//! It stores what is put and applied, with the fields of each manager. It does not validate, set defaults, run
//! controllers or collect garbage: a Deployment gets no pods unless the test puts some.
//!
//! [`InProcess`] runs a manager on a real one.

#![allow(clippy::panic, reason = "tests end here")]

mod in_process;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::client::Body;
use kube::{Client, ResourceExt as _};
use outside::sync::lock;
use outside::{Call, MemoryApi};
use serde_json::Value;
use tower::BoxError;

use crate::ResourceKey;
use crate::context::Context;
use crate::reconciler::once;
use crate::reconciler::{Kind, KindScope, Next, Reconciler, Watched};
use crate::webhooks::Webhooks;
pub use in_process::InProcess;

/// The field manager of objects that a test puts.
const USER: &str = "user";

/// How long publishing the events of a reconcile may take.
const EVENTS: Duration = Duration::from_secs(2);

/// The requests received, with their queries.
pub type Requests = Arc<Mutex<Vec<String>>>;

/// An in-memory API server. Clones share its objects.
#[derive(Clone)]
pub struct Server {
    objects: Arc<MemoryApi>,
    asked: Requests,
    webhooks: Arc<Webhooks>,
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

impl Server {
    /// Creates a server of common built-in kinds: pods, Deployments, Services, ConfigMaps, Secrets, ServiceAccounts,
    /// Jobs.
    pub fn new() -> Server {
        let objects = Arc::new(MemoryApi::new());
        objects.serve("events.k8s.io/v1", "Event", "events");
        Server { objects, asked: Requests::default(), webhooks: Arc::default() }
    }

    /// Asks these webhooks before each write through [`client`](Self::client), and converts objects that are read or
    /// written in another version than the stored one. A rejection is the error that a user gets. [`put`](Self::put)
    /// asks nobody.
    #[must_use]
    pub fn with_webhooks(self, webhooks: Webhooks) -> Server {
        webhooks.serve_kinds(&self.objects);
        Server { webhooks: Arc::new(webhooks), ..self }
    }

    /// Serves one more kind. [`put`](Self::put) and [`reconcile`](Self::reconcile) do so for their kinds, and for those
    /// that the reconciler watches.
    pub fn serve<K: Kind>(&self) {
        self.serve_kind(&Watched::of::<K>());
    }

    fn serve_kind(&self, kind: &Watched) {
        match kind.is_namespaced {
            true => self.objects.serve(&kind.api_version, &kind.kind, &kind.plural),
            false => self.objects.serve_cluster_scoped(&kind.api_version, &kind.kind, &kind.plural),
        }
    }

    /// Stores an object, as its user would. A namespaced object without a namespace goes to `default`.
    pub fn put<K: Kind>(&self, object: &K) {
        self.serve::<K>();
        let mut text = serde_json::to_value(object).unwrap_or_else(|error| panic!("{error}"));
        let namespace = object.meta().namespace.as_deref().unwrap_or("default");
        text["apiVersion"] = K::api_version(&()).into();
        text["kind"] = K::kind(&()).into();
        if K::Scope::NAMESPACED {
            text["metadata"]["namespace"] = namespace.into();
        }
        let path = self.webhooks.stored_path(&path::<K>(namespace, &object.name_any()));
        let stored = self.webhooks.stored_version(&K::api_version(&()), &K::plural(&()));
        let text = self.webhooks.in_version(&text, &K::plural(&()), &stored).unwrap_or_else(|error| panic!("{error}"));
        self.objects.put(&path, text, USER);
    }

    /// Returns an object, if it exists. Cluster-scoped kinds ignore the namespace.
    pub fn get<K: Kind>(&self, namespace: &str, name: &str) -> Option<K> {
        let object = self.objects.object(&self.webhooks.stored_path(&path::<K>(namespace, name)))?;
        let object = self.webhooks.in_version(&object, &K::plural(&()), &K::api_version(&()));
        let object = object.unwrap_or_else(|error| panic!("{error}"));
        Some(serde_json::from_value(object).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Returns the published events, oldest first: `Normal Scaled: from 1 to 2`.
    pub fn events(&self) -> Vec<String> {
        events(&self.objects, |_| true)
    }

    /// Returns the writes so far, other than events: `PATCH /apis/apps/v1/namespaces/default/deployments/demo`.
    pub fn writes(&self) -> Vec<String> {
        let is_write = |line: &&String| !line.starts_with("GET ") && !line.contains("/events");
        lock(&self.asked)
            .iter()
            .filter(is_write)
            .map(|line| line.split('?').next().unwrap_or_default().to_owned())
            .collect()
    }

    /// Returns a client of this server. Its watches deliver nothing after their list.
    pub fn client(&self) -> Client {
        client_with(&self.objects, &self.asked, &self.webhooks)
    }

    /// Reconciles a resource once, with caches that have just listed. Cleans up after a resource that is being deleted.
    /// Does nothing if the resource does not exist, or if it or an object that it owns does not decode.
    ///
    /// # Errors
    /// The reconciler's own.
    pub async fn reconcile<R: Reconciler>(
        &self,
        reconciler: &R,
        namespace: &str,
        name: &str,
    ) -> Result<Next, R::Error> {
        self.serve::<R::Resource>();
        let context = Context::new(self.client(), Default::default(), Default::default(), Default::default());
        let context = context.for_controller(&reconciler.name());
        let next = once(reconciler, &context, &ResourceKey::new(namespace, name), |kind| self.serve_kind(kind)).await;
        context.events.flush(EVENTS).await;
        next
    }
}

/// Returns the server's events about the objects that `about` selects by name, oldest first, as
/// `Normal Scaled: from 1 to 2`.
pub(crate) fn events(server: &MemoryApi, about: impl Fn(&str) -> bool) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let paths = server.paths();
    let events = paths.iter().filter(|path| path.contains("/events/")).filter_map(|path| server.object(path));
    let mut events: Vec<Value> = events.filter(|event| about(&text(&event["regarding"]["name"]))).collect();
    events.sort_by_key(|event| event["eventTime"].to_string());
    events.iter().map(|e| format!("{} {}: {}", text(&e["type"]), text(&e["reason"]), text(&e["note"]))).collect()
}

/// Returns the path under which the server stores an object.
fn path<K: Kind>(namespace: &str, name: &str) -> String {
    format!("{}/{name}", K::url_path(&(), Some(namespace).filter(|_| K::Scope::NAMESPACED)))
}

/// Returns a client of the server. Its watches deliver nothing: a controller learns only from lists and from responses
/// to its writes.
pub fn client(server: &Arc<MemoryApi>, asked: &Requests) -> Client {
    client_with(server, asked, &Arc::default())
}

fn client_with(server: &Arc<MemoryApi>, asked: &Requests, webhooks: &Arc<Webhooks>) -> Client {
    let (server, asked, webhooks) = (server.clone(), asked.clone(), webhooks.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, asked, webhooks) = (server.clone(), asked.clone(), webhooks.clone());
        async move {
            let uri = request.uri().to_string();
            lock(&asked).push(format!("{} {uri}", request.method()));
            if uri.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let own = client_with(&server, &asked, &webhooks);
            answer(&server, &webhooks, own, request).await
        }
    });
    Client::new(service, "default")
}

/// Returns the response to a request; an error if it gets none.
async fn answer(
    server: &MemoryApi,
    webhooks: &Webhooks,
    client: Client,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let call = Call::received(request).await?;
    let (code, body) = match webhooks.send(server, client, call).await {
        Ok(answer) => (200, answer.body),
        Err(error) => error.to_response().ok_or(error)?,
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    Ok(response)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::PartialObjectMeta;
    use serde_json::json;

    use super::*;
    use crate::reconciler::{Cache, Change, Rights, Scope, Watching, WriteError};
    use crate::report::Outcome;

    /// Copies the data of each Secret-like ConfigMap with the label `of` into its own.
    struct Copies;

    impl Reconciler for Copies {
        type Resource = k8s_openapi::api::core::v1::Service;
        type Error = WriteError;
        type Caches = (Cache<ConfigMap>, Cache<PartialObjectMeta<ConfigMap>>);

        fn watch(&self, watching: &mut Watching<Self::Resource>) -> Self::Caches {
            let of = |map: &PartialObjectMeta<ConfigMap>| {
                Some(ResourceKey::new("default", map.metadata.labels.as_ref()?.get("example.com/of")?))
            };
            (watching.owned(""), watching.mapped("example.com/of,example.com/kind=source", of))
        }

        fn rights(&self) -> Rights {
            Rights::none().applies::<ConfigMap>()
        }

        async fn reconcile(
            &self,
            scope: &Scope<'_, Self::Resource>,
            (own, sources): &Self::Caches,
        ) -> Result<Next, WriteError> {
            let sources = sources.of(scope.resource()).len().to_string();
            let map = json!({"metadata": {"name": "copy"}, "data": {"sources": sources}});
            let map: ConfigMap = serde_json::from_value(map).unwrap();
            if scope.apply(own, map).await?.change != Change::Unchanged {
                scope.publish(Outcome::normal("Copied", "Copy", format!("{sources} sources")));
            }
            Ok(Next::Wait)
        }
    }

    fn map(name: &str, kind: &str) -> ConfigMap {
        let labels = json!({"example.com/of": "demo", "example.com/kind": kind});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    }

    fn demo() -> k8s_openapi::api::core::v1::Service {
        serde_json::from_value(json!({"metadata": {"name": "demo"}})).unwrap()
    }

    #[tokio::test]
    async fn every_kind_of_patch_changes_an_object() {
        let server = Server::new();
        server.put(&map("a", "source"));
        let label = |value: &str| json!({"metadata": {"labels": {"example.com/of": value}}});
        let json = json!([{"op": "replace", "path": "/metadata/labels/example.com~1of", "value": "json-patch"}]);
        for (kind, patch) in [
            ("merge-patch", label("merge-patch")),
            ("strategic-merge-patch", label("strategic-merge-patch")),
            ("json-patch", json),
        ] {
            let request = Request::patch("/api/v1/namespaces/default/configmaps/a")
                .header("content-type", format!("application/{kind}+json"))
                .body(patch.to_string().into_bytes())
                .unwrap();
            server.client().request::<ConfigMap>(request).await.unwrap();
            let labels = server.get::<ConfigMap>("default", "a").unwrap().metadata.labels.unwrap();
            assert_eq!((&*labels["example.com/of"], &*labels["example.com/kind"]), (kind, "source"));
        }
    }

    #[tokio::test]
    async fn a_reconciler_sees_what_was_put_writes_what_differs_and_publishes_events() {
        let server = Server::new();
        server.put(&demo());
        server.put(&map("a", "source"));
        server.put(&map("b", "other"));
        for _ in 0..2 {
            server.reconcile(&Copies, "default", "demo").await.unwrap();
        }
        assert_eq!(
            server.writes(),
            ["PATCH /api/v1/namespaces/default/configmaps/copy"],
            "the second finds it as wanted"
        );
        server.put(&map("c", "source"));
        server.reconcile(&Copies, "default", "demo").await.unwrap();
        let copy: ConfigMap = server.get("default", "copy").unwrap();
        assert_eq!(copy.data.unwrap()["sources"], "2");
        assert_eq!(server.events(), ["Normal Copied: 1 sources", "Normal Copied: 2 sources"]);
        assert!(server.get::<ConfigMap>("default", "missing").is_none());
        assert_eq!(server.reconcile(&Copies, "default", "gone").await.unwrap(), Next::Wait);
    }

    #[tokio::test]
    async fn a_resource_that_owns_an_object_that_does_not_decode_is_not_reconciled() {
        let server = Server::new();
        server.put(&demo());
        server.reconcile(&Copies, "default", "demo").await.unwrap();
        let request = Request::patch("/api/v1/namespaces/default/configmaps/copy")
            .header("content-type", "application/merge-patch+json")
            .body(json!({"data": {"sources": 7}}).to_string().into_bytes())
            .unwrap();
        server.client().request_text(request).await.unwrap();
        let writes = server.writes();
        server.reconcile(&Copies, "default", "demo").await.unwrap();
        assert_eq!(server.writes(), writes);
    }
}
