//! The invariants that hold once the cluster is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::model::{KEYS, Key, Model, Rendered, TAKEN};
use super::world::{World, chart_of};
use crate::chart::condition;
use crate::operator::eventually;

/// Maximum number of revisions of a release.
pub(crate) const MAX_HISTORY: usize = 3;

/// Timeout of the cluster: failures from minutes ago still delay retries.
const LIMIT: Duration = Duration::from_secs(90);

/// Waits until the cluster matches the model, and checks that it stays so without writes.
pub(crate) fn settled(world: &World, model: &Model) {
    world.proxy.heal();
    let began = Instant::now();
    loop {
        let wrong = wrong(world, model);
        if wrong.is_empty() {
            break;
        }
        assert!(began.elapsed() < LIMIT, "not settled: {wrong:#?}\n{model:?}\n{}", tail(&world.operator().log()));
        thread::sleep(Duration::from_millis(100));
    }
    quiet(world, model);
    for (path, before) in &world.foreign {
        assert_eq!(world.http.get(path), *before, "nobody else's object is touched");
    }
}

/// Waits until two reconciles of each resource write nothing. Before that, a write whose response was lost may be
/// repeated, and the status may follow pods. Skipped while a release is rejected by the server, because each retry
/// writes.
fn quiet(world: &World, model: &Model) {
    if model.resources.values().any(|resource| resource.spec.is_refused()) {
        return;
    }
    let mut writes = Vec::new();
    for _ in 0..3 {
        writes = writes_of_two_reconciles(world, model);
        if writes.is_empty() {
            return;
        }
    }
    panic!("nothing changes, but this is written: {writes:#?}\n{}", tail(&world.operator().log()));
}

fn writes_of_two_reconciles(world: &World, model: &Model) -> Vec<String> {
    let (before, looks) = (world.proxy.writes().len(), reconciles(world));
    let ready = model.resources.keys().filter(|key| model.can_be_ready(**key)).count();
    eventually("reconciles without a change", || {
        let now = reconciles(world);
        if now >= looks + 2 * ready { Ok(()) } else { Err(now) }
    });
    world.proxy.writes().split_off(before)
}

fn reconciles(world: &World) -> usize {
    let metrics = world.operator().get("Serving metrics server", "/metrics");
    let counts = metrics.lines().filter(|line| line.starts_with("controller_runtime_reconcile_total{"));
    counts.filter_map(|line| line.rsplit_once(' ')?.1.trim().parse::<usize>().ok()).sum()
}

/// Returns the parts of the cluster that do not match the model.
fn wrong(world: &World, model: &Model) -> Vec<String> {
    let mut wrong: Vec<String> = (0..2).flat_map(|namespace| wrong_in(world, model, namespace)).collect();
    for key in KEYS.iter().filter(|key| !model.resources.contains_key(*key)) {
        if !world.http.get(&world.resource(*key)).is_null() {
            wrong.push(format!("{key:?} is deleted, but still there"));
        }
        wrong.extend(wrong_records(world, *key, 0).map(|text| format!("{key:?} is deleted: {text}")));
    }
    for key in model.resources.keys() {
        let resource = world.http.get(&world.resource(*key));
        wrong.extend(wrong_status(&resource, model.can_be_ready(*key)).map(|text| format!("{key:?}: {text}")));
    }
    wrong
}

fn wrong_status(resource: &Value, ready: bool) -> Option<String> {
    let holds = |kind: &str| {
        let condition = condition(resource, kind);
        condition["status"] == "True" && condition["observedGeneration"] == resource["metadata"]["generation"]
    };
    let fails = holds("ReleaseFailed") || holds("Irreconcilable");
    let right = if ready { holds("Ready") && holds("Deployed") && !fails } else { fails };
    (!right).then(|| format!("should be ready: {ready}, but its status is {}", resource["status"]["conditions"]))
}

/// Compares the namespace's objects and records with each release that the model allows.
fn wrong_in(world: &World, model: &Model, namespace: usize) -> Vec<String> {
    let live = live(world, namespace);
    let mut left: BTreeSet<&String> = live.keys().collect();
    let mut wrong = Vec::new();
    for (key, resource) in model.resources.iter().filter(|(key, _)| key.0 == namespace) {
        left.retain(|name| !is_of(name, key.1));
        let compared = resource.possible.iter().map(|rendered| match rendered {
            // What is left of an attempt stays while later values do not render: those that do may keep it.
            None if !resource.spec.renders() => wrong_records(world, *key, 0).into_iter().collect(),
            _ => differences(world, &live, *key, rendered),
        });
        let least = compared.min_by_key(Vec::len).unwrap_or_default();
        wrong.extend(least.into_iter().map(|text| format!("{key:?}: {text}")));
    }
    wrong.extend(left.into_iter().map(|name| format!("{name} belongs to nothing")));
    wrong
}

/// Returns whether an object, as `KIND/NAME`, belongs to this release.
fn is_of(object: &str, release: &str) -> bool {
    object.contains(&format!("/{release}-"))
}

/// Returns how the cluster differs from a release: exactly its objects, with all of the chart's fields; one deployed
/// revision; a short history.
fn differences(world: &World, live: &Objects, key: Key, rendered: &Rendered) -> Vec<String> {
    let wanted = wanted(world, key, rendered);
    let extra = live.keys().filter(|name| is_of(name, key.1) && !wanted.contains_key(*name));
    let mut found: Vec<String> = extra.map(|name| format!("{name} is left over")).collect();
    let differs = |(name, wanted): (&String, &Value)| {
        let live = live.get(name).unwrap_or(&Value::Null);
        (!contains(live, wanted)).then(|| format!("{name} should be {wanted}, but is {live}"))
    };
    found.extend(wanted.iter().filter_map(differs));
    found.extend(wrong_records(world, key, usize::from(rendered.is_some())));
    found
}

/// Checks the number of deployed revisions and the length of the history. A deleted resource leaves no record.
fn wrong_records(world: &World, (namespace, name): Key, wanted: usize) -> Option<String> {
    let query = format!("{}?labelSelector=owner%3Dhelm%2Cname%3D{name}", world.core(namespace, "secrets"));
    let records = world.http.list(&query);
    let deployed = records.iter().filter(|record| record["metadata"]["labels"]["status"] == "deployed").count();
    let gone = world.http.get(&world.resource((namespace, name))).is_null();
    let most = if gone { 0 } else { MAX_HISTORY };
    let right = records.len() <= most && deployed == wanted;
    (!right).then(|| format!("{} records, {deployed} of them deployed", records.len()))
}

/// Returns the namespace's objects that releases may have made, as `KIND/NAME`.
fn live(world: &World, namespace: usize) -> Objects {
    let maps = world.http.list(&world.core(namespace, "configmaps"));
    let webs = world.http.list(&world.deployments(namespace));
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let ours = |name: &String| !["kube-root-ca.crt", "bystander", "taken-main"].contains(&name.as_str());
    let maps = maps.into_iter().map(|map| (name(&map), map)).filter(|(name, _)| ours(name));
    let maps = maps.map(|(name, map)| (format!("ConfigMap/{name}"), map));
    maps.chain(webs.into_iter().map(|web| (format!("Deployment/{}", name(&web)), web))).collect()
}

/// Objects as `KIND/NAME`.
type Objects = BTreeMap<String, Value>;

/// Returns the objects that real Helm renders for a release. Renders each only once.
fn wanted(world: &World, key: Key, rendered: &Rendered) -> Objects {
    static KNOWN: Mutex<BTreeMap<(&'static str, Rendered), Objects>> = Mutex::new(BTreeMap::new());
    let Some((chart, spec)) = rendered else { return BTreeMap::new() };
    debug_assert_ne!(key, TAKEN);
    let mut known = KNOWN.lock().unwrap();
    let entry = known.entry((key.1, rendered.clone()));
    entry.or_insert_with(|| by_helm(world, key.1, *chart, &spec.to_json())).clone()
}

fn by_helm(world: &World, name: &str, chart: u8, spec: &Value) -> Objects {
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.json");
    fs::write(&values, spec.to_string()).unwrap();
    let chart = chart_of(folder.path(), chart);
    let output =
        world.cluster.command("helm").arg("template").arg(name).arg(chart).arg("-f").arg(values).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let documents: Vec<Value> = serde_yaml::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    documents.into_iter().filter(Value::is_object).map(named).collect()
}

/// Returns an object as `KIND/NAME`, without the fields that items of lists do not have.
fn named(mut object: Value) -> (String, Value) {
    let name = format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
    object.as_object_mut().unwrap().retain(|key, _| !["apiVersion", "kind"].contains(&key.as_str()));
    (name, object)
}

/// Returns whether `live` contains all of `wanted`; a ConfigMap's data must contain nothing else.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            let same = key != "data" || live.get(key) == Some(wanted);
            same && live.get(key).is_some_and(|live| contains(live, wanted))
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        _ => live == wanted,
    }
}

/// Returns the last lines of a log.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
