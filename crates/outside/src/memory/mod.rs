//! An in-memory API server for tests: the crate `memory-api` behind [`Api`], with faults.
//!
//! It neither validates objects nor sets defaults. It can fail from a given write on, as if the process had died.

mod faults;
mod received;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::sync;
use futures::future::BoxFuture;
use memory_api::{Change, Fidelity, Request, Scope, Server, Status, Watch};
use serde_json::Value;
use tokio::sync::watch;

pub use faults::Disturbance;

use faults::{Faults, reason_of};

use super::api::{Api, Call, Error, Purpose, Response};
use super::refusal::refusal;

/// An in-memory API server: the twin of a kube client for tests without a cluster.
///
/// It implements [`Api`], so whatever takes one works on it unchanged. Tests
/// inspect it by path, and can make requests fail ([`refuse`](MemoryApi::refuse),
/// [`disturb`](MemoryApi::disturb), [`fail_after`](MemoryApi::fail_after)).
#[derive(Default)]
pub struct MemoryApi {
    server: Mutex<Server>,
    faults: Mutex<Faults>,
    delay: Mutex<Duration>,
    /// The version of the last write.
    written: watch::Sender<u64>,
}

impl MemoryApi {
    /// Creates a server that serves common built-in kinds; `default()` serves none. Objects may be incomplete
    /// ([`Fidelity::Sketch`]).
    pub fn new() -> MemoryApi {
        let server = MemoryApi::of(Server::new(Fidelity::Sketch));
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
        server.change(|server| server.skip_to(100));
        server
    }

    /// Creates a server that responds as a cluster does: [`Server::cluster`].
    pub fn cluster() -> MemoryApi {
        MemoryApi::of(Server::cluster())
    }

    fn of(server: Server) -> MemoryApi {
        MemoryApi { server: Mutex::new(server), ..MemoryApi::default() }
    }

    /// Adds a namespaced kind that the server serves.
    pub fn serve(&self, api_version: &str, kind: &str, plural: &str) {
        self.change(|server| server.add_kind(api_version, kind, plural, Scope::Namespaced));
    }

    /// Adds a cluster-scoped kind that the server serves.
    pub fn serve_cluster_scoped(&self, api_version: &str, kind: &str, plural: &str) {
        self.change(|server| server.add_kind(api_version, kind, plural, Scope::Cluster));
    }

    /// Serves this group version without kinds, as the aggregator does while an API service does not respond.
    pub fn serve_stale(&self, api_version: &str) {
        self.change(|server| server.add_stale(api_version));
    }

    /// Ends [`serve_stale`](Self::serve_stale), as if a person deleted the API service.
    pub fn delete_service(&self, api_version: &str) {
        self.change(|server| server.remove_stale(api_version));
    }

    /// Stops serving a kind in this version: discovery omits it, and its paths respond without a `Status`, as on a real
    /// server.
    pub fn unserve(&self, api_version: &str, kind: &str) {
        let Some(plural) = self.change(|server| server.remove_kind(api_version, kind)) else { return };
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let (begin, part) = (format!("/{root}/{api_version}/"), format!("/{plural}"));
        self.refuse(move |call| {
            let is_gone = call.path.starts_with(&begin) && call.path.contains(&part);
            is_gone.then(|| Error::from_status(404, "", "404 page not found"))
        });
    }

    /// Makes a field of a kind immutable, `("jobs", "/spec/template")`, or of one object, `("jobs/NAMESPACE/NAME", …)`.
    /// By default, no field is.
    pub fn make_immutable(&self, whose: &str, pointer: &str) {
        self.change(|server| server.make_immutable(whose, pointer));
    }

    /// Returns every request so far, as `METHOD path` without the query.
    pub fn log(&self) -> Vec<String> {
        self.faults().log.clone()
    }

    /// Returns the number of writes so far.
    pub fn writes(&self) -> usize {
        self.faults().writes
    }

    /// Accepts this many more writes, then fails every request, as if the process had died. `None` ends the failure.
    pub fn fail_after(&self, writes: Option<usize>) {
        self.faults().writes_left = writes;
    }

    /// Returns the number of writes left before requests fail.
    pub fn writes_left(&self) -> Option<usize> {
        self.faults().writes_left
    }

    /// Rejects requests for which `when` returns an error from now on, as a server's validation or a webhook would.
    /// Rules added later are tried first. [`Error::from_status`] builds such errors.
    pub fn refuse(&self, when: impl Fn(&Call) -> Option<Error> + Send + Sync + 'static) {
        self.faults().refusals.insert(0, Arc::new(when));
    }

    /// Removes all rules added by [`MemoryApi::refuse`].
    pub fn accept(&self) {
        self.faults().refusals.clear();
    }

    /// Delays every request by this time from now on, before it is served.
    pub fn slow_down(&self, delay: Duration) {
        *sync::lock(&self.delay) = delay;
    }

    /// Makes the next `requests` requests whose `METHOD path` contains this text fail.
    pub fn disturb(&self, text: &str, requests: usize, how: Disturbance) {
        self.faults().disturbances.push((text.into(), requests, how));
    }

    /// Makes one request fail, after this many others.
    pub fn disturb_request(&self, after: usize, how: Disturbance) {
        self.faults().next = Some((after, how));
    }

    /// Returns whether the request of [`MemoryApi::disturb_request`] is still to come.
    pub fn awaits_disturbance(&self) -> bool {
        self.faults().next.is_some()
    }

    /// Returns the object at a path.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.change(|server| server.object(path))
    }

    /// Returns the paths of all objects.
    pub fn paths(&self) -> Vec<String> {
        self.change(|server| server.paths())
    }

    /// Stores an object as another manager would: with an ordinary update that takes over the fields that differ.
    pub fn put(&self, path: &str, object: Value, manager: &str) {
        self.change(|server| server.put(path, object, manager));
    }

    /// Stores an object unchanged, with its own uid, resource version and managed fields.
    pub fn restore(&self, path: &str, object: Value) {
        self.change(|server| server.restore(path, object));
    }

    /// Removes an object, whatever its finalizers.
    pub fn remove(&self, path: &str) {
        self.change(|server| server.remove(path));
    }

    /// Returns the resource version of the last write.
    pub fn version(&self) -> u64 {
        self.change(|server| server.version())
    }

    /// Returns a receiver of the resource version of each later write.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    /// Drops the changes up to a version: watches that begin before it fail with 410 `Expired`.
    pub fn compact(&self, version: u64) {
        self.change(|server| server.compact(version));
    }

    /// Returns the events that a watch of this collection with this label selector delivers after a version, oldest
    /// first.
    ///
    /// # Errors
    /// 404 if the server does not serve the collection, 410 `Expired` if the version is compacted.
    pub fn changes(&self, collection: &str, selector: &str, since: u64) -> Result<Vec<Change>, Error> {
        self.change(|server| server.changes(collection, selector, since)).map_err(|status| error(&status))
    }

    /// Opens the watch of a request with `watch=true`. [`MemoryApi::events`] pulls its events.
    ///
    /// # Errors
    /// 404 if the server does not serve the path. A version that is too old fails later, as on a real server.
    pub fn watch(&self, call: &Call) -> Result<Watch, Error> {
        self.change(|server| server.watch(&call.into())).map_err(|status| error(&status))
    }

    /// Returns the events of a watch since the last call, oldest first; empty if there are none.
    ///
    /// # Errors
    /// 410 `Expired` if it fell behind a compaction.
    pub fn events(&self, watch: &mut Watch) -> Result<Vec<Value>, Error> {
        self.change(|server| watch.next(server)).map_err(|status| error(&status))
    }

    /// Gives access to the server itself: its time, webhooks, backups and controllers.
    pub fn change<T>(&self, act: impl FnOnce(&mut Server) -> T) -> T {
        let mut server = sync::lock(&self.server);
        let before = server.version();
        let outcome = act(&mut server);
        if server.version() != before {
            self.written.send_replace(server.version());
        }
        outcome
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        sync::lock(&self.faults)
    }
}

impl<'a> From<&'a Call> for Request<'a> {
    fn from(call: &'a Call) -> Request<'a> {
        let (content_type, body) =
            call.body.as_ref().map_or(("", &[][..]), |(content_type, body)| (*content_type, body));
        let (method, accept) = (call.method.as_str(), call.accept.unwrap_or(""));
        Request { method, path: &call.path, content_type, accept, body }
    }
}

fn error(status: &Status) -> Error {
    refusal(status.code, status.to_json().to_string().as_bytes())
}

/// Returns a response. Discovery has entity tags, as on a real server.
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
        let delay = *sync::lock(&self.delay);
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
    /// Serves a request immediately; only the response may be delayed.
    fn answer(&self, call: &Call) -> BoxFuture<'_, Result<Response, Error>> {
        let disturbance = self.faults().disturbance(call);
        let serve = || self.serve_call(call);
        let answer = match disturbance {
            Some(Disturbance::Unreachable) => Err(Error::Transport("connection refused".into())),
            Some(Disturbance::Refused(code)) => {
                let reason = reason_of(code);
                Err(Error::from_status(code, reason, &format!("{}: {reason}", call.path)))
            }
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
        let answer = answer.map_err(|error| error.of_request(Purpose::from(&call.method)));
        Box::pin(async move { answer })
    }

    fn serve_call(&self, call: &Call) -> Result<Value, Error> {
        self.faults().count(call)?;
        // Cloned, because a rule may read this server's objects.
        let refusals = self.faults().refusals.clone();
        if let Some(refused) = refusals.iter().find_map(|refuse| refuse(call)) {
            return Err(refused);
        }
        self.change(|server| server.serve(&call.into())).map_err(|status| error(&status))
    }
}
