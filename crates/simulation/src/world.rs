//! The shared cluster: an API server in memory, and the log of its changes, which actors and checks read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use helm_release::kube::Call;
use memory_api::controllers::Controller;
use memory_api::{Scope, Server, Status};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::checks::Checks;
use crate::faults::Faults;
use crate::hooks::Hooks;
use crate::names::{self, API_VERSION, NAMES, OBJECTS, OTHER, SHARED};
use crate::network::VERY_LATE;
use crate::others;
use crate::registry::Registry;
use crate::rollout::is_broken;
use crate::trace::Trace;

/// One change of one object.
#[derive(Clone)]
pub struct Change {
    /// The time of the change.
    pub at: Instant,
    /// The writer.
    pub by: Arc<str>,
    /// The object's path.
    pub path: Arc<str>,
    /// The object before, if it existed.
    pub before: Option<Arc<Value>>,
    /// The object now, if it exists.
    pub after: Option<Arc<Value>>,
}

impl Change {
    /// Returns the object that this change deletes or begins to delete.
    pub(crate) fn goes(&self) -> Option<&Arc<Value>> {
        let goes = self.after.as_ref().is_none_or(|after| is_going(after));
        self.before.as_ref().filter(|before| goes && !is_going(before))
    }
}

/// Returns whether the object is being deleted.
pub(crate) fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// A response of the server: status and body.
pub type Answer = (u16, Vec<u8>);

/// The shared cluster. Lock `server` before `state`.
pub struct World {
    server: Mutex<Server>,
    state: Mutex<State>,
    news: Notify,
    began: Instant,
    start: i64,
    /// The folder of fetched charts, which all processes share.
    chart_cache: OnceLock<tempfile::TempDir>,
}

/// The state behind the lock.
pub struct State {
    /// All objects by path.
    pub objects: BTreeMap<Arc<str>, Arc<Value>>,
    /// The number of changes so far.
    pub changes: usize,
    /// When something other than a lease or an event was last written, or a step of the script came.
    pub stirred: Option<Instant>,
    /// The active faults.
    pub faults: Faults,
    /// The trouble of hooks.
    pub hooks: Hooks,
    /// The registry with charts.
    pub registry: Registry,
    /// The steps so far, as a hash and, on request, as text.
    pub trace: Trace,
    /// The invariants.
    pub checks: Checks,
    /// The last request of a process other than for leases, lists and watches.
    pub asked: Option<(Instant, String)>,
    /// The field manager of another operator that looks after all ConfigMaps, if there is one.
    pub operator: Option<String>,
    /// Decides everything that the script leaves open.
    pub random: fastrand::Rng,
    backup: Option<Backup>,
}

/// A backup of the server, and what was known at that time.
struct Backup {
    at: Instant,
    server: memory_api::Backup,
    objects: BTreeMap<Arc<str>, Arc<Value>>,
    checks: Checks,
}

impl World {
    /// Creates an empty cluster whose randomness comes from this seed.
    pub fn new(seed: u64, trace: Trace) -> Arc<World> {
        let mut server = Server::cluster();
        for (kind, plural) in [("Web", "webs"), ("Site", "sites")] {
            server.add_kind(API_VERSION, kind, plural, Scope::Namespaced);
        }
        server.make_immutable("jobs", "/spec/template");
        server.put(others::RULES, others::merge_rules(), "kube-apiserver");
        let state = State {
            objects: BTreeMap::new(),
            changes: 0,
            stirred: None,
            faults: Faults::default(),
            hooks: Hooks::default(),
            registry: Registry::default(),
            trace,
            checks: Checks::new(),
            asked: None,
            operator: None,
            random: fastrand::Rng::with_seed(seed),
            backup: None,
        };
        let (start, state) = (server.time(), Mutex::new(state));
        let (server, news, began, chart_cache) = (Mutex::new(server), Notify::new(), Instant::now(), OnceLock::new());
        let world = World { server, state, news, began, start, chart_cache };
        world.add_namespace(OTHER);
        Arc::new(world)
    }

    /// Creates a namespace, unless it exists.
    pub fn add_namespace(&self, name: &str) {
        let body = json!({"metadata": {"name": name}}).to_string().into_bytes();
        _ = self.write("person", &Call::post("/api/v1/namespaces?fieldManager=kubectl-create", body));
    }

    /// Locks the state. Do not hold the lock across an `.await`, or while the server's lock is held.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the server and sets it to the current time.
    pub fn server(&self) -> MutexGuard<'_, Server> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.set_time(self.start + i64::try_from(self.elapsed().as_secs()).unwrap_or(0));
        server
    }

    /// Returns the folder in which processes keep fetched charts.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn chart_cache(&self) -> std::io::Result<&Path> {
        if self.chart_cache.get().is_none() {
            _ = self.chart_cache.set(tempfile::tempdir()?);
        }
        Ok(self.chart_cache.get().map_or(Path::new(""), tempfile::TempDir::path))
    }

    /// Forgets all fetched charts.
    pub fn forget_charts(&self) {
        if let Some(folder) = self.chart_cache.get() {
            _ = std::fs::remove_dir_all(folder.path().join("charts"));
        }
    }

    /// Backs the server up. A backup is older than the bookmarks that watches get every minute, so they get one now.
    pub fn back_up(&self) {
        let mut server = self.server();
        let mut state = self.state();
        let (backup, objects, checks) = (server.backup(), state.objects.clone(), state.checks.clone());
        state.backup = Some(Backup { at: Instant::now(), server: backup, objects, checks });
        let next = server.version() + 1;
        server.skip_to(next);
        state.faults.breaks.bookmarks += 1;
    }

    /// Restores the last backup; returns whether there is one, and every watch has seen that the server went on.
    pub fn restore(&self) -> bool {
        let mut server = self.server();
        let state = &mut *self.state();
        let Some(backup) = state.backup.as_ref().filter(|backup| backup.at.elapsed() > 2 * VERY_LATE) else {
            return false;
        };
        server.return_to(&backup.server);
        state.objects.clone_from(&backup.objects);
        state.checks.return_to(backup.checks.clone());
        state.stirred = Some(Instant::now());
        true
    }

    /// Returns the simulated time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until there are more changes than `known`; returns their number. Waiters wake in the order in which they
    /// began to wait.
    pub async fn news(&self, known: usize) -> usize {
        loop {
            let changes = self.state().changes;
            if changes > known {
                return changes;
            }
            self.news.notified().await;
        }
    }

    /// Wakes everyone who waits for changes.
    pub fn wake(&self) {
        self.state().changes += 1;
        self.news.notify_waiters();
    }

    /// Draws a random duration up to this limit.
    pub fn pause(&self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.state().random.u64(0..=micros))
    }

    /// Returns the object at a path.
    pub fn object(&self, path: &str) -> Option<Arc<Value>> {
        self.state().objects.get(path).cloned()
    }

    /// Returns all objects with their paths.
    pub fn objects(&self) -> Vec<(Arc<str>, Arc<Value>)> {
        self.state().objects.iter().map(|(path, object)| (path.clone(), object.clone())).collect()
    }

    /// Serves one request immediately, on behalf of `by`.
    pub fn serve(&self, by: &str, call: &Call) -> Answer {
        let answer = self.act(by, |server| answer(server.serve(&call.into())));
        let elapsed = self.elapsed();
        let what = || format!("{} {} {}", call.method, trimmed(&call.path), answer.0);
        self.state().trace.step(elapsed, by, what);
        answer
    }

    /// Steps a controller; returns whether it acted.
    pub fn step(&self, by: &str, controller: &mut dyn Controller) -> bool {
        let choice = self.state().random.u64(..);
        self.act(by, |server| controller.step(server, choice))
    }

    /// Writes on behalf of an actor; returns the object, or `None` if the server refuses.
    pub fn write(&self, by: &str, call: &Call) -> Option<Value> {
        let (code, body) = self.serve(by, call);
        if code < 300 { serde_json::from_slice(&body).ok() } else { None }
    }

    /// Runs a function on the server, and records the changes that it makes.
    fn act<T>(&self, by: &str, act: impl FnOnce(&mut Server) -> T) -> T {
        let (outcome, written) = {
            let mut server = self.server();
            let before = server.version();
            let outcome = act(&mut server);
            (outcome, if server.version() == before { Vec::new() } else { server.written(before) })
        };
        if written.is_empty() {
            return outcome;
        }
        let (by, at): (Arc<str>, Instant) = (by.into(), Instant::now());
        let mut state = self.state();
        for memory_api::Written { path, before, after, .. } in written {
            state.note(Change { at, by: by.clone(), path: path.into(), before, after }, self.elapsed());
        }
        drop(state);
        self.news.notify_waiters();
        outcome
    }
}

impl State {
    /// Records a change, and checks the invariants that hold at every write.
    fn note(&mut self, change: Change, elapsed: Duration) {
        match &change.after {
            Some(after) => _ = self.objects.insert(change.path.clone(), after.clone()),
            None => _ = self.objects.remove(&change.path),
        }
        self.changes += 1;
        if !change.path.contains("/leases/") && !change.path.contains("/events/") {
            self.stirred = Some(change.at);
        }
        if let Some(found) = self.checks.written(&change, &self.objects) {
            self.trace.violation(elapsed, found);
        }
        if !matches!(&*change.by, "person" | "helm") && !change.by.starts_with("op-") {
            self.trace.step(elapsed, &change.by, || format!("wrote {}", change.path));
        }
    }
}

impl State {
    /// Returns whether a read may be one that a process repeats forever, at most every five minutes: a retry of values
    /// that do not render, or the diagnosis of a Deployment that never becomes ready.
    pub fn is_repeated(&self, call: &Call) -> bool {
        call.method == http::Method::GET
            && NAMES.iter().any(|name| self.is_retry(name, call) || self.is_diagnosis(name, call))
    }

    fn is_retry(&self, name: &str, call: &Call) -> bool {
        let resource = self.objects.get(&*names::resource(name));
        if resource.is_none_or(|resource| resource["spec"]["broken"] != true) {
            return false;
        }
        // The retry of an interrupted action also reads its record.
        let is_record = names::record(trimmed(&call.path)).is_some_and(|(release, _)| release == name);
        let is_discovery = matches!(&*call.path, "/api" | "/apis");
        is_record || is_discovery || [OBJECTS[2], SHARED].iter().any(|path| call.path == names::path(path, name))
    }

    fn is_diagnosis(&self, name: &str, call: &Call) -> bool {
        let deployment = names::path(OBJECTS[5], name);
        let pods = format!("/api/v1/namespaces/{}/pods", names::namespace(name));
        let (asked, found) = (trimmed(&call.path), self.objects.get(&*deployment));
        (asked == deployment || asked == pods) && found.is_some_and(|deployment| is_broken(deployment))
    }
}

/// Returns the path without its query.
pub fn trimmed(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

fn answer(served: Result<Value, Status>) -> Answer {
    match served {
        Ok(value) => (200, value.to_string().into_bytes()),
        Err(status) => (status.code, status.to_json().to_string().into_bytes()),
    }
}
