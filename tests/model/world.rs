//! The real cluster, operator and charts that the model's steps act on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use proptest_state_machine::StateMachineTest;
use serde_json::{Value, json};
use test_cluster::{Component, Namespace, TestCluster};

use super::check;
use super::http::Http;
use super::model::{Chart, Key, Model, Object, Spec, Step, TAKEN};
use super::proxy::Proxy;
use crate::account;
use crate::operator::{Operator, eventually};
use crate::ownership::install_kind;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/model");
const HOLDERS: &str = "/apis/test.my.domain/v1/namespaces";

static CLUSTER: OnceLock<TestCluster> = OnceLock::new();
static COUNTS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
static BROKEN: AtomicUsize = AtomicUsize::new(0);

/// Prepares a cluster for all runs.
pub(crate) fn prepare(cluster: TestCluster) {
    install_kind(&cluster);
    assert!(CLUSTER.set(cluster).is_ok(), "one test uses the cluster");
}

/// Returns the number of steps taken, by kind.
pub(crate) fn counts() -> String {
    let counts = COUNTS.lock().unwrap();
    let steps: Vec<String> = counts.iter().map(|(step, times)| format!("{times} {step}")).collect();
    format!(
        "{} steps ({}), {} broken requests",
        counts.values().sum::<usize>(),
        steps.join(", "),
        BROKEN.load(Ordering::SeqCst)
    )
}

/// The namespaces of one run, with an operator that serves them.
pub(crate) struct World {
    pub(crate) cluster: &'static TestCluster,
    pub(crate) http: Http,
    pub(crate) proxy: Proxy,
    pub(crate) namespaces: [Namespace<'static>; 2],
    /// Objects without an owner, in their original state.
    pub(crate) foreign: Vec<(String, Value)>,
    folder: tempfile::TempDir,
    operator: Option<Operator>,
}

impl World {
    fn start() -> World {
        let cluster = CLUSTER.get().expect("a prepared cluster");
        let http = Http::new(cluster);
        // After a crash of the API server, the controllers need some time.
        let namespaces = ["model-one", "model-two"].map(|prefix| eventually(prefix, || cluster.namespace(prefix)));
        let folder = tempfile::tempdir().unwrap();
        chart_of(folder.path(), 0);
        let account = account::kubeconfig(cluster, namespaces[0].name(), Some(&watches(folder.path()).to_string()));
        let proxy = Proxy::start(&http, http.client_of(&account));
        let mut world = World { cluster, http, proxy, namespaces, foreign: Vec::new(), folder, operator: None };
        world.add_foreign(TAKEN.0, "taken-main");
        world.add_foreign(1, "bystander");
        world.start_operator();
        world
    }

    fn add_foreign(&mut self, namespace: usize, name: &str) {
        let list = self.core(namespace, "configmaps");
        let made = self.http.send("POST", &list, &json!({"metadata": {"name": name}, "data": {"value": "not ours"}}));
        self.foreign.push((format!("{list}/{name}"), made));
    }

    fn start_operator(&mut self) {
        let kubeconfig = self.proxy.kubeconfig(self.folder.path().join("kubeconfig"));
        let watches = watches(self.folder.path());
        let names: Vec<&str> = self.namespaces.iter().map(Namespace::name).collect();
        self.operator = Some(Operator::start_as_in(&kubeconfig, &names.join(","), &watches.to_string()));
    }

    pub(crate) fn operator(&self) -> &Operator {
        self.operator.as_ref().expect("a running operator")
    }

    /// Returns the path of a kind of the core group.
    pub(crate) fn core(&self, namespace: usize, kind: &str) -> String {
        format!("/api/v1/namespaces/{}/{kind}", self.namespaces[namespace].name())
    }

    pub(crate) fn deployments(&self, namespace: usize) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments", self.namespaces[namespace].name())
    }

    pub(crate) fn resource(&self, (namespace, name): Key) -> String {
        format!("{HOLDERS}/{}/holders/{name}", self.namespaces[namespace].name())
    }

    /// Returns the path of one of a release's objects.
    fn object(&self, (namespace, name): Key, object: Object) -> String {
        match object {
            Object::Main => format!("{}/{name}-main", self.core(namespace, "configmaps")),
            Object::Web => format!("{}/{name}-web", self.deployments(namespace)),
        }
    }

    fn set(&self, key: Key, spec: &Spec) {
        let path = self.resource(key);
        // An object that is being deleted accepts no changes.
        let found = eventually("resource that is not being deleted", || {
            let found = self.http.get(&path);
            if found["metadata"]["deletionTimestamp"].is_null() { Ok(found) } else { Err(self.operator().log()) }
        });
        if found.is_null() {
            let new = json!({"apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": {"name": key.1}, "spec": spec.to_json()});
            let (list, _) = path.rsplit_once('/').expect("a path");
            self.http.send("POST", list, &new);
        } else {
            self.http.send("PATCH", &path, &json!({"spec": spec.to_json()}));
        }
    }

    fn edit(&self, key: Key, object: Object) {
        let change = match object {
            Object::Main => json!({"data": {"value": "edited"}}),
            Object::Web => json!({"spec": {"replicas": 5}}),
        };
        self.http.send("PATCH", &self.object(key, object), &change);
    }

    /// Kills or terminates the operator, and starts it again.
    fn restart(&mut self, end: impl Fn(Operator)) {
        end(self.operator.take().expect("a running operator"));
        self.start_operator();
    }

    fn act(&mut self, model: &Model, step: &Step) {
        match step {
            Step::Set(key, spec) => self.set(*key, spec),
            Step::Delete(key) => drop(self.http.send("DELETE", &self.resource(*key), &Value::Null)),
            Step::Edit(key, object) => self.edit(*key, *object),
            Step::Note(key) => {
                let note = json!({"metadata": {"annotations": {"note": "by someone else"}}});
                self.http.send("PATCH", &self.object(*key, Object::Main), &note);
            }
            Step::Remove(key, object) => drop(self.http.send("DELETE", &self.object(*key, *object), &Value::Null)),
            Step::Kill => self.restart(Operator::kill),
            Step::Restart => self.restart(|operator| drop(operator.terminate())),
            Step::Upgrade(chart) => {
                chart_of(self.folder.path(), *chart);
                self.restart(|operator| drop(operator.terminate()));
            }
            Step::Break(fault, times) => self.proxy.break_next(*fault, *times),
            Step::Cut => self.proxy.cut_watches(),
            Step::Lag(milliseconds) => self.proxy.set_lag(*milliseconds),
            Step::Crash => {
                self.cluster.kill(Component::ApiServer).unwrap();
                self.cluster.restart(Component::ApiServer).unwrap();
            }
            Step::Settle => check::settled(self, model),
        }
    }
}

/// Returns the watches that serve the chart in the folder.
fn watches(folder: &Path) -> Value {
    json!([{
        "group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": folder.join("chart"),
        "maxHistory": check::MAX_HISTORY, "reconcilePeriod": "1s",
    }])
}

/// Writes this version of the chart into the folder; returns its path.
pub(crate) fn chart_of(folder: &Path, version: Chart) -> PathBuf {
    let folder = folder.join("chart");
    fs::create_dir_all(folder.join("templates")).unwrap();
    for file in ["Chart.yaml", "values.yaml", "values.schema.json", "templates/objects.yaml"] {
        let text = fs::read_to_string(Path::new(CHART).join(file)).unwrap();
        fs::write(folder.join(file), text.replace("version: 1.0.0", &format!("version: 1.0.{version}"))).unwrap();
    }
    folder
}

impl StateMachineTest for World {
    type SystemUnderTest = World;
    type Reference = Model;

    fn init_test(_: &Model) -> World {
        World::start()
    }

    fn apply(mut world: World, model: &Model, step: Step) -> World {
        let text = format!("{step:?}");
        let sort = text.split(['(', ' ']).next().unwrap_or_default().to_owned();
        *COUNTS.lock().unwrap().entry(sort).or_default() += 1;
        world.act(model, &step);
        world
    }

    fn teardown(world: World, mut model: Model) {
        model.settle();
        check::settled(&world, &model);
        model.resources.keys().for_each(|key| drop(world.http.send("DELETE", &world.resource(*key), &Value::Null)));
        check::settled(&world, &Model { resources: BTreeMap::new(), ..model });
        BROKEN.fetch_add(world.proxy.state.broken.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}
