//! Tests that a secret in any input of a release appears nowhere, whatever fails.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use controller::metrics::Format;
use helm::chart::Chart;
use helm::engine::Engine;
use helm_release::kube::Call;
use k8s_openapi::ByteString;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use crate::charts::tests::*;
use crate::rendering::discovered::Discovered;
use crate::rendering::renderer::EngineRenderer;
use crate::values_from::ValuesSource;
use crate::watches::OverrideValuesType;

/// The secret in `spec`, with characters that Go, JSON, HTML and URLs escape.
const CANARY: &str = "hunter2 \"<&é>";
/// The secret in a source of values.
const SOURCED: &str = "tr0ub4dor \"<&é>";
/// The secret among the override values.
const OVERRIDDEN: &str = "correct5 \"<&é>";
/// The secret override value with a comma, which `--set` escapes.
const ESCAPED: &str = "Ab3$x,Qr9!z \"<&é>";
/// The secrets in an override value that is a list.
const LISTED: [&str; 2] = ["Kj-4-pQ-8 \"<&é>", "Mw-2-rT-6 \"<&é>"];
/// The secret in a Secret that the chart looks up.
const LOOKED_UP: &str = "passw0rd \"<&é>";
/// The secret in a Secret that is a hook.
const HOOKED: &str = "l3tmein \"<&é>";
const CANARIES: [&str; 8] = [CANARY, SOURCED, OVERRIDDEN, ESCAPED, LISTED[0], LISTED[1], LOOKED_UP, HOOKED];

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
/// A Secret, and another one that is a hook.
const SECRET_AND_HOOK: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: {{ .Values.own | quote }}}\n---\n\
    apiVersion: v1\nkind: Secret\nmetadata: {name: h, annotations: {helm.sh/hook: pre-install}}\nstringData: {p: 'l3tmein \"<&é>'}";
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
        template("fail of an escaped override", "{{ fail .Values.escaped }}"),
        template("fail of a list of overrides", "{{ fail (join \"; \" .Values.listed) }}"),
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
            template: SECRET_AND_HOOK,
            notes: "{{ .Values.sourced }} {{ .Values.own }} {{ .Values.overridden }} l3tmein \"<&é> \
                {{ (lookup \"v1\" \"Secret\" \"ns\" \"other\").data.password | b64dec }}",
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
        refused("a short secret", |_| {
            Error::from_status(400, "BadRequest", "admission webhook \"a.b\" denied the request: pin 907 is weak")
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
    let texts = [
        ("overridden", OVERRIDDEN.to_owned()),
        ("escaped", ESCAPED.replace(',', "\\,")),
        ("listed", format!("{{{}}}", LISTED.join(","))),
    ];
    let texts = texts.map(|(key, text)| (key.to_owned(), text));
    Overrides::parse(texts.into(), OverrideValuesType::Typed).unwrap()
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
    set_source(&server, SOURCED);
    secret(&server, "other", "password", LOOKED_UP);
    let renderer = renderer(&server, case).await;
    World::with_events(server, renderer, settings)
}

fn settings(settings: &mut Settings) {
    let sources: Vec<ValuesSource> = serde_json::from_value(json!([{"kind": "Secret", "name": "sources"}])).unwrap();
    settings.values_from = sources;
    settings.suppress_overrides = true;
}

fn set_source(server: &MemoryApi, text: &str) {
    secret(server, "sources", "values.yaml", &json!({"sourced": text, "pin": 907}).to_string());
}

/// Rejects every write of a ConfigMap, and quotes the secrets in `spec` and in the source.
fn denied(call: &Call) -> Option<Error> {
    let text = format!(
        "admission webhook \"a.b\" denied the request: {CANARY} and {CANARY:?} and {SOURCED} and pin 907 are weak"
    );
    let write = call.method != http::Method::GET && call.path.contains("/configmaps");
    write.then(|| Error::from_status(400, "BadRequest", &text))
}

/// Installs a release with secrets, and upgrades it to a revision with other values.
async fn upgraded() -> World {
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n\
        data: {x: {{ .Values.own | quote }}, y: {{ .Values.sourced | quote }}}";
    let world = started(&Case { template, ..Case::default() }).await;
    world.reconcile().await;
    set_source(&world.server, "another source");
    world.edit(|p| p["spec"]["own"] = "another value".into());
    world.feed();
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
    world
}

fn pin(world: &World, revision: &str) {
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/pin": revision}));
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
    let notations = |canary: &str| {
        // No encoding changes this part.
        let core = canary.split(' ').next().unwrap();
        let inside = |before: &str| code(format!("{before}{canary}").as_bytes())[8..16].to_owned();
        let hexadecimal: String = core.bytes().map(|byte| format!("{byte:02x}")).collect();
        [core.to_owned(), hexadecimal, inside(""), inside("x"), inside("xx")]
    };
    let all = CANARIES.iter().flat_map(|canary| notations(canary)).chain(["pin 907".to_owned()]);
    all.filter(|notation| text.contains(notation)).collect()
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
async fn a_hook_whose_creation_is_repeated_shows_no_value_while_it_waits() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let world = started(&Case { template: SECRET_AND_HOOK, ..Case::default() }).await;
    world.server.refuse(|call| {
        let text = format!("admission webhook \"a.b\" cannot check {HOOKED}: EOF");
        let creates = call.method == http::Method::POST
            && call.body.as_ref().is_some_and(|(_, body)| String::from_utf8_lossy(body).contains("hook-run"));
        creates.then(|| Error::from_status(500, "InternalError", &text))
    });
    let seen = async {
        tokio::time::sleep(10 * SECOND).await;
        visible(&world, &log).await
    };
    tokio::select! {
        _ = world.reconcile() => unreachable!("it is refused for two minutes"),
        seen = seen => {
            let waits = "waiting for Secret \\\"h\\\" to be created (HTTP 500 InternalError)";
            assert!(found(&seen).is_empty() && seen.contains(waits), "{:?} in {seen}", found(&seen));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refused_repairs_and_uninstalls_show_no_value_after_a_restart_either() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let case = Case::default();
    let world = started(&case).await;
    world.reconcile().await;
    assert_eq!(world.maps(), ["a"]);
    let world = World::with_events(world.server.clone(), renderer(&world.server, &case).await, settings);
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

#[tokio::test(start_paused = true)]
async fn a_refused_return_to_an_earlier_revision_shows_none_of_its_values() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let world = upgraded().await;
    world.server.refuse(denied);
    pin(&world, "1");
    world.reconcile().await;
    let seen = visible(&world, &log).await;
    assert!(found(&seen).is_empty() && seen.contains("**** and "), "{:?} in {seen}", found(&seen));
    assert_eq!(world.history().last().unwrap(), "3 failed");
}

#[tokio::test(start_paused = true)]
async fn the_reason_why_a_rollback_writes_an_object_client_side_shows_no_value() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let world = upgraded().await;
    world.server.refuse(|call| {
        let is_apply = call.body.as_ref().is_some_and(|(kind, _)| *kind == "application/apply-patch+yaml");
        denied(call).filter(|_| is_apply)
    });
    pin(&world, "1");
    world.reconcile().await;
    assert_eq!(world.history().last().unwrap(), "3 deployed");
    let seen = visible(&world, &log).await;
    let is_reported = seen.contains("ClientSideApply") && seen.contains("**** and ");
    assert!(found(&seen).is_empty() && is_reported, "{:?} in {seen}", found(&seen));
}

#[tokio::test(start_paused = true)]
async fn a_failed_upgrade_shows_no_value_of_a_release_that_is_uninstalled_because_of_it() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let case = Case::default();
    let world = started(&case).await;
    world.reconcile().await;
    let change = |changed: &mut Settings| {
        settings(changed);
        changed.on_failure = crate::watches::OnFailure::Uninstall;
    };
    let world = World::with_events(world.server.clone(), renderer(&world.server, &case).await, change);
    world.server.refuse(|call| denied(call).filter(|_| call.method != http::Method::DELETE));
    set_source(&world.server, "another source");
    world.edit(|p| p["spec"]["own"] = "another value".into());
    world.reconcile().await;
    assert!(world.maps().is_empty() && world.history().is_empty(), "{:?}", world.history());
    let seen = visible(&world, &log).await;
    assert!(found(&seen).is_empty() && seen.contains("**** and "), "{:?} in {seen}", found(&seen));
}

#[tokio::test(start_paused = true)]
async fn a_message_stays_hidden_while_the_record_with_its_values_cannot_be_read() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let case = Case::default();
    let world = started(&case).await;
    world.reconcile().await;
    let world = World::with_events(world.server.clone(), renderer(&world.server, &case).await, settings);
    let is_refused = Arc::new(AtomicBool::default());
    world.server.refuse(move |call| {
        let denied = denied(call);
        is_refused.fetch_or(denied.is_some(), Ordering::Relaxed);
        let reads = call.method == http::Method::GET && call.path.contains("sh.helm.release");
        let unread = || Error::from_status(500, "InternalError", "etcdserver: request timed out");
        denied.or_else(|| (reads && is_refused.load(Ordering::Relaxed)).then(unread))
    });
    world.server.remove(&format!("{MAPS}/a"));
    world.reconcile().await;
    let seen = visible(&world, &log).await;
    let says = "cannot read release record \"sh.helm.release.v1.web.v1\": etcdserver: request timed out; \
        the message is hidden: the values to hide in it could not be read";
    assert!(found(&seen).is_empty(), "{:?} in {seen}", found(&seen));
    assert!(world.condition("Irreconcilable").unwrap().ends_with(says), "{seen}");
    world.server.accept();
    world.server.refuse(denied);
    tokio::time::advance(Duration::from_secs(600)).await;
    world.reconcile().await;
    let seen = visible(&world, &log).await;
    assert!(found(&seen).is_empty() && seen.contains("**** and "), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_status_shows_no_value() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let world = started(&Case::default()).await;
    world.server.refuse(|call| {
        let text = format!("Memcached \"web\" is invalid: spec.own: Invalid value: {CANARY:?}: too weak");
        let writes = call.method != http::Method::GET && call.path.contains("/memcacheds/web/status");
        writes.then(|| Error::from_status(422, "Invalid", &text))
    });
    world.reconcile().await;
    reconcile::report::status_writer::write_progress(&world.shared, &key(), "waiting").await;
    let seen = visible(&world, &log).await;
    assert!(found(&seen).is_empty() && seen.contains("Invalid value: \"****\": too weak"), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn notes_from_a_record_that_helm_wrote_show_no_secret() {
    let case = Case { template: SECRET_AND_HOOK, notes: "see helm", ..Case::default() };
    let world = started(&case).await;
    world.reconcile().await;
    let mut release = world.shared.storage.get("ns", "web", 1).await.unwrap().release.facts().clone();
    release.version = 2;
    release.info.notes = format!("logins {CANARY} {SOURCED} {OVERRIDDEN} {HOOKED}");
    let mut secret = world.server.object(&format!("{SECRETS}/sh.helm.release.v1.web.v1")).unwrap();
    secret["metadata"]["annotations"] = Value::Null;
    secret["metadata"]["name"] = release.key().into();
    secret["metadata"]["labels"]["version"] = "2".into();
    let record = Packed::pack(&release).unwrap().to_record().into_bytes();
    secret["data"]["release"] = serde_json::to_value(ByteString(record)).unwrap();
    world.server.put(&format!("{SECRETS}/{}", release.key()), secret, "helm");
    world.reconcile().await;
    assert_eq!(world.history().last().unwrap(), "2 deployed");
    // As if the process had ended before it wrote the status.
    let mut primary = world.server.object(PRIMARY).unwrap();
    primary["status"] = Value::Null;
    world.server.put(PRIMARY, primary, "user");
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let world = World::with_events(world.server.clone(), renderer(&world.server, &case).await, settings);
    world.reconcile().await;
    let said = world.condition("Deployed").unwrap();
    assert_eq!(said, "True/UpgradeSuccessful/logins **** **** **** ****");
    assert_eq!(found(&visible(&world, &log).await), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_chart_that_does_not_render_while_its_release_is_deleted_shows_no_source() {
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\
        apiVersion: batch/v1\nkind: Job\nmetadata: {name: bye, annotations: {helm.sh/hook: pre-delete}}\n---\n\
        {{ if contains \"tr0ub4dor\" .Values.sourced }}{{ fail .Values.sourced }}{{ end }}";
    let case = Case { template, ..Case::default() };
    let world = started(&case).await;
    set_source(&world.server, "fine");
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
    // From here on, nothing proves who wrote the record.
    let mut release = world.shared.storage.get("ns", "web", 1).await.unwrap().release.facts().clone();
    release.info.notes = "changed".into();
    let path = format!("{SECRETS}/sh.helm.release.v1.web.v1");
    let mut secret = world.server.object(&path).unwrap();
    let record = Packed::pack(&release).unwrap().to_record().into_bytes();
    secret["data"]["release"] = serde_json::to_value(ByteString(record)).unwrap();
    world.server.put(&path, secret, "tenant");
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    set_source(&world.server, SOURCED);
    let world = World::with_events(world.server.clone(), renderer(&world.server, &case).await, settings);
    world.delete();
    world.reconcile().await;
    tokio::time::sleep(SECOND).await;
    let published = format!("{:?} {}", events(&world.server), log.0.lock().unwrap());
    assert!(
        found(&published).is_empty() && published.contains("HookSkipped"),
        "{:?} in {published}",
        found(&published)
    );
}

/// Returns what a webhook says about a pod with secrets.
fn refused_pod() -> String {
    format!("pods \"web-1\" is forbidden: admission webhook \"a.b\" denied the request: {SOURCED}, pin 907 are weak")
}

#[tokio::test(start_paused = true)]
async fn what_an_object_that_is_not_ready_quotes_shows_no_value() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let template = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [\
        {name: app, env: [{name: P, value: {{ .Values.sourced | quote }}}]}]}}}";
    let case = Case { template, ..Case::default() };
    let world = started(&case).await;
    world.reconcile().await;
    let path = "/apis/apps/v1/namespaces/ns/deployments/web";
    let mut deployment = world.server.object(path).unwrap();
    let failure =
        json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refused_pod()});
    deployment["status"] = json!({"replicas": 0, "conditions": [failure]});
    world.server.put(path, deployment, "kube-controller-manager");
    world.reconcile().await;
    let seen = visible(&world, &log).await;
    assert!(
        found(&seen).is_empty() && seen.contains("is not ready: FailedCreate: pods"),
        "{:?} in {seen}",
        found(&seen)
    );
    tokio::time::advance(Duration::from_secs(700)).await;
    world.reconcile().await;
    let seen = visible(&world, &log).await;
    assert!(found(&seen).is_empty() && seen.contains("ProgressTimeout"), "{:?} in {seen}", found(&seen));
    // Another process has read no source.
    let world = World::with_events(world.server.clone(), renderer(&world.server, &case).await, settings);
    world.reconcile().await;
    let seen = visible(&world, &log).await;
    assert!(found(&seen).is_empty() && seen.contains("denied the request: ****"), "{:?} in {seen}", found(&seen));
}

#[tokio::test(start_paused = true)]
async fn what_the_pod_of_a_hook_that_waits_quotes_shows_no_value() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let template = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: slow, annotations: {helm.sh/hook: pre-install}}\n\
        spec: {selector: {matchLabels: {job: slow}}, template: {spec: {containers: [{name: app, env: [{name: P, value: {{ .Values.sourced | quote }}}]}]}}}";
    let world = started(&Case { template, ..Case::default() }).await;
    world.server.serve("v1", "Pod", "pods");
    let waits = async {
        while events(&world.server).iter().all(|event| event["reason"] != "HookWaiting") {
            if let Some(job) = world.server.object("/apis/batch/v1/namespaces/ns/jobs/slow") {
                let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "slow", "uid": job["metadata"]["uid"],
                    "controller": true});
                let metadata = json!({"name": "slow-x", "labels": {"job": "slow"}, "ownerReferences": [owner]});
                let said =
                    json!({"type": "PodScheduled", "status": "False", "reason": "Gated", "message": refused_pod()});
                let pod = json!({"metadata": metadata, "status": {"phase": "Pending", "conditions": [said]}});
                world.server.put("/api/v1/namespaces/ns/pods/slow-x", pod, "kubelet");
            }
            tokio::time::sleep(SECOND).await;
        }
    };
    tokio::select! {
        () = waits => {}
        () = tokio::time::sleep(60 * SECOND) => panic!("{:?}", world.condition("Reconciling")),
        _ = world.reconcile() => unreachable!("the hook never ends"),
    }
    let seen = visible(&world, &log).await;
    let shows = seen.contains("waits: pod") && seen.contains("denied the request: ****");
    assert!(found(&seen).is_empty() && shows, "{:?} in {seen}", found(&seen));
}
