//! Checks that the API server in memory agrees with a real one: the same random requests get the same responses and
//! leave the same objects, managed fields included. Afterwards, their watches deliver the same events.
//!
//! `AGREEMENT_SEEDS=100` runs more seeds than CI does; `AGREEMENT_FIRST` sets the first one.

mod kinds;
mod random;
mod schema;
mod side;
mod steps;
mod watches;

use std::env;

use helm_release::kube::{Api, Call, MemoryApi};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use test_cluster::{Options, Processes, TestCluster};

use crate::version::{newest, shared_since};
use kinds::{KINDS, paths_near};
use random::Random;
use side::{Answer, Side, difference};
use steps::Step;
use watches::Since;

/// The number of requests per seed.
const STEPS: usize = 300;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn definition() -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": anything, "status": anything}});
    let names = json!({"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.agreement.example.com"},
        "spec": {
            "group": "agreement.example.com", "scope": "Namespaced", "names": names,
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

async fn prepare(api: &dyn Api) {
    let namespace = json!({"metadata": {"name": "agreement"}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (path, body) in [("/api/v1/namespaces", namespace), (definitions, definition())] {
        // Exists already for the second seed.
        _ = api.send(Call::post(path, body.to_string().into_bytes())).await;
    }
    for kind in &KINDS {
        for _ in 0..2 {
            clear(api, kind.collection).await;
        }
    }
}

/// Deletes the objects of earlier seeds, including those with finalizers.
async fn clear(api: &dyn Api, collection: &str) {
    // The collection of a new definition does not exist yet.
    let Ok(list) = api.send(Call::get(collection)).await else { return };
    let list: Value = list.parse().unwrap();
    let free = json!({"metadata": {"finalizers": null}}).to_string().into_bytes();
    let items = list["items"].as_array().into_iter().flatten();
    for name in items.filter_map(|item| item["metadata"]["name"].as_str()) {
        let path = format!("{collection}/{name}");
        _ = api.send(Call::merge(path.clone(), free.clone())).await;
        _ = api.send(Call::delete(path, br#"{"propagationPolicy": "Background"}"#.to_vec())).await;
    }
}

/// Returns whether the real server validates more than the one in memory does.
fn is_validation(memory: &Answer, real: &Answer) -> bool {
    memory.is_ok() && matches!(real, Err((422, ..)))
}

fn shown(answer: &Answer) -> Value {
    match answer {
        Ok(value) => value.clone(),
        Err((code, reason, message)) => json!({"code": code, "reason": reason, "message": message}),
    }
}

/// Sends one seed's requests to both servers; returns the differences.
async fn run(seed: u64, real_api: &dyn Api) -> Result<(), String> {
    let memory_api = MemoryApi::cluster();
    prepare(&memory_api).await;
    prepare(real_api).await;
    let since = Since::now(&memory_api, real_api).await;
    let (mut memory, mut real) = (Side::new(&memory_api), Side::new(real_api));
    let (mut random, mut log) = (Random::new(seed), Vec::new());
    for at in 0..STEPS {
        let step = Step::random(&mut random, at);
        memory_api.change(|server| server.set_time(server.time() + 1));
        let answers = (memory.send(&step).await, real.send(&step).await);
        let paths = paths_near(&step.path);
        let (mut seen, wanted) = (memory.look(&paths).await, real.look(&paths).await);
        let kind = step.accept.unwrap_or(step.content_type);
        log.push(format!("{at}: {} {} {kind} {}", step.method, step.path, step.body));
        if is_validation(&answers.0, &answers.1) {
            return Ok(());
        }
        // A real server may store nulls when an apply drops fields of a custom resource; the next write removes them.
        for (seen, wanted) in seen.iter_mut().zip(&wanted) {
            if let (Ok(seen), Ok(wanted)) = (seen, wanted)
                && wanted["kind"] == "Thing"
                && wanted["changed"] == true
            {
                seen["changed"] = true.into();
            }
        }
        let mut differences = difference("answer", &shown(&answers.0), &shown(&answers.1));
        for ((path, seen), wanted) in paths.iter().zip(&seen).zip(&wanted) {
            differences.extend(difference(path, &shown(seen), &shown(wanted)));
        }
        if !differences.is_empty() {
            let base = step.path.split('?').next().unwrap_or_default().trim_end_matches("/status");
            let earlier: Vec<&String> = log.iter().filter(|line| line.contains(base)).collect();
            return Err(format!("seed {seed}\n{earlier:#?}\n{}", differences.join("\n")));
        }
    }
    for step in Step::last(&mut random) {
        let answers = (memory.send(&step).await, real.send(&step).await);
        assert!(answers.0.is_ok() && answers.1.is_ok(), "seed {seed}: {answers:?}");
    }
    let differences = watches::differences(&since, (&memory_api, &mut memory), (real_api, &mut real)).await;
    if differences.is_empty() { Ok(()) } else { Err(format!("seed {seed}\n{}", differences.join("\n"))) }
}

#[tokio::test]
async fn a_server_in_memory_answers_as_a_real_one() {
    // Fields and kinds are added in each version.
    if shared_since(newest(), "the server in memory has the types of").is_none() {
        return;
    }
    let options = Options { processes: Processes::ApiServer, ..Options::default() };
    let cluster = TestCluster::start(options).unwrap();
    let config = Kubeconfig::from_yaml(&cluster.kubeconfig().unwrap()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    let real = kube::Client::try_from(config).unwrap();
    prepare(&real).await;
    cluster
        .kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd/things.agreement.example.com"])
        .unwrap();
    // The server starts to cache a new kind at the first request for it; watches cannot begin before.
    prepare(&real).await;
    schema::check(&real).await;
    let first = number("AGREEMENT_FIRST").unwrap_or(1);
    let seeds = first..first + number("AGREEMENT_SEEDS").unwrap_or(6);
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        failed.extend(run(seed, &real).await.err());
    }
    assert!(failed.is_empty(), "{} of {} seeds differ\n{}", failed.len(), seeds.count(), failed.join("\n\n"));
}
