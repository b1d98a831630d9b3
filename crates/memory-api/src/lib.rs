//! A Kubernetes API server in memory, for tests: deterministic, without I/O, clocks or tasks.
//!
//! [`Server`] takes requests and returns the responses of a real API server: objects, resource versions, managed
//! fields, conflicts, finalizers, watches. Time passes only in [`Server::set_time`], and controllers act only when a
//! test steps them ([`controllers`]).
//!
//! # What it lacks
//! - Validation of objects, beyond metadata and the rules that tests add ([`Server::make_immutable`]), and defaults of
//!   most fields.
//! - Conversion between versions: a kind has the same fields in all of them.
//! - Authentication and authorization, quotas, and admission plugins except for namespaces and the webhooks that tests
//!   add ([`Server::mutate`]).
//! - Encodings other than JSON, tables, the schemas in OpenAPI documents. The body of an apply must be JSON as well; it is
//!   refused if YAML would read it differently.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, reason = "tests end here"))]

mod changes;
pub mod controllers;
mod fields;
mod kinds;
mod managed;
mod patch;
mod raw;
mod read;
mod request;
mod schema;
mod selector;
mod serve;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod watch;
mod write;
mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use changes::{Change, ChangeKind, Written};
pub use request::{Request, Target, group_of, object_path, written_path};
pub use status::Status;
pub use store::Backup;
pub use watch::{Watch, error_event};
pub use yaml::needs_escape;

use kinds::{Kind, Kinds};
use schema::schema;
use store::Store;

/// How closely the server follows a real one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fidelity {
    /// Objects may be incomplete, of unserved kinds, and in namespaces that do not exist.
    #[default]
    Sketch,
    /// As in a cluster: objects are decoded by their kind, and namespaces must exist.
    Cluster,
}

/// Whether a kind's objects belong to namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each object is in a namespace.
    Namespaced,
    /// No object is in a namespace.
    Cluster,
}

impl Scope {
    /// Returns the scope that definitions call by this name.
    fn of(name: &str) -> Scope {
        if name == "Namespaced" { Scope::Namespaced } else { Scope::Cluster }
    }

    fn name(self) -> &'static str {
        match self {
            Scope::Namespaced => "Namespaced",
            Scope::Cluster => "Cluster",
        }
    }
}

/// Changes an object of this plural before it is stored.
type Webhook = Arc<dyn Fn(&str, &mut Value) + Send + Sync>;

/// The server.
pub struct Server {
    store: Store,
    kinds: Kinds,
    fidelity: Fidelity,
    /// Plurals or `PLURAL/NAMESPACE/NAME`, and pointers to their immutable fields.
    immutable: Vec<(String, String)>,
    webhooks: Vec<Webhook>,
    seconds: i64,
    /// The time, as RFC 3339.
    now: Arc<str>,
    /// The number of versions that a read at any version lags behind.
    lag: u64,
    /// The number of restored backups.
    life: u64,
    /// Whether a garbage collector processes deletions.
    has_collector: bool,
    /// Documents served at paths outside resources.
    documents: BTreeMap<String, Value>,
}

/// The time at which a server starts: 2026-01-01.
const START: i64 = 1_767_225_600;

impl Default for Server {
    fn default() -> Server {
        Server::new(Fidelity::default())
    }
}

impl Server {
    /// Creates a server without kinds.
    pub fn new(fidelity: Fidelity) -> Server {
        let mut server = Server {
            store: Store::default(),
            kinds: Kinds::default(),
            fidelity,
            immutable: Vec::new(),
            webhooks: Vec::new(),
            seconds: START,
            now: "".into(),
            lag: 0,
            life: 0,
            has_collector: fidelity == Fidelity::Cluster,
            documents: BTreeMap::new(),
        };
        server.set_time(START);
        server
    }

    /// Creates a server with all built-in kinds and the namespaces of a new cluster.
    pub fn cluster() -> Server {
        let mut server = Server::new(Fidelity::Cluster);
        for known in &schema().kinds {
            server.kinds.add(Kind::new(known.api_version, known.kind, known.plural, known.scope));
        }
        for namespace in ["default", "kube-system"] {
            let body = format!(r#"{{"metadata": {{"name": "{namespace}"}}}}"#);
            let path = "/api/v1/namespaces?fieldManager=kube-apiserver";
            let request = Request { method: "POST", path, body: body.as_bytes(), ..Request::default() };
            // Fails only if the kind is missing.
            _ = server.serve(&request);
        }
        server
    }

    /// Serves another kind; a custom resource with a status unless it is built in.
    pub fn add_kind(&mut self, api_version: &str, kind: &str, plural: &str, scope: Scope) {
        self.kinds.add(Kind::new(api_version, kind, plural, scope));
    }

    /// Stops serving a kind. Returns its plural if it was served.
    pub fn remove_kind(&mut self, api_version: &str, kind: &str) -> Option<String> {
        self.kinds.remove(api_version, kind).first().map(|kind| kind.plural.clone())
    }

    /// Serves this group version as the aggregator serves one whose API service does not respond: without kinds.
    pub fn add_stale(&mut self, api_version: &str) {
        self.kinds.stale.push(api_version.to_owned());
    }

    /// Stops serving such a group version.
    pub fn remove_stale(&mut self, api_version: &str) {
        self.kinds.stale.retain(|stale| stale != api_version);
    }

    /// Makes a field of a kind immutable, `("jobs", "/spec/template")`, or of one object, `("jobs/NAMESPACE/NAME", …)`.
    pub fn make_immutable(&mut self, whose: &str, pointer: &str) {
        self.immutable.push((whose.to_owned(), pointer.to_owned()));
    }

    /// Adds a webhook that changes objects before they are stored. It receives the plural of their kind.
    pub fn mutate(&mut self, webhook: impl Fn(&str, &mut Value) + Send + Sync + 'static) {
        self.webhooks.push(Arc::new(webhook));
    }

    /// Removes all webhooks.
    pub fn clear_webhooks(&mut self) {
        self.webhooks.clear();
    }

    /// Sets the time, in seconds since 1970.
    pub fn set_time(&mut self, seconds: i64) {
        if self.now.is_empty() || self.seconds != seconds {
            self.seconds = seconds;
            self.now = self.after(0).into();
        }
    }

    /// Returns the time, in seconds since 1970.
    pub fn time(&self) -> i64 {
        self.seconds
    }

    /// Returns the time this many seconds from now, as RFC 3339.
    fn after(&self, seconds: i64) -> String {
        jiff::Timestamp::from_second(self.seconds + seconds).map(|time| time.to_string()).unwrap_or_default()
    }

    /// Serves reads at any version (`resourceVersion=0`) from a cache that is this many versions behind.
    pub fn set_lag(&mut self, versions: u64) {
        self.lag = versions;
    }

    /// Returns the resource version of the last write.
    pub fn version(&self) -> u64 {
        self.store.version
    }

    /// Advances the resource version, as writes to other objects do.
    pub fn skip_to(&mut self, version: u64) {
        self.store.version = self.store.version.max(version);
    }

    /// Drops the changes up to a version: watches and lists at earlier versions fail with 410 `Expired`.
    pub fn compact(&mut self, version: u64) {
        self.store.log.compact(version);
    }

    /// Returns every write after a version, oldest first, except compacted ones.
    pub fn written(&self, since: u64) -> Vec<Written> {
        self.store.log.written(since)
    }

    /// Returns the current contents of the store.
    pub fn backup(&self) -> Backup {
        Backup::of(&self.store)
    }

    /// Restores a backup: later writes are undone, the resource version goes back, and watches end.
    pub fn return_to(&mut self, backup: &Backup) {
        self.store.restore(backup.store());
        self.life += 1;
    }
}
