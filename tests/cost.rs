//! What a resource costs: requests in each part of its life, and memory. No change may raise either by a tenth unseen.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use test_cluster::{Namespace, Options, Request, TestCluster};

use crate::account::user;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};

/// The number of resources.
const ALL: usize = 100;

/// Requests for each resource without lists, watches, leases, events and statuses, and anonymous memory in KiB for the
/// process with all resources, in a debug build, the lowest of three readings (10,500 to 11,800 in eight runs on one
/// machine). If something costs less now, write down the new number.
const BUDGETS: [(&str, f64); 5] =
    [("install", 9.0), ("memory", 11_500.0), ("upgrade", 5.0), ("repair", 1.0), ("uninstall", 6.0)];

/// The statuses that each phase writes for a resource, at most: that something is not ready yet, unless its controller
/// was faster than the status, and that everything is.
const STATUSES: usize = 2;

/// The templates of the chart: no pods, so that nothing waits for them.
const TEMPLATE: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-map}
data: {colour: {{ .Values.colour }}}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}-web}
spec: {ports: [{port: 80}], selector: {app: {{ .Release.Name }}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-web}
spec:
  replicas: 0
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}, colour: {{ .Values.colour }}}}
    spec: {containers: [{name: web, image: example.org/web}]}
";

fn write_chart(folder: &Path) {
    fs::create_dir_all(folder.join("templates")).unwrap();
    fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: cost\nversion: 0.1.0\n").unwrap();
    fs::write(folder.join("templates/all.yaml"), TEMPLATE).unwrap();
}

/// The resources of one namespace and what they have cost.
struct Costs<'a> {
    cluster: &'a TestCluster,
    namespace: &'a Namespace<'a>,
    noted: usize,
    found: Vec<(&'static str, f64)>,
}

impl Costs<'_> {
    /// Notes the requests since the last phase, and prints how many there were of each kind.
    fn note(&mut self, phase: &'static str) {
        let is_noted = |request: &Request| {
            request.user == user(self.namespace.name())
                && !matches!(&*request.verb, "list" | "watch")
                && !matches!(&*request.resource, "leases" | "events")
        };
        let requests: Vec<_> = self.cluster.requests().unwrap().into_iter().filter(is_noted).collect();
        let new = &requests[self.noted..];
        let mut kinds = BTreeMap::<_, usize>::new();
        for Request { verb, resource, code, .. } in new {
            *kinds.entry(format!("{verb} {resource} {code}")).or_default() += 1;
        }
        eprintln!("{phase}: {kinds:?}");
        let statuses = new.iter().filter(|request| request.resource == "holders/status").count();
        assert!(statuses <= STATUSES * ALL, "{phase}: {statuses} statuses of {ALL} resources");
        self.found.push((phase, (new.len() - statuses) as f64 / ALL as f64));
        self.noted = requests.len();
    }

    fn set(&self, colour: &str) {
        HOLDER.set_all(self.namespace, (0..ALL).map(|number| (format!("r{number}"), json!({"colour": colour}))));
        let wanted = json!({"colour": colour});
        self.wait("ready resources", "holders", |resource| {
            let is_ready = crate::chart::condition(resource, "Ready")["status"] == "True";
            is_ready && resource["status"]["observedGeneration"] == resource["metadata"]["generation"]
        });
        self.wait("ConfigMaps", "configmaps", |map| map["data"] == wanted);
    }

    /// Waits until this is so for as many objects of the kind as there are resources.
    fn wait(&self, what: &str, kind: &str, is_wanted: impl Fn(&Value) -> bool) {
        eventually(what, || {
            let list = self.namespace.kubectl(["get", kind, "-o", "json"]).unwrap();
            let list: Value = serde_json::from_str(&list).unwrap();
            let found = list["items"].as_array().unwrap().iter().filter(|object| is_wanted(object)).count();
            if found == ALL { Ok(()) } else { Err(found) }
        });
    }
}

fn budget(of: &str) -> Option<f64> {
    BUDGETS.iter().find(|(phase, _)| *phase == of).map(|(_, budget)| *budget)
}

/// Returns the lower of a reading and the operator's anonymous memory in KiB. The allocator gives back what a burst of
/// work has freed only when it is used again: an idle process keeps up to 7 MiB until then. So one reading says little.
fn lower(reading: Option<f64>, operator: &Operator) -> Option<f64> {
    let now = operator.anonymous_memory().map(|kib| kib as f64);
    [reading, now].into_iter().flatten().reduce(f64::min)
}

#[test]
fn a_resource_costs_no_more_than_before() {
    if TestCluster::shared_or_skip().is_none() {
        return;
    }
    // On the shared cluster, the kinds that other tests install would cost discoveries.
    let cluster = &TestCluster::start(Options { audit: true, ..Options::default() }).unwrap();
    let (namespace, folder) = (cluster.namespace("cost").unwrap(), tempfile::tempdir().unwrap());
    install_kind(cluster);
    write_chart(folder.path());
    let watches = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": folder.path()}]);
    let operator = Operator::start_frugal(cluster, &namespace, &watches.to_string());
    operator.logged("Starting Controller");
    let mut costs = Costs { cluster, namespace: &namespace, noted: 0, found: Vec::new() };
    costs.note("start");
    costs.set("blue");
    costs.note("install");
    let memory = lower(None, &operator);
    costs.set("red");
    costs.note("upgrade");
    let memory = lower(memory, &operator);
    namespace.kubectl(["delete", "configmaps", "--all"]).unwrap();
    costs.wait("repaired ConfigMaps", "configmaps", |map| map["data"]["colour"] == "red");
    costs.note("repair");
    let memory = lower(memory, &operator);
    eprintln!("memory: {memory:?} KiB");
    costs.found.extend(memory.map(|kib| ("memory", kib)));
    namespace.kubectl(["delete", "holders", "--all"]).unwrap();
    costs.note("uninstall");
    // Of memory, less than the budget says little: it depends on when the allocator gives pages back.
    let least = |phase: &str| if phase == "memory" { 0.0 } else { 0.9 };
    let is_off = |(phase, found): &(&'static str, f64)| {
        budget(phase).is_some_and(|budget| !(budget * least(phase)..=budget * 1.1).contains(found))
    };
    let off: Vec<_> = costs.found.iter().filter(|cost| is_off(cost)).collect();
    assert!(off.is_empty(), "a tenth or more off the budgets {BUDGETS:?}: {off:?}");
}
