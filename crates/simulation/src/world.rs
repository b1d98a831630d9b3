//! The cluster that everybody shares: an API server in memory, and the log of its changes, from which actors and checks learn.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helm_release::kube::Call;
use memory_api::controllers::Controller;
use memory_api::{Request, Scope, Server, Status};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::checks::Checks;
use crate::faults::Faults;
use crate::names::{API_VERSION, OTHER};
use crate::trace::Trace;

/// One change of one object.
#[derive(Clone)]
pub struct Change {
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

/// The shared cluster. The server's lock is taken first.
pub struct World {
    server: Mutex<Server>,
    state: Mutex<State>,
    news: Notify,
    began: Instant,
    start: i64,
}

/// What is behind the lock.
pub struct State {
    /// All objects by path.
    pub objects: BTreeMap<Arc<str>, Arc<Value>>,
    /// How many changes there were.
    pub changes: usize,
    /// When something other than a lease or an event was last written.
    pub written: Option<Instant>,
    /// What goes wrong at present.
    pub faults: Faults,
    /// What happened, as a hash and, on request, as text.
    pub trace: Trace,
    /// What must hold.
    pub checks: Checks,
    /// What a process last asked for, beside leases, lists and watches.
    pub asked: Option<(Instant, String)>,
    /// Decides everything that the script leaves open.
    /// The field manager of another operator that looks after all ConfigMaps, if there is one.
    pub operator: Option<String>,
    /// Decides everything that the script leaves open.
    pub random: fastrand::Rng,
}

impl World {
    /// A cluster without objects in which this seed decides.
    pub fn new(seed: u64, trace: Trace) -> Arc<World> {
        let mut server = Server::cluster();
        for (kind, plural) in [("Web", "webs"), ("Site", "sites")] {
            server.add_kind(API_VERSION, kind, plural, Scope::Namespaced);
        }
        let state = State {
            objects: BTreeMap::new(),
            changes: 0,
            written: None,
            faults: Faults::default(),
            trace,
            checks: Checks::new(),
            asked: None,
            operator: None,
            random: fastrand::Rng::with_seed(seed),
        };
        let (start, state) = (server.time(), Mutex::new(state));
        let world = World { server: Mutex::new(server), state, news: Notify::new(), began: Instant::now(), start };
        world.add_namespace();
        Arc::new(world)
    }

    /// Creates the second namespace, unless it exists.
    pub fn add_namespace(&self) {
        let body = json!({"metadata": {"name": OTHER}}).to_string().into_bytes();
        _ = self.write("person", &Call::post("/api/v1/namespaces?fieldManager=kubectl-create", body));
    }

    /// The state; not to be held over an `.await`, nor while the server's lock is taken.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server at the present time.
    pub fn server(&self) -> MutexGuard<'_, Server> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.set_time(self.start + i64::try_from(self.elapsed().as_secs()).unwrap_or(0));
        server
    }

    /// How much time has passed.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until there are more changes than this; returns how many there are. Waiters wake in the order in which they began to wait.
    pub async fn news(&self, known: usize) -> usize {
        loop {
            let changes = self.state().changes;
            if changes > known {
                return changes;
            }
            self.news.notified().await;
        }
    }

    /// Wakes whoever waits for changes.
    pub fn wake(&self) {
        self.state().changes += 1;
        self.news.notify_waiters();
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

    /// All objects with their paths.
    pub fn objects(&self) -> Vec<(Arc<str>, Arc<Value>)> {
        self.state().objects.iter().map(|(path, object)| (path.clone(), object.clone())).collect()
    }

    /// Serves one request at once, in somebody's name.
    pub fn serve(&self, by: &str, call: &Call) -> Answer {
        let answer = self.act(by, |server| answer(server.serve(&request(call))));
        let elapsed = self.elapsed();
        let what = || format!("{} {} {}", call.method, trimmed(&call.path), answer.0);
        self.state().trace.step(elapsed, by, what);
        answer
    }

    /// Lets a controller do one thing; returns whether there was one.
    pub fn step(&self, by: &str, controller: &mut dyn Controller) -> bool {
        let choice = self.state().random.u64(..);
        self.act(by, |server| controller.step(server, choice))
    }

    /// Writes on behalf of an actor; returns the object, or nothing if the server refuses.
    pub fn write(&self, by: &str, call: &Call) -> Option<Value> {
        let (code, body) = self.serve(by, call);
        if code < 300 { serde_json::from_slice(&body).ok() } else { None }
    }

    /// Does something with the server, and notes what that changes.
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
    /// Notes a change, and checks what holds at every write.
    fn note(&mut self, change: Change, elapsed: Duration) {
        match &change.after {
            Some(after) => _ = self.objects.insert(change.path.clone(), after.clone()),
            None => _ = self.objects.remove(&change.path),
        }
        self.changes += 1;
        if !change.path.contains("/leases/") && !change.path.contains("/events/") {
            self.written = Some(change.at);
        }
        if let Some(found) = self.checks.written(&change, &self.objects) {
            self.trace.violation(elapsed, found);
        }
        if !matches!(&*change.by, "person" | "helm") && !change.by.starts_with("op-") {
            self.trace.step(elapsed, &change.by, || format!("wrote {}", change.path));
        }
    }
}

/// The path without its query.
pub fn trimmed(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

/// A request as the server reads it.
pub fn request(call: &Call) -> Request<'_> {
    let (content_type, body) = call.body.as_ref().map_or(("", &[][..]), |(content_type, body)| (*content_type, body));
    Request { method: call.method.as_str(), path: &call.path, content_type, accept: call.accept.unwrap_or(""), body }
}

fn answer(served: Result<Value, Status>) -> Answer {
    match served {
        Ok(value) => (200, value.to_string().into_bytes()),
        Err(status) => (status.code, status.to_json().to_string().into_bytes()),
    }
}
