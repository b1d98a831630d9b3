//! The cluster that everybody shares: an API server in memory, and the log of its changes, from which watches, actors and checks learn.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use helm_release::kube::{Api as _, Call, Error, MemoryApi};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::checks::Checks;
use crate::faults::Faults;
use crate::trace::Trace;

/// The namespace of everything.
pub const NAMESPACE: &str = "default";

/// The group and version of the custom resources.
pub const API_VERSION: &str = "sim.example.com/v1";

/// The path of the custom resources.
pub const RESOURCES: &str = "/apis/sim.example.com/v1/namespaces/default/webs";

/// One change of one object.
#[derive(Clone)]
pub struct Change {
    /// Its resource version.
    pub version: u64,
    /// When it happened.
    pub at: Instant,
    /// Who wrote.
    pub by: Arc<str>,
    /// The object's path.
    pub path: Arc<str>,
    /// The object before, if it existed.
    pub before: Option<Arc<Value>>,
    /// The object now, if it exists.
    pub after: Option<Arc<Value>>,
}

/// An answer of the server: its status and body.
pub type Answer = (u16, Vec<u8>);

/// The shared cluster.
pub struct World {
    server: MemoryApi,
    state: Mutex<State>,
    news: Notify,
    began: Instant,
}

/// What is behind the lock.
pub struct State {
    /// All objects by path.
    pub objects: BTreeMap<Arc<str>, Arc<Value>>,
    /// All changes, oldest first.
    pub log: Vec<Change>,
    /// What goes wrong at present.
    pub faults: Faults,
    /// What happened, as a hash and, on request, as text.
    pub trace: Trace,
    /// What must hold.
    pub checks: Checks,
    /// What a process last asked for, beside leases, lists and watches.
    pub asked: Option<(Instant, String)>,
    /// Decides everything that the script leaves open.
    pub random: fastrand::Rng,
}

impl World {
    /// A cluster without objects in which this seed decides.
    pub fn new(seed: u64, trace: Trace) -> Arc<World> {
        let server = MemoryApi::new();
        for (api_version, kind, plural) in [
            ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            ("v1", "Event", "events"),
            ("events.k8s.io/v1", "Event", "events"),
            ("coordination.k8s.io/v1", "Lease", "leases"),
            (API_VERSION, "Web", "webs"),
        ] {
            server.serve(api_version, kind, plural);
        }
        let state = State {
            objects: BTreeMap::new(),
            log: Vec::new(),
            faults: Faults::default(),
            trace,
            checks: Checks::new(),
            asked: None,
            random: fastrand::Rng::with_seed(seed),
        };
        Arc::new(World { server, state: Mutex::new(state), news: Notify::new(), began: Instant::now() })
    }

    /// The state; not to be held over an `.await`.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much time has passed.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until there are more changes than this; returns how many there are. Waiters wake in the order in which they began to wait.
    pub async fn news(&self, known: usize) -> usize {
        loop {
            let changes = self.state().log.len();
            if changes > known {
                return changes;
            }
            self.news.notified().await;
        }
    }

    /// A random time up to this limit.
    pub fn pause(&self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.state().random.u64(0..=micros))
    }

    /// The object at a path.
    pub fn object(&self, path: &str) -> Option<Arc<Value>> {
        self.state().objects.get(path).cloned()
    }

    /// All objects of a collection.
    pub fn list(&self, collection: &str) -> Vec<(Arc<str>, Arc<Value>)> {
        let state = self.state();
        let members = state.objects.iter().filter(|(path, _)| is_member(path, collection));
        members.map(|(path, object)| (path.clone(), object.clone())).collect()
    }

    /// Serves one request at once, in somebody's name.
    pub fn serve(&self, by: &str, call: &Call) -> Answer {
        let is_write = call.method != http::Method::GET;
        // The server answers without waiting.
        let sent = || self.server.send(call.clone()).now_or_never();
        let answer = match self.is_outdated(call) {
            true => (409, refusal(409, "Conflict", "the object has been modified")),
            false => answer(sent().unwrap_or_else(|| Err(Error::Transport("no answer".into())))),
        };
        if is_write && !call.path.contains("dryRun=All") {
            self.note(by, call, &answer);
        }
        let mut state = self.state();
        state.trace.step(self.elapsed(), by, &format!("{} {} {}", call.method, trimmed(&call.path), answer.0));
        answer
    }

    /// Writes on behalf of an actor; returns the object, or nothing if the server refuses.
    pub fn write(&self, by: &str, call: &Call) -> Option<Value> {
        let (code, body) = self.serve(by, call);
        if code < 300 { serde_json::from_slice(&body).ok() } else { None }
    }

    /// Whether a replacement is based on an old version.
    fn is_outdated(&self, call: &Call) -> bool {
        let Some((_, body)) = call.body.as_ref().filter(|_| call.method == http::Method::PUT) else { return false };
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let known = self.object(trimmed(&call.path));
        let wanted = &sent["metadata"]["resourceVersion"];
        known.is_some_and(|known| wanted.is_string() && known["metadata"]["resourceVersion"] != *wanted)
    }

    /// Logs what a write changed.
    fn note(&self, by: &str, call: &Call, (code, body): &Answer) {
        if *code >= 300 {
            return;
        }
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let path = written(call, &answer);
        let after = self.server.object(&path).map(Arc::new);
        let mut state = self.state();
        let before = match &after {
            Some(after) => state.objects.insert(path.as_str().into(), after.clone()),
            None => state.objects.remove(&*path),
        };
        if before == after {
            return;
        }
        let version = version(after.as_deref().unwrap_or(&answer));
        let change = Change { version, at: Instant::now(), by: by.into(), path: path.into(), before, after };
        state.look_at(&change, self.elapsed());
        state.log.push(change);
        drop(state);
        self.news.notify_waiters();
    }
}

impl State {
    /// Checks what holds at every write.
    fn look_at(&mut self, change: &Change, at: Duration) {
        if let Some(found) = self.checks.written(change) {
            self.trace.violation(at, found);
        }
    }
}

/// The object's version as a number.
pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// The path of the object that a request wrote.
fn written(call: &Call, answer: &Value) -> String {
    let path = trimmed(&call.path);
    let path = path.strip_suffix("/status").unwrap_or(path);
    match call.method == http::Method::POST {
        true => format!("{path}/{}", answer["metadata"]["name"].as_str().unwrap_or_default()),
        false => path.to_owned(),
    }
}

/// The path without its query.
fn trimmed(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

fn answer(sent: Result<helm_release::kube::Response, Error>) -> Answer {
    match sent {
        Ok(response) => (200, response.body),
        Err(Error::Refused { code, reason, message, .. }) => (code, refusal(code, &reason, &message)),
        Err(other) => (500, refusal(500, "InternalError", &other.to_string())),
    }
}

/// The body of a refusal.
pub fn refusal(code: u16, reason: &str, message: &str) -> Vec<u8> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code,
    });
    status.to_string().into_bytes()
}

/// Whether an object is in the collection, which may span all namespaces.
pub fn is_member(path: &str, collection: &str) -> bool {
    let Some((parent, _)) = path.rsplit_once('/') else { return false };
    let everywhere = || {
        let (root, plural) = collection.rsplit_once('/')?;
        parent.strip_prefix(root)?.strip_prefix("/namespaces/")?.split_once('/').map(|(_, p)| p == plural)
    };
    parent == collection || everywhere().unwrap_or(false)
}

/// Whether an object has the labels that a query selects, by equality or by a set.
pub fn is_selected(object: &Value, selector: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    if let Some((key, set)) = selector.split_once(" in (") {
        let value = labels[key].as_str().unwrap_or_default();
        return set.trim_end_matches(')').split(',').any(|one| one.trim() == value);
    }
    let holds = |term: &str| term.split_once('=').is_none_or(|(key, value)| labels[key] == value);
    selector.split(',').filter(|term| !term.is_empty()).all(holds)
}
