//! One API server: its kinds, the objects created since its start, and their removal.
//!
//! It runs without controllers, which would change objects asynchronously.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Method, Request, StatusCode};
use kube::Client;
use serde_json::{Value, json};
use test_cluster::{Options, Processes, TestCluster};

use crate::live::{self, GROUP, Id, Objects};

pub(crate) const NAMESPACE: &str = "ns";

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Timeout for serving a new kind or deleting an object.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(30);
/// Number of concurrent requests.
const PARALLEL: usize = 8;
/// Kinds that servers and controllers create, but charts never do.
const IGNORED: [&str; 8] = [
    "Event",
    "Lease",
    "Endpoints",
    "EndpointSlice",
    "ComponentStatus",
    "ControllerRevision",
    "StorageVersion",
    "IPAddress",
];

/// An API server and its store, without controllers.
pub(crate) struct Plane {
    pub(crate) cluster: TestCluster,
    client: Client,
    baseline: BTreeSet<Id>,
}

#[derive(Clone, Debug)]
struct Served {
    group: String,
    kind: String,
    path: String,
    namespaced: bool,
    plural: String,
}

/// An object and its path.
struct Found {
    id: Id,
    path: String,
    object: Value,
}

/// A release's objects and the status of its newest record.
pub(crate) struct State {
    pub(crate) objects: Objects,
    pub(crate) record: String,
}

impl Plane {
    /// Starts an API server and creates the release namespace.
    pub(crate) async fn start() -> anyhow::Result<Plane> {
        Plane::start_with(Options::default()).await
    }

    /// Starts one whose audit log follows this policy.
    pub(crate) async fn start_audited(policy: &str) -> anyhow::Result<Plane> {
        Plane::start_with(Options { audit: true, audit_policy: Some(policy.to_owned()), ..Options::default() }).await
    }

    async fn start_with(options: Options) -> anyhow::Result<Plane> {
        let options = Options { processes: Processes::ApiServer, ..options };
        let cluster = tokio::task::spawn_blocking(|| TestCluster::start(options)).await??;
        let kubeconfig = kube::config::Kubeconfig::read_from(cluster.kubeconfig_path())?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        let plane = Plane { cluster, client: Client::try_from(config)?, baseline: BTreeSet::new() };
        plane.add_namespace(NAMESPACE).await?;
        Ok(plane)
    }

    /// Creates a namespace with the service account that a controller would create.
    pub(crate) async fn add_namespace(&self, name: &str) -> anyhow::Result<()> {
        self.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await?;
        let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
        self.create(&accounts, &json!({"metadata": {"name": "default"}})).await?;
        Ok(())
    }

    /// Creates the namespaces that do not exist yet; some do, such as `kube-system`.
    pub(crate) async fn add_namespaces(&self, names: &[String]) -> anyhow::Result<()> {
        for name in names {
            match self.get(&format!("/api/v1/namespaces/{name}")).await {
                Err(kube::Error::Api(status)) if status.code == 404 => self.add_namespace(name).await?,
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    /// Records the existing objects, which belong to no release.
    pub(crate) async fn mark_baseline(&mut self) -> anyhow::Result<()> {
        self.baseline = self.found().await?.into_iter().map(|found| found.id).collect();
        Ok(())
    }

    /// Creates the CRDs, and waits until their kinds are served.
    pub(crate) async fn add_crds(&self, crds: &[Value]) -> anyhow::Result<()> {
        for crd in crds {
            self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await?;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let expected: Vec<(String, String)> =
            crds.iter().map(|crd| (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["kind"]))).collect();
        let began = Instant::now();
        loop {
            let served: BTreeSet<_> = self.served().await?.into_iter().map(|kind| (kind.group, kind.kind)).collect();
            let Some(missing) = expected.iter().find(|kind| !served.contains(kind)) else { return Ok(()) };
            wait(began, || format!("{missing:?} to be served")).await?;
        }
    }

    /// Returns the served API groups.
    pub(crate) async fn groups(&self) -> anyhow::Result<BTreeSet<String>> {
        Ok(self.served().await?.into_iter().map(|kind| kind.group).collect())
    }

    /// Returns the objects beyond the baseline, except those being deleted.
    pub(crate) async fn state(&self) -> anyhow::Result<State> {
        let mut state = State { objects: Objects::new(), record: "none".into() };
        let mut newest = 0;
        for found in self.found().await? {
            if let Some((revision, status)) = live::record(&found.object) {
                if revision >= newest {
                    newest = revision;
                    state.record = status;
                }
            } else if !self.baseline.contains(&found.id) && found.object["metadata"]["deletionTimestamp"].is_null() {
                state.objects.insert(found.id, live::normalise(found.object));
            }
        }
        Ok(state)
    }

    /// Returns the status of every release record, by namespace and name.
    pub(crate) async fn records(&self) -> anyhow::Result<BTreeMap<(String, String), String>> {
        let secrets = self.get("/api/v1/secrets?labelSelector=owner%3Dhelm").await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let record = |secret: &Value| {
            let metadata = &secret["metadata"];
            ((text(&metadata["namespace"]), text(&metadata["name"])), text(&metadata["labels"]["status"]))
        };
        Ok(items(&secrets).iter().map(record).collect())
    }

    /// Deletes everything beyond the baseline, and waits until it is gone.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let mut found = self.found().await?;
            found.retain(|found| !self.baseline.contains(&found.id));
            let Some(last) = found.last().map(|found| found.id.to_string()) else { return Ok(()) };
            let deleted = futures::stream::iter(found).map(|found| self.remove(found)).buffer_unordered(PARALLEL);
            deleted.try_collect::<Vec<()>>().await?;
            wait(began, || format!("{last} to be gone")).await?;
        }
    }

    /// Deletes an object. Removes its finalizers first, because no controller runs that would. The API server handles
    /// CRD finalizers itself.
    async fn remove(&self, found: Found) -> anyhow::Result<()> {
        let metadata = &found.object["metadata"];
        if found.id.kind != "CustomResourceDefinition" && !metadata["finalizers"].is_null() {
            let patch = json!({"metadata": {"finalizers": null}});
            ignore_gone(self.send(Method::PATCH, &found.path, &patch).await)?;
        }
        if metadata["deletionTimestamp"].is_null() {
            let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
            ignore_gone(self.send(Method::DELETE, &found.path, &options).await)?;
        }
        if found.id.kind == "Namespace" && found.id.group.is_empty() {
            let mut namespace = found.object;
            namespace["spec"]["finalizers"] = json!([]);
            namespace["metadata"]["resourceVersion"] = Value::Null;
            let _ = self.send(Method::PUT, &format!("{}/finalize", found.path), &namespace).await;
        }
        Ok(())
    }

    async fn found(&self) -> anyhow::Result<Vec<Found>> {
        let kinds = self.served().await?.into_iter().filter(|kind| kind.group != GROUP);
        let lists = futures::stream::iter(kinds).map(|kind| self.list(kind)).buffer_unordered(PARALLEL);
        let mut all: Vec<Found> = lists.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }

    /// Lists a kind. Returns nothing if it vanished since discovery, or if its APIService has no backend.
    async fn list(&self, kind: Served) -> anyhow::Result<Vec<Found>> {
        match self.get(&format!("{}/{}", kind.path, kind.plural)).await {
            Ok(list) => Ok(items(&list).iter().filter(|object| !is_automatic(object)).map(|o| kind.found(o)).collect()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405 | 503) => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| format!("cannot list {}", kind.kind)),
        }
    }

    /// Returns every listable kind in its group's preferred version.
    async fn served(&self) -> anyhow::Result<Vec<Served>> {
        let mut kinds: BTreeMap<(String, String), Served> = BTreeMap::new();
        for root in ["/api", "/apis"] {
            let request = Request::get(root).header("Accept", DISCOVERY).body(Vec::new())?;
            let groups: Value = self.client.request(request).await?;
            for kind in items(&groups).iter().flat_map(kinds_of) {
                kinds.entry((kind.group.clone(), kind.kind.clone())).or_insert(kind);
            }
        }
        Ok(kinds.into_values().collect())
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, kube::Error> {
        self.send(Method::GET, path, &Value::Null).await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        self.send(Method::POST, path, object).await
    }

    /// Sends a request. Patches are JSON merge patches.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let format = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("Content-Type", format).body(body);
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }
}

impl Served {
    fn found(&self, object: &Value) -> Found {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let inside = if self.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let path = format!("{}{inside}/{}/{name}", self.path, self.plural);
        let id = Id { group: self.group.clone(), kind: self.kind.clone(), namespace, name };
        Found { id, path, object: object.clone() }
    }
}

fn kinds_of(group: &Value) -> Vec<Served> {
    let name = group["metadata"]["name"].as_str().unwrap_or_default();
    let mut kinds = Vec::new();
    for version in group["versions"].as_array().into_iter().flatten() {
        let number = version["version"].as_str().unwrap_or_default();
        let path = if name.is_empty() { format!("/api/{number}") } else { format!("/apis/{name}/{number}") };
        for resource in version["resources"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let listed = resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            let kind = text(&resource["responseKind"]["kind"]);
            if listed && !IGNORED.contains(&kind.as_str()) {
                let (plural, namespaced) = (text(&resource["resource"]), resource["scope"] == "Namespaced");
                kinds.push(Served { group: name.into(), kind, path: path.clone(), namespaced, plural });
            }
        }
    }
    kinds
}

/// Returns whether the API server created the object; it creates an APIService per custom group.
fn is_automatic(object: &Value) -> bool {
    // The key of release records is the operator's, not a release's.
    object["type"] == "helm.sdk.operatorframework.io/record-key"
        || !object["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"].is_null()
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

fn ignore_gone(answer: Result<Value, kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == StatusCode::NOT_FOUND.as_u16() || status.code == 409 => Ok(()),
        answer => answer.map(drop),
    }
}

async fn wait(began: Instant, what: impl Fn() -> String) -> anyhow::Result<()> {
    if began.elapsed() > LIMIT {
        bail!("waited {} s for {}", LIMIT.as_secs(), what());
    }
    tokio::time::sleep(POLL).await;
    Ok(())
}
