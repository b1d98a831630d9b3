//! Renders a chart, installs it on the in-memory API server, upgrades it, and prints the history: `cargo run -p
//! helm-release --example install`.

#![allow(clippy::print_stdout)] // The example's output.

use std::error::Error;
use std::sync::Arc;

use helm::chart::Chart;
use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};
use helm_release::action::{Candidate, Completed, Current, Environment, Options, install, upgrade};
use helm_release::kube::{Applier, Decoration, MemoryApi, Tie, install_order, objects_of};
use helm_release::release::ChartDocument;
use helm_release::storage::{Key, Keyring, Known, Storage, Stored};

const TEMPLATE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  replicas: {{ .Values.replicas | quote }}
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A `kube::Client` instead of the in-memory server installs on a real cluster.
    let server = Arc::new(MemoryApi::new());
    // A real key is random and secret: anyone who has it can write records that this program accepts as its own.
    let keys = Keyring::new(Key::new(b"an example's key of at least 32 bytes").ok_or("the key is short")?, Vec::new());
    let (applier, storage) = (Applier::new(server.clone()), Storage::new(server.clone(), keys));
    let decoration = Decoration {
        release: "shop".into(),
        namespace: "default".into(),
        chart: "web".into(),
        owner: None,
        tie: Tie::default(),
        former: Vec::new(),
    };
    let env = Environment {
        applier: &applier,
        storage: &storage,
        decoration,
        live: &(),
        slot: &(),
        account: &(),
        options: Options::default(),
    };

    let installed = install(&env, &candidate("replicas: 1\n")?, None).await?;
    upgrade(&env, &candidate("replicas: 3\n")?, &current(&installed)).await?;

    for revision in storage.history("default", "shop").await? {
        println!("revision {}: {}", revision.version, revision.status.as_str());
    }
    for path in server.paths() {
        println!("{path}");
    }
    Ok(())
}

/// Renders the chart with these values.
fn candidate(values: &str) -> Result<Candidate, Box<dyn Error>> {
    let chart = Chart::from_files([
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("templates/map.yaml", TEMPLATE),
    ])?;
    let document = Arc::new(ChartDocument::of(&chart)?);
    let values = helm::values::read(values.as_bytes())?;
    let release = ReleaseOptions { name: "shop".into(), namespace: "default".into(), revision: 1, is_upgrade: false };
    let rendered = Engine::new(chart).render(&Request {
        values: &values,
        release: &release,
        capabilities: &Capabilities::default(),
        lookup: None,
        skip_schema: false,
    })?;
    let manifest = rendered.manifest();
    let mut objects = objects_of(&manifest)?;
    install_order(&mut objects);
    Ok(Candidate {
        chart: document,
        config: go_encoding::json::to_serde(&go_template::Value::Map(values)),
        manifest,
        objects,
        hooks: Vec::new(),
        notes: rendered.notes,
        crds: Vec::new(),
        duplicates: Vec::new(),
        unread: Vec::new(),
        inputs: String::new(),
    })
}

/// Returns the release after its first revision.
fn current(installed: &Completed) -> Current {
    Current {
        version: installed.version,
        pending: false,
        abandoned: Vec::new(),
        records: vec![Known { version: installed.version, resource_version: Some(installed.written.resource_version) }],
        deployed: Some(installed.version),
        last_good: Some(installed.version),
        never_deployed: false,
        inventory: installed.marks.clone(),
        packed: Some(Stored::Sealed(installed.written.packed.clone())),
        marks: Some(Arc::new(installed.marks.clone())),
        first_deployed: installed.first_deployed,
        interrupted: None,
        outdated: Vec::new(),
        taken_over: false,
        string_overrides: false,
        finished_for_former: Vec::new(),
    }
}
