//! An in-memory API server for tests: objects by path, resource versions, managed fields, finalizers.
//!
//! It does not validate, default or collect garbage. It can fail from a given write on, as if the process had died.

mod changes;
mod fields;
mod selector;
mod state;
#[cfg(test)]
mod tests;
mod watch;

pub use changes::{Change, ChangeKind};
pub use watch::{Watch, error_event};

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use fields::{fields, remove_changed};
use state::{Kind, State, refused};

use super::api::{Api, Asked, Call, Error, Response};

/// An in-memory API server: the twin of a kube client for tests without a cluster.
///
/// It implements [`Api`], so an [`Applier`](super::Applier) or a [`Storage`](crate::storage::Storage) works on it unchanged. Tests inspect it by
/// path, and can make requests fail ([`refuse`](MemoryApi::refuse), [`disturb`](MemoryApi::disturb), [`fail_after`](MemoryApi::fail_after)).
#[derive(Default)]
pub struct MemoryApi {
    state: Mutex<State>,
    refusals: Mutex<Vec<Refuse>>,
    delay: Mutex<Duration>,
}

/// Returns the error that a request is rejected with, if any.
type Refuse = Arc<dyn Fn(&Call) -> Option<Error> + Send + Sync>;

/// A fault of the connection or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The request does not arrive.
    Unreachable,
    /// The request is served, but its response is lost.
    AnswerLost,
    /// The request is rejected with this HTTP status.
    Refused(u16),
    /// The request does not arrive and never gets a response.
    Unanswered,
    /// Nothing is served at the request's path.
    Unserved,
    /// The request is served, but its response ends in the middle.
    CutOff,
}

impl MemoryApi {
    /// Creates a server that serves common built-in kinds. `default()` serves none.
    pub fn new() -> MemoryApi {
        let server = MemoryApi::default();
        for (api_version, kind, plural) in [
            ("v1", "Secret", "secrets"),
            ("v1", "ConfigMap", "configmaps"),
            ("v1", "Service", "services"),
            ("v1", "ServiceAccount", "serviceaccounts"),
            ("v1", "Pod", "pods"),
            ("apps/v1", "Deployment", "deployments"),
            ("batch/v1", "Job", "jobs"),
        ] {
            server.serve(api_version, kind, plural);
        }
        server.serve_cluster_scoped("v1", "Namespace", "namespaces");
        server.serve_cluster_scoped("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles");
        server.state().version = 100;
        server
    }

    /// Adds a namespaced kind that the server serves.
    pub fn serve(&self, api_version: &str, kind: &str, plural: &str) {
        self.add_kind(api_version, kind, plural, "Namespaced");
    }

    /// Adds a cluster-scoped kind that the server serves.
    pub fn serve_cluster_scoped(&self, api_version: &str, kind: &str, plural: &str) {
        self.add_kind(api_version, kind, plural, "Cluster");
    }

    /// Serves this group version as the aggregator does one whose server does not answer: without kinds.
    pub fn serve_stale(&self, api_version: &str) {
        self.state().stale.push(api_version.to_owned());
    }

    /// Stops serving a kind in this version: discovery lacks it, and its paths answer without a status, as on a real server.
    pub fn unserve(&self, api_version: &str, kind: &str) {
        let is_it = |known: &mut Kind| known.kind == kind && known.api_version == api_version;
        let gone: Vec<Kind> = self.state().kinds.extract_if(.., is_it).collect();
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let begin = format!("/{root}/{api_version}/");
        self.refuse(move |call| {
            let is_in = |kind: &Kind| call.path.starts_with(&begin) && call.path.contains(&format!("/{}", kind.plural));
            let is_gone = gone.iter().any(is_in);
            is_gone.then(|| Error::from_status(404, "", "404 page not found"))
        });
    }

    fn add_kind(&self, api_version: &str, kind: &str, plural: &str, scope: &'static str) {
        self.state().kinds.push(Kind {
            api_version: api_version.into(),
            kind: kind.into(),
            plural: plural.into(),
            scope,
        });
    }

    /// Makes a field of a kind immutable: `("jobs", "/spec/template")`. By default none is.
    pub fn make_immutable(&self, plural: &str, pointer: &str) {
        self.state().immutable.push((plural.into(), pointer.into()));
    }

    /// Returns every request so far, as `METHOD path` without the query.
    pub fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// Returns the number of writes so far.
    pub fn writes(&self) -> usize {
        self.state().writes
    }

    /// Accepts this many more writes, then fails every request, as if the process had died. `None` ends the failure.
    pub fn fail_after(&self, writes: Option<usize>) {
        self.state().writes_left = writes;
    }

    /// Returns how many writes are left before requests fail.
    pub fn writes_left(&self) -> Option<usize> {
        self.state().writes_left
    }

    /// From now on rejects requests for which `when` returns an error, as a server's validation or a webhook would. Rules added later are tried first.
    /// [`Error::from_status`] builds such errors.
    pub fn refuse(&self, when: impl Fn(&Call) -> Option<Error> + Send + Sync + 'static) {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).insert(0, Arc::new(when));
    }

    /// Removes all rules added by [`MemoryApi::refuse`].
    pub fn accept(&self) {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Makes every request take this long from now on, before it is served.
    pub fn slow_down(&self, delay: Duration) {
        *self.delay.lock().unwrap_or_else(PoisonError::into_inner) = delay;
    }

    /// Makes the next `requests` requests whose `METHOD path` contains this text fail.
    pub fn disturb(&self, text: &str, requests: usize, how: Disturbance) {
        self.state().disturbances.push((text.into(), requests, how));
    }

    /// Makes one request fail, after this many others.
    pub fn disturb_request(&self, after: usize, how: Disturbance) {
        self.state().disturb_request = Some((after, how));
    }

    /// Returns whether the request of [`MemoryApi::disturb_request`] has yet to come.
    pub fn awaits_disturbance(&self) -> bool {
        self.state().disturb_request.is_some()
    }

    /// Returns the object at a path.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).map(|object| (**object).clone())
    }

    /// Returns the paths of all objects.
    pub fn paths(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    /// Stores an object as another manager would: with an ordinary update that takes over the fields that differ.
    pub fn put(&self, path: &str, mut object: Value, manager: &str) {
        let mut state = self.state();
        let old = state.objects.get(path).cloned();
        state.version += 1;
        let entry = json!({"manager": manager, "operation": "Update", "fieldsV1": fields(&object)});
        let mut managers = old.as_ref().map(|o| o["metadata"]["managedFields"].clone()).unwrap_or(json!([]));
        if let (Some(managers), Some(old)) = (managers.as_array_mut(), &old) {
            managers.iter_mut().for_each(|m| remove_changed(&mut m["fieldsV1"], old, &object));
            managers.retain(|m| m["manager"] != manager || m["operation"] != "Update");
            managers.push(entry);
        } else {
            managers = json!([entry]);
        }
        let uid =
            old.as_ref().map_or_else(|| json!(format!("uid-{}", state.version)), |o| o["metadata"]["uid"].clone());
        object["metadata"]["managedFields"] = managers;
        object["metadata"]["uid"] = uid;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.write(path, Some(object));
    }

    /// Stores an object unchanged, with its own uid, resource version and managed fields.
    pub fn restore(&self, path: &str, object: Value) {
        let mut state = self.state();
        let version = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        state.version = state.version.max(version.unwrap_or(0));
        state.write(path, Some(object));
    }

    /// Removes an object, whatever its finalizers.
    pub fn remove(&self, path: &str) {
        let mut state = self.state();
        state.version += 1;
        state.write(path, None);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason that a server gives with a status.
fn reason_of(code: u16) -> &'static str {
    match code {
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        _ => "Disturbed",
    }
}

/// Discovery has entity tags, as on a real server.
fn respond(call: &Call, body: Vec<u8>) -> Response {
    if !["/api", "/apis"].contains(&call.path.as_str()) {
        return body.into();
    }
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let etag = Some(format!("\"{:x}\"", hasher.finish()));
    let is_unchanged = call.known == etag;
    Response { body: if is_unchanged { Vec::new() } else { body }, etag, is_unchanged }
}

impl Api for MemoryApi {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        let delay = *self.delay.lock().unwrap_or_else(PoisonError::into_inner);
        if delay.is_zero() {
            return self.answer(&call);
        }
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            self.answer(&call).await
        })
    }
}

impl MemoryApi {
    /// Serves a request at once; only the answer may be late.
    fn answer(&self, call: &Call) -> BoxFuture<'_, Result<Response, Error>> {
        let disturbance = self.state().disturbance(call);
        // Cloned, because a rule may read this server's objects.
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let serve = || {
            let refused = refusals.iter().find_map(|refuse| refuse(call));
            self.state().serve(call, refused)
        };
        let answer = match disturbance {
            Some(Disturbance::Unreachable) => Err(Error::Transport("connection refused".into())),
            Some(Disturbance::Refused(code)) => Err(refused(code, reason_of(code), &call.path)),
            Some(Disturbance::Unserved) => Err(Error::from_status(404, "", "404 page not found")),
            Some(Disturbance::Unanswered) => return Box::pin(std::future::pending()),
            Some(Disturbance::CutOff) => {
                let answer = serve().map(|value| value.to_string().into_bytes());
                return Box::pin(async move { answer.map(|body| body[..body.len() / 2].to_vec().into()) });
            }
            Some(Disturbance::AnswerLost) => serve().and(Err(Error::Transport("connection reset".into()))),
            None => serve(),
        };
        let answer = answer.map(|value| respond(call, value.to_string().into_bytes()));
        let answer = answer.map_err(|error| error.of_request(Asked::from(&call.method)));
        Box::pin(async move { answer })
    }
}
