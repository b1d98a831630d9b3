//! Tests that a secret in every input of a release shows nowhere when anything fails.

use std::fmt::Write as _;

use controller::metrics::Format;
use helm::chart::Chart;
use helm::engine::Engine;
use k8s_openapi::ByteString;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use crate::charts::tests::*;
use crate::rendering::renderer::{Discovered, EngineRenderer};
use crate::values_from::ValuesSource;
use crate::watches::OverrideValuesType;

/// A secret with characters that Go, JSON, HTML and URLs escape.
const CANARY: &str = "hunter2 \"<&é>";
/// The part of the secret that no encoding changes.
const CORE: &str = "hunter2";

/// Collects every event of every level with its fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Text<'a>(&'a mut String);
        impl Visit for Text<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                _ = write!(self.0, "{field}={value:?} ");
            }
            fn record_str(&mut self, field: &Field, value: &str) {
                _ = write!(self.0, "{field}={value} ");
            }
        }
        event.record(&mut Text(&mut self.0.lock().unwrap()));
    }
}

/// The inputs of one failure, and the evidence that it happened.
struct Case {
    name: &'static str,
    template: &'static str,
    notes: &'static str,
    spec: Value,
    refusal: Option<fn(&str) -> Error>,
    /// A part of the visible texts.
    shows: &'static str,
}

impl Default for Case {
    fn default() -> Case {
        Case { name: "", template: MAP, notes: "", spec: json!({}), refusal: None, shows: "****" }
    }
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: {{ .Values.own | quote }}}";
const SCHEMA: &str =
    r#"{"properties": {"size": {"type": "integer"}, "mode": {"enum": ["a"]}, "name": {"pattern": "^a*$"}}}"#;

/// Returns a failure for each way in which a value reaches a message.
fn cases() -> Vec<Case> {
    let template = |name, template| Case { name, template, ..Case::default() };
    let quiet = |name, template| Case { name, template, shows: "RenderError", ..Case::default() };
    let own = |name, spec| Case { name, spec, shows: "InvalidValues", ..Case::default() };
    let refused = |name, refusal| Case { name, refusal: Some(refusal), ..Case::default() };
    vec![
        template("fail", "{{ fail (printf \"bad %s\" .Values.own) }}"),
        template("fail quoted", "{{ fail (printf \"bad %q\" .Values.own) }}"),
        template("fail in base64", "{{ fail (printf \"user:%s\" .Values.own | b64enc) }}"),
        template("fail in hexadecimal", "{{ fail (printf \"%x\" .Values.own) }}"),
        template("fail as json", "{{ fail (toJson .Values) }}"),
        template("fail as quoted json", "{{ fail (toJson .Values | quote) }}"),
        template("fail as yaml", "{{ fail (toYaml .Values) }}"),
        template("fail of a source", "{{ fail .Values.sourced }}"),
        template("fail of a source as json", "{{ fail (toRawJson (dict \"a\" .Values.sourced)) }}"),
        template("fail of an override", "{{ fail .Values.overridden }}"),
        template("fail of a short secret", "{{ fail (printf \"pin %s\" .Values.pin) }}"),
        template("required", "{{ required .Values.own nil }}"),
        template("range over a string", "{{ range .Values.own }}{{ end }}"),
        template("range over a source", "{{ range .Values.sourced }}{{ end }}"),
        template("a number from text", "{{ atoi .Values.own | required \"x\" }}{{ mustToDate \"2006\" .Values.own }}"),
        quiet("a version", "{{ semver .Values.own }}"),
        template("a pattern", "{{ mustRegexMatch (printf \"(%s\" .Values.own) \"\" }}"),
        template("a template", "{{ tpl (printf \"{{ %s }}\" .Values.own) . }}"),
        template("an include", "{{ include .Values.own . }}"),
        quiet("a field", "{{ (dict \"a\" .Values.own).a.b }}"),
        template("a lookup", "{{ fail (lookup \"v1\" \"Secret\" \"ns\" \"other\").data.password }}"),
        template("a decoded lookup", "{{ fail ((lookup \"v1\" \"Secret\" \"ns\" \"other\").data.password | b64dec) }}"),
        template("a list", "{{ range (index (lookup \"v1\" \"Secret\" \"ns\" \"\").items 0).data.password }}{{ end }}"),
        quiet("a document that is not YAML", "a: {{ .Values.own }}\n  b: ]["),
        own("a schema's type", json!({"size": CANARY})),
        own("a schema's enumeration", json!({"mode": CANARY})),
        own("a schema's pattern", json!({"name": CANARY})),
        Case {
            name: "notes",
            template: "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: {{ .Values.own | quote }}}",
            notes: "{{ .Values.sourced }} {{ .Values.own }} {{ (lookup \"v1\" \"Secret\" \"ns\" \"other\").data.password | b64dec }}",
            ..Case::default()
        },
        refused("a typed value", |canary| {
            let text = format!(
                "failed to create typed patch object (ns/a; v1, Kind=ConfigMap): .data.x: expected string, got &value.valueUnstructured{{Value:{canary}}}"
            );
            Error::from_status(500, "", &text)
        }),
        refused("a webhook", |canary| {
            let text = format!("admission webhook \"a.b\" denied the request: {canary} and {canary:?} are weak");
            Error::from_status(400, "BadRequest", &text)
        }),
        refused("an invalid value", |canary| {
            let text = format!("ConfigMap \"a\" is invalid: data.x: Invalid value: {canary:?}: no");
            Error::from_status(422, "Invalid", &text)
        }),
        refused("a failed webhook", |canary| {
            Error::from_status(
                500,
                "InternalError",
                &format!("failed calling webhook: Post \"https://x/?q={canary}\": EOF"),
            )
        }),
    ]
}

fn overrides() -> Overrides {
    Overrides::parse([("overridden".to_owned(), CANARY.to_owned())].into(), OverrideValuesType::Typed).unwrap()
}

async fn renderer(server: &Arc<MemoryApi>, case: &Case) -> Arc<EngineRenderer> {
    let chart = Chart::from_files([
        ("Chart.yaml", "apiVersion: v2\nname: memcached\nversion: 1.2.3\n"),
        ("values.schema.json", SCHEMA),
        ("templates/a.yaml", case.template),
        ("templates/NOTES.txt", case.notes),
    ]);
    let discovered = Discovered::read(&Applier::new(server.clone())).await.unwrap();
    Arc::new(EngineRenderer::new(Arc::new(Engine::new(chart.unwrap())), overrides(), Arc::new(discovered)).unwrap())
}

fn secret(server: &MemoryApi, name: &str, key: &str, text: &str) {
    let data = json!({key: ByteString(text.into())});
    server.put(&format!("{SECRETS}/{name}"), json!({"metadata": {"name": name}, "data": data}), "user");
}

async fn started(case: &Case) -> World {
    let mut spec = case.spec.clone();
    spec["own"] = CANARY.into();
    let server = World::new(spec).server;
    let values = json!({"sourced": CANARY, "pin": 907});
    secret(&server, "sources", "values.yaml", &values.to_string());
    secret(&server, "other", "password", CANARY);
    let sources: Vec<ValuesSource> = serde_json::from_value(json!([{"kind": "Secret", "name": "sources"}])).unwrap();
    let renderer = renderer(&server, case).await;
    World::with_events(server, renderer, |settings| {
        settings.values_from = sources.into();
        settings.suppress_overrides = true;
    })
}

/// Returns everything that people see of a resource.
async fn visible(world: &World, log: &Log) -> String {
    tokio::time::sleep(SECOND).await;
    let status = &world.server.object(PRIMARY).unwrap()["status"];
    let metrics = world.shared.metrics.encode(Format::Classic);
    format!("{status} {:?} {metrics} {}", events(&world.server), log.0.lock().unwrap())
}

/// Returns the encodings of the canary that a text contains.
fn found(text: &str) -> Vec<String> {
    let code = |bytes: &[u8]| serde_json::to_value(ByteString(bytes.to_vec())).unwrap().as_str().unwrap().to_owned();
    let inside = |before: &str| code(format!("{before}{CANARY}").as_bytes())[8..16].to_owned();
    let hexadecimal: String = CORE.bytes().map(|byte| format!("{byte:02x}")).collect();
    let notations = [CORE.to_owned(), hexadecimal, inside(""), inside("x"), inside("xx"), "pin 907".to_owned()];
    notations.into_iter().filter(|notation| text.contains(notation)).collect()
}

#[tokio::test(start_paused = true)]
async fn no_value_of_any_source_shows_in_anything_that_people_see() {
    let mut failed = Vec::new();
    for case in cases() {
        let log = Log::default();
        let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
        let world = started(&case).await;
        if let Some(refusal) = case.refusal {
            world.server.refuse(move |call| call.path.contains("/configmaps/").then(|| refusal(CANARY)));
        }
        world.reconcile().await;
        let seen = visible(&world, &log).await;
        if !found(&seen).is_empty() || !seen.contains(case.shows) {
            failed.push(format!("{}: {:?} in {seen}", case.name, found(&seen)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[tokio::test(start_paused = true)]
async fn refused_repairs_and_uninstalls_show_no_value_after_a_restart_either() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let case = Case::default();
    let world = started(&case).await;
    world.reconcile().await;
    assert_eq!(world.maps(), ["a"]);
    let world = World::with_events(world.server.clone(), renderer(&world.server, &case).await, |_| {});
    let denied = |call: &helm_release::kube::Call| {
        let text = format!("admission webhook \"a.b\" denied the request: {CANARY} and {CANARY:?} are weak");
        let write = call.method != http::Method::GET && call.path.contains("/configmaps/");
        write.then(|| Error::from_status(400, "BadRequest", &text))
    };
    world.server.refuse(denied);
    world.server.remove(&format!("{MAPS}/a"));
    world.reconcile().await;
    let seen = visible(&world, &log).await;
    assert!(found(&seen).is_empty() && seen.contains("**** and "), "{seen}");
    world.server.accept();
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    assert_eq!(world.maps(), ["a"]);
    world.server.refuse(denied);
    world.delete();
    world.reconcile().await;
    let seen = visible(&world, &log).await;
    assert!(found(&seen).is_empty() && seen.contains("UninstallError"), "{seen}");
}
