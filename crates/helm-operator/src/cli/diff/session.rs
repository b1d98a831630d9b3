//! Runs the operator's manager on a client that writes nothing, and plans with its controllers.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use controller::client;
use controller::client::rehearsal::Rehearsal;
use controller::lease::Term;
use controller::metrics::Metrics;
use controller::report::chain;
use controller::runtime::namespaces::Namespaces;
use controller::runtime::readiness::Readiness;
use futures::stream::{self, StreamExt as _};
use helm_release::kube::{Call, Error as ApiError};
use kube::Client;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Diff, inputs, rollout};
use crate::charts::Rendering;
use crate::charts::rehearsals::{self, Planner, Rehearsals, Rehearsed};
use crate::manager::operator::Operator;
use crate::manager::{self, Config as ManagerConfig};
use crate::terminal::plain;
use crate::watches::Watch;

/// How long controllers may take until they have listed everything.
const LISTING: Duration = Duration::from_secs(60);

/// How many resources are planned concurrently.
const CONCURRENT: usize = 8;

/// Why nothing could be planned.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Input(#[from] inputs::Error),
    #[error(transparent)]
    Watches(#[from] manager::Error),
    #[error("cannot reach the cluster: {0}")]
    Cluster(String),
    #[error("cannot read what the cluster has{0}")]
    Listing(String),
    #[error("cannot read {what}")]
    Read { what: String, source: ApiError },
    #[error("the API server refuses {what}")]
    Refused { what: String, source: ApiError },
    #[error("cannot render {what} with chart {}: {why}", chart.display())]
    Render { chart: PathBuf, what: String, why: String },
    #[error("cannot plan {what}")]
    Plan { what: String, source: rehearsals::Error },
}

/// Returns the plan of each resource that the flags name, and in which steps the changes reach them.
pub(super) fn plans(diff: &Diff, operator: Operator) -> Result<(Vec<Rehearsed>, Vec<String>), Failure> {
    let documents = inputs::read(&diff.filename)?;
    check(diff, &documents)?;
    let operator = operator.watches(&diff.watches_file)?;
    let wanted = wanted(diff, &documents, operator.entries())?;
    let operator =
        operator.only(|watch| wanted.contains(&gvk(watch)), diff.chart.as_deref()).map_err(Failure::Usage)?;
    let failed = |error: io::Error| Failure::Cluster(error.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failed)?;
    let planned = runtime.block_on(async {
        let client = connect(diff).await?;
        let namespace = diff.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        Session::start(diff, operator, client, namespace).await?.plans(documents, &wanted).await
    });
    runtime.shutdown_background();
    planned
}

/// An API version and a kind.
pub(super) type Gvk = (String, String);

pub(super) fn gvk(watch: &Watch) -> Gvk {
    (watch.api_resource().api_version, watch.kind.clone())
}

fn check(diff: &Diff, documents: &[Value]) -> Result<(), Failure> {
    let usage = |why: &str| Err(Failure::Usage(why.to_owned()));
    match (&diff.kind, diff.filename.is_empty()) {
        (Some(_), false) => usage("name resources or give files with -f, not both"),
        (None, false) if diff.all => usage("--all needs a kind, not files"),
        (None, false) if documents.is_empty() => usage("the files contain no resource"),
        (None, true) => usage("name a kind and resources, or give files with -f: see --help"),
        (Some(_), true) if diff.names.is_empty() && !diff.all => usage("name resources of the kind, or add --all"),
        (Some(_), true) if diff.all && !diff.names.is_empty() => {
            usage("--all stands for every resource: leave the names out")
        }
        _ => Ok(()),
    }
}

/// Returns the served kinds that the flags or files name.
fn wanted(diff: &Diff, documents: &[Value], watches: &[Watch]) -> Result<BTreeSet<Gvk>, Failure> {
    let is_named = |watch: &&Watch| diff.kind.as_deref().is_some_and(|kind| watch.is_meant_by(kind));
    let is_in_files = |watch: &&Watch| documents.iter().any(|document| of_document(document) == gvk(watch));
    let wanted: BTreeSet<Gvk> = match documents {
        [] => watches.iter().filter(is_named).map(gvk).collect(),
        _ => watches.iter().filter(is_in_files).map(gvk).collect(),
    };
    if wanted.is_empty() {
        let served: Vec<&str> = watches.iter().map(|watch| watch.kind.as_str()).collect();
        let file = diff.watches_file.display();
        return Err(Failure::Usage(format!("{file} serves none of these kinds, only {}", served.join(", "))));
    }
    Ok(wanted)
}

pub(super) fn of_document(document: &Value) -> Gvk {
    let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
    (text("apiVersion"), text("kind"))
}

/// Connects as the kubeconfig says. No request of the client writes anything.
async fn connect(diff: &Diff) -> Result<Client, Failure> {
    let config = diff.cluster.configuration().await.map_err(Failure::Cluster)?;
    let connection = client::connect(config, "helm-operator-diff", &Metrics::of("helm-operator"), &Term::default());
    Ok(Rehearsal::client(connection.map_err(|error| Failure::Cluster(chain(&error)))?.client))
}

/// Warns if the key of release records is missing in the configured namespace.
async fn check_key(client: &Client, config: &ManagerConfig) -> Result<(), Failure> {
    let what = "the key of release records: name the operator's namespace with --record-key-namespace".to_owned();
    let has_key = rehearsals::has_key(client, &config.charts).await;
    if !has_key.map_err(|source| Failure::Read { what, source })? {
        eprintln!(
            "note: this namespace has no key of release records: if the operator has run before, name its namespace with \
             --record-key-namespace"
        );
    }
    Ok(())
}

/// The running manager.
struct Session<'d> {
    diff: &'d Diff,
    client: Client,
    namespace: String,
    rehearsals: Arc<Rehearsals>,
    readiness: Readiness,
    shutdown: CancellationToken,
}

impl<'d> Session<'d> {
    async fn start(
        diff: &'d Diff,
        operator: Operator,
        client: Client,
        namespace: String,
    ) -> Result<Session<'d>, Failure> {
        let mut config = ManagerConfig::default();
        config.process.metrics_bind_address = "0".into();
        config.process.health_probe_bind_address = "0".into();
        // Rendering in this process never postpones.
        config.charts.rendering = Rendering { workers: 0, ..config.charts.rendering };
        config.charts.record_key_namespace = diff.record_key_namespace.clone().unwrap_or_default();
        if !diff.all_namespaces {
            config.process.controllers.namespaces = Namespaces([namespace.clone()].into());
        }
        check_key(&client, &config).await?;
        let (manager, rehearsals) = operator.manager(config).rehearsing();
        let manager = manager.of_controllers()?;
        let (readiness, shutdown) = (manager.readiness().clone(), CancellationToken::new());
        let running = manager.run_until(client.clone(), shutdown.clone());
        let kept = shutdown.clone();
        tokio::spawn(async move {
            if let Err(error) = running.await {
                crate::cli::print_error(&chain(&error));
            }
            kept.cancel();
        });
        Ok(Session { diff, client, namespace, rehearsals, readiness, shutdown })
    }

    /// Plans all resources, in the order of the files or of their names.
    async fn plans(
        self,
        documents: Vec<Value>,
        wanted: &BTreeSet<Gvk>,
    ) -> Result<(Vec<Rehearsed>, Vec<String>), Failure> {
        let resources = match documents.is_empty() {
            true => self.live(wanted).await?,
            false => self.applied(documents, wanted).await?,
        };
        let all = resources.len();
        let heads: Vec<(Planner, Value)> = resources.iter().map(head).collect();
        let mut planned = stream::iter(resources.into_iter().map(|resource| self.plan(resource))).buffered(CONCURRENT);
        let mut plans = Vec::new();
        while let Some(plan) = planned.next().await {
            plans.push(plan?);
            progress(plans.len(), all);
        }
        self.shutdown.cancel();
        let changed = heads.iter().zip(&plans).filter(|(_, one)| !one.plan.changes.is_empty()).map(|(head, _)| head);
        let rollouts = rollout::texts(changed);
        Ok((plans, rollouts))
    }

    async fn plan(&self, (planner, resource): (Planner, Value)) -> Result<Rehearsed, Failure> {
        let what = described(&resource);
        planner.plan(resource).await.map_err(|source| Failure::Plan { what, source })
    }

    async fn planner(&self, (api_version, kind): &Gvk) -> Result<Planner, Failure> {
        let listed = tokio::time::timeout(LISTING, self.rehearsals.planner(api_version, kind));
        let listed = tokio::select! {
            () = self.shutdown.cancelled() => return Err(Failure::Listing(String::new())),
            listed = listed => listed,
        };
        let unmet = || format!(" within {} s: {}", LISTING.as_secs(), self.readiness.unmet().join("; "));
        listed.ok().flatten().ok_or_else(|| Failure::Listing(unmet()))
    }

    /// Returns the resources in the cluster that the flags name.
    async fn live(&self, wanted: &BTreeSet<Gvk>) -> Result<Vec<(Planner, Value)>, Failure> {
        let mut resources = Vec::new();
        let annotations = self.diff.annotate.as_ref().and_then(|patch| patch["metadata"]["annotations"].as_object());
        for gvk in wanted {
            let planner = self.planner(gvk).await?;
            let namespace = if self.diff.all && self.diff.all_namespaces { "" } else { &self.namespace };
            let collection = planner.kind().collection(namespace);
            let collection = collection.map_err(|source| Failure::Read { what: gvk.1.clone(), source })?;
            match self.diff.all {
                true => {
                    let list = self.read(&collection, &gvk.1).await?;
                    let items = list["items"].as_array().cloned().unwrap_or_default();
                    resources.extend(items.into_iter().map(|item| (planner.clone(), typed(item, gvk))));
                }
                false => {
                    for name in &self.diff.names {
                        let what = format!("{} {name}", gvk.1);
                        let mut resource = self.read(&format!("{collection}/{name}"), &what).await?;
                        for (key, value) in annotations.into_iter().flatten() {
                            annotate(&mut resource, key, value);
                        }
                        resources.push((planner.clone(), resource));
                    }
                }
            }
        }
        Ok(resources)
    }

    async fn read(&self, path: &str, what: &str) -> Result<Value, Failure> {
        let answer = outside::Api::send(&self.client, Call::get(path)).await.and_then(|answer| answer.parse());
        answer.map_err(|source| Failure::Read { what: what.to_owned(), source })
    }

    /// Returns the resources of files as the API server would store them: defaulted, and checked.
    async fn applied(&self, documents: Vec<Value>, wanted: &BTreeSet<Gvk>) -> Result<Vec<(Planner, Value)>, Failure> {
        let mut resources = Vec::new();
        for document in documents {
            let gvk = of_document(&document);
            if !wanted.contains(&gvk) {
                skipped(&document);
                continue;
            }
            let planner = self.planner(&gvk).await?;
            let stored = self.store(&planner, document).await?;
            resources.push((planner, stored));
        }
        Ok(resources)
    }

    /// Dry-runs the creation of a resource, or the replacement of the live one by what a file contains.
    async fn store(&self, planner: &Planner, mut document: Value) -> Result<Value, Failure> {
        let what = described(&document);
        let refused = |source| Failure::Refused { what: what.clone(), source };
        let namespace = document["metadata"]["namespace"].as_str().unwrap_or(&self.namespace).to_owned();
        if planner.kind().namespaced {
            document["metadata"]["namespace"] = namespace.clone().into();
        }
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        let path = planner.kind().path(&namespace, name).map_err(refused)?;
        let collection = planner.kind().collection(&namespace).map_err(refused)?;
        let query = "dryRun=All&fieldManager=helm-operator-diff";
        let call =
            match outside::Api::send(&self.client, Call::get(path.clone())).await.and_then(|a| a.parse::<Value>()) {
                Ok(live) => Call {
                    method: http::Method::PUT,
                    ..Call::post(format!("{path}?{query}"), replaced(live, document).to_string().into_bytes())
                },
                Err(error) if error.is_missing_object() => {
                    Call::post(format!("{collection}?{query}"), document.to_string().into_bytes())
                }
                Err(source) => return Err(Failure::Read { what, source }),
            };
        outside::Api::send(&self.client, call).await.and_then(|answer| answer.parse()).map_err(refused)
    }
}

/// Returns the parts of a resource that decide when a rollout reaches it.
fn head((planner, resource): &(Planner, Value)) -> (Planner, Value) {
    let metadata = &resource["metadata"];
    let kept = ["namespace", "name", "labels"].map(|key| (key.to_owned(), metadata[key].clone()));
    (planner.clone(), serde_json::json!({"metadata": Value::Object(kept.into_iter().collect())}))
}

/// Returns a live resource with a file's content: its `spec`, and its labels and annotations over the live ones.
fn replaced(mut live: Value, document: Value) -> Value {
    for key in ["labels", "annotations"] {
        for (name, value) in document["metadata"][key].as_object().into_iter().flatten() {
            live["metadata"][key][name] = value.clone();
        }
    }
    live["spec"] = document["spec"].clone();
    live
}

/// Sets an annotation, or removes it if the value is null.
fn annotate(resource: &mut Value, key: &str, value: &Value) {
    match (value, resource["metadata"]["annotations"].as_object_mut()) {
        (Value::Null, Some(annotations)) => _ = annotations.remove(key),
        (Value::Null, None) => {}
        _ => resource["metadata"]["annotations"][key] = value.clone(),
    }
}

/// Returns an item of a list with its type, which lists leave out.
fn typed(mut item: Value, (api_version, kind): &Gvk) -> Value {
    item["apiVersion"] = api_version.as_str().into();
    item["kind"] = kind.as_str().into();
    item
}

/// Notes a document of another kind.
pub(super) fn skipped(document: &Value) {
    eprintln!("skipped {}: the watches file does not serve it", plain(&described(document)));
}

fn described(resource: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&resource["kind"]), text(&resource["metadata"]["name"]))
}

/// Shows on a terminal how many of many resources are planned.
fn progress(done: usize, all: usize) {
    let mut err = io::stderr().lock();
    if all > CONCURRENT && err.is_terminal() {
        let end = if done == all { "\r\u{1b}[K" } else { "" };
        _ = write!(err, "\rplanned {done} of {all}{end}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_replaces_the_spec_and_adds_labels_and_annotations() {
        let live = json!({
            "metadata": {"name": "a", "uid": "u", "annotations": {"x": "1", "y": "1"}}, "spec": {"old": 1}, "status": {"z": 1},
        });
        let file =
            json!({"metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"x": "2"}}, "spec": {"new": 1}});
        let expected = json!({
            "metadata": {"name": "a", "uid": "u", "labels": {"l": "1"}, "annotations": {"x": "2", "y": "1"}},
            "spec": {"new": 1}, "status": {"z": 1},
        });
        assert_eq!(replaced(live, file), expected);
    }
}
