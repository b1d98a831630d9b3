//! The renderer over Helm's engine: one chart, loaded once, and the cluster's capabilities as of the latest discovery.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use futures::future::BoxFuture;
use go_encoding::json;
use go_template::{Map, Value};
use helm::chart::Chart;
use helm::engine::{self, Capabilities, Engine, KubeVersion, ReleaseOptions, Rendered};
use helm_release::action::Candidate;
use helm_release::kube::{
    Applier, Call, Duplicate, Object, ObjectError, deduplicate, digest_json, install_order, objects_of,
};
use helm_release::release::{ChartDocument, DeletePolicy, Hook, HookEvent};
use serde_json::json;

use super::identity;
use super::render::{RenderError, Renderer, Request};
use crate::backoff;
use crate::lookup::{ClusterLookup, Named, Reach, Release};
use crate::report::chain;
use crate::values::Spec;
use crate::watches::{LookupRule, Overrides, ServiceAccount};

/// How long a render may rely on the last discovery.
const MAX_AGE: Duration = Duration::from_secs(5);

/// How often a start asks for the server's version, within 16 seconds.
const ATTEMPTS: u32 = 6;

/// What the cluster serves, as charts see it.
pub(super) struct Discovered {
    applier: Applier,
    kube_version: KubeVersion,
    /// The capabilities, with the generation of the discovery that found them.
    known: RwLock<Option<(usize, Arc<Capabilities>)>>,
}

impl Discovered {
    /// Asks the server for its version, several times if it is in trouble: a failure here ends the whole process.
    ///
    /// # Errors
    /// The server does not answer, or its version is not one.
    pub(super) async fn read(applier: &Applier) -> Result<Discovered, crate::native::Error> {
        let mut attempt = 1;
        let answer = loop {
            match applier.api().send(Call::get("/version")).await {
                Err(error) if error.is_transient() && attempt < ATTEMPTS => {
                    tracing::warn!(error = chain(&error), "Cannot ask the API server for its version: trying again");
                    tokio::time::sleep(backoff::wait(attempt)).await;
                    attempt += 1;
                }
                answer => break answer?,
            }
        };
        let version: serde_json::Value = answer.parse()?;
        let kube_version = KubeVersion::parse(version["gitVersion"].as_str().unwrap_or_default())?;
        Ok(Discovered { applier: applier.clone(), kube_version, known: RwLock::default() })
    }

    /// The capabilities of now or a few seconds ago; those last known if discovery fails. A change is never a reason to render: new kinds must not
    /// rotate passwords.
    async fn current(&self) -> Arc<Capabilities> {
        if let Err(error) = self.applier.mapper.refresh_if_older(MAX_AGE).await {
            tracing::warn!(error = chain(&error), "Cannot read which kinds are served: charts see those known so far");
        }
        self.capabilities()
    }

    fn capabilities(&self) -> Arc<Capabilities> {
        let generation = self.applier.mapper.generation();
        let known = self.known.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if let Some((at, capabilities)) = known
            && at == generation
        {
            return capabilities;
        }
        let (generation, api_versions) = self.applier.mapper.known_api_versions();
        let capabilities = Arc::new(Capabilities::new(self.kube_version.clone(), api_versions));
        *self.known.write().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some((generation, capabilities.clone()));
        capabilities
    }
}

/// Renders one chart for one watch.
pub(super) struct EngineRenderer {
    engine: Arc<Engine>,
    document: Arc<ChartDocument>,
    overrides: Overrides,
    discovered: Arc<Discovered>,
    digest: String,
    /// The lookups that the chart spells out.
    named: Arc<Named>,
    lookup_rule: Arc<LookupRule>,
    account: Option<ServiceAccount>,
}

impl EngineRenderer {
    /// A renderer for this cluster.
    ///
    /// # Errors
    /// No record can hold the chart.
    pub(super) fn new(
        engine: Arc<Engine>,
        overrides: Overrides,
        discovered: Arc<Discovered>,
    ) -> Result<EngineRenderer, crate::native::Error> {
        let document = Arc::new(ChartDocument::of(engine.chart())?);
        let typed = (overrides.texts(), format!("{:?}", overrides.kind()));
        let digest = digest_json(&json!([engine.chart().digest(), typed]));
        let named = Arc::new(Named::of(engine.chart()));
        let lookup_rule = Arc::default();
        Ok(EngineRenderer { engine, document, overrides, discovered, digest, named, lookup_rule, account: None })
    }

    fn chart(&self) -> &Chart {
        self.engine.chart()
    }

    fn values(&self, spec: &Spec) -> Result<Map, RenderError> {
        let invalid = |message| RenderError { reason: "InvalidValues", message };
        let own = spec.values().map_err(|e| invalid(e.to_string()))?;
        self.overrides.over(own).map_err(|e| invalid(e.to_string()))
    }

    /// Sets what templates may look up beyond their release. Default: nothing.
    pub(super) fn reaching(self, rule: &LookupRule) -> EngineRenderer {
        EngineRenderer { lookup_rule: Arc::new(rule.clone()), ..self }
    }

    /// Sets as whom templates look up. Default: as the operator.
    pub(super) fn acting_as(self, account: Option<&ServiceAccount>) -> EngineRenderer {
        EngineRenderer { account: account.cloned(), ..self }
    }

    fn lookup(&self, namespace: &str) -> Arc<ClusterLookup> {
        let applier = identity::acting_as(&self.discovered.applier, self.account.as_ref(), namespace);
        let (named, rule) = (self.named.clone(), self.lookup_rule.clone());
        let reach = Reach::Release(Release { namespace: namespace.to_owned(), named, rule });
        Arc::new(ClusterLookup::new(applier, tokio::runtime::Handle::current(), reach))
    }
}

impl Renderer for EngineRenderer {
    fn digest(&self) -> String {
        self.digest.clone()
    }

    fn chart_name(&self) -> &str {
        &self.chart().metadata.name
    }

    fn overrides(&self) -> Option<&Overrides> {
        Some(&self.overrides)
    }

    fn sources(&self, spec: &Spec) -> Option<(Arc<ChartDocument>, serde_json::Value)> {
        let values = self.values(spec).ok()?;
        Some((self.document.clone(), json::to_serde(&Value::Map(values))))
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Candidate, RenderError>> {
        Box::pin(async move {
            let (values, inputs) = (self.values(&request.spec)?, request.inputs);
            let release = ReleaseOptions {
                name: request.name,
                namespace: request.namespace,
                revision: i64::from(request.revision),
                is_upgrade: request.revision > 1,
            };
            let (engine, document, lookup) =
                (self.engine.clone(), self.document.clone(), self.lookup(&release.namespace));
            let capabilities = self.discovered.current().await;
            let lookups = lookup.clone();
            // A chart may compute for a long time, and `lookup` waits for the cluster.
            let rendered = tokio::task::spawn_blocking(move || {
                let request = engine::Request {
                    values: &values,
                    release: &release,
                    capabilities: &capabilities,
                    lookup: Some(lookup),
                    skip_schema: false,
                };
                let rendered = engine
                    .render(&request)
                    .map_err(|e| RenderError { reason: reason(&e), message: e.without_values() })?;
                let config = json::to_serde(&Value::Map(values.clone()));
                candidate(rendered, config, document, &release.namespace, inputs)
            });
            let interrupted = RenderError { reason: "RenderError", message: "rendering was interrupted".into() };
            match rendered.await.unwrap_or(Err(interrupted)) {
                Ok(candidate) => Ok(Candidate { notes: lookups.hide(candidate.notes), ..candidate }),
                Err(error) => Err(RenderError { message: lookups.hide(error.message), ..error }),
            }
        })
    }
}

fn reason(error: &engine::Error) -> &'static str {
    match error {
        engine::Error::Dependencies(_) | engine::Error::Values(_) | engine::Error::Schema(_) => "InvalidValues",
        engine::Error::KubeVersion { .. } => "UnsupportedKubernetes",
        engine::Error::Template(_) | engine::Error::Manifest { .. } => "RenderError",
    }
}

fn candidate(
    rendered: Rendered,
    config: serde_json::Value,
    chart: Arc<ChartDocument>,
    namespace: &str,
    inputs: String,
) -> Result<Candidate, RenderError> {
    let manifest = rendered.manifest();
    let (objects, duplicates) = release_objects(&manifest, namespace).map_err(|e| unusable(&e))?;
    let mut crds = Vec::new();
    for crd in &rendered.crds {
        let found =
            objects_of(&crd.data.to_text()).map_err(|e| ObjectError { template: crd.path.as_str().into(), ..e });
        crds.extend(found.map_err(|e| unusable(&e))?);
    }
    let hooks = rendered.hooks.into_iter().map(hook).collect();
    Ok(Candidate { chart, config, manifest, objects, hooks, notes: rendered.notes, crds, duplicates, inputs })
}

/// The objects of exactly the text that the record keeps, in install order.
pub(super) fn release_objects(manifest: &str, namespace: &str) -> Result<(Vec<Object>, Vec<Duplicate>), ObjectError> {
    let objects = objects_of(manifest)?;
    objects.iter().try_for_each(|object| object.check_name().and_then(|()| object.check_annotations()))?;
    let (mut objects, duplicates) = deduplicate(objects, namespace);
    install_order(&mut objects);
    Ok((objects, duplicates))
}

fn unusable(error: &ObjectError) -> RenderError {
    RenderError { reason: "RenderError", message: error.to_string() }
}

fn hook(of: helm::manifest::Hook) -> Hook {
    let policy = |word: &String| match word.as_str() {
        "hook-succeeded" => DeletePolicy::HookSucceeded,
        "hook-failed" => DeletePolicy::HookFailed,
        "before-hook-creation" => DeletePolicy::BeforeHookCreation,
        _ => DeletePolicy::Other,
    };
    Hook {
        name: of.name,
        kind: of.kind,
        path: of.path,
        manifest: of.manifest,
        events: of.events.iter().map(|event| HookEvent::parse(event)).collect(),
        weight: of.weight,
        delete_policies: of.delete_policies.iter().map(policy).collect(),
        output_log_policies: of.output_log_policies,
        ..Hook::default()
    }
}

#[cfg(test)]
mod tests {
    use helm::chart::Crd;
    use helm::manifest::{Head, Manifest};
    use helm_release::kube::{Disturbance, MemoryApi};

    use super::*;

    fn of(contents: &[&str], crds: &[&str]) -> Result<Candidate, RenderError> {
        let manifest = |(i, content): (usize, &&str)| Manifest {
            path: format!("c/templates/{i}.yaml"),
            content: (*content).to_owned(),
            head: Head::default(),
        };
        let crd = |text: &&str| Crd { path: "c/crds/a.yaml".into(), data: (*text).into() };
        let rendered = Rendered {
            manifests: contents.iter().enumerate().map(manifest).collect(),
            crds: crds.iter().map(crd).collect(),
            ..Rendered::default()
        };
        candidate(rendered, json!({}), Arc::new(ChartDocument::from_json("{}").unwrap()), "ns", "digest".into())
    }

    fn map(metadata: &str, data: &str) -> String {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{{metadata}}}\ndata:\n  x: {data}")
    }

    #[test]
    fn objects_are_those_of_the_manifest_that_the_record_keeps() {
        let (a, b) = (map("name: a", "|+\n    text"), map("name: b", "|\n    text"));
        let candidate = of(&[&a, &b], &[]).unwrap();
        let texts: Vec<_> = candidate.objects.iter().map(|o| o.body["data"]["x"].as_str().unwrap()).collect();
        assert_eq!(texts, ["text\n", "text\n"]);
        assert!(candidate.manifest.starts_with("---\n# Source: c/templates/0.yaml\napiVersion: v1"));
        assert_eq!(&*candidate.objects[1].template, "c/templates/1.yaml");
    }

    #[test]
    fn an_invalid_object_is_rejected_with_its_template() {
        let refused = |text: &str| of(&["", text], &[]).unwrap_err().to_string();
        assert!(
            refused(&map("generateName: a-", "s3cret"))
                .starts_with("c/templates/1.yaml: ConfigMap has metadata.generateName")
        );
        assert_eq!(refused("kind: X"), "c/templates/1.yaml: manifest has an object without apiVersion");
        assert_eq!(
            of(&[], &["kind: X"]).unwrap_err().to_string(),
            "c/crds/a.yaml: manifest has an object without apiVersion"
        );
    }

    #[test]
    fn of_two_templates_for_one_object_the_last_wins() {
        let candidate = of(&[&map("name: a", "one"), &map("name: a, namespace: ns", "two")], &[]).unwrap();
        let texts: Vec<_> = candidate.objects.iter().map(|o| &o.body["data"]["x"]).collect();
        assert_eq!(texts, ["two"]);
        let said: Vec<String> = candidate.duplicates.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "c/templates/0.yaml and c/templates/1.yaml both render ConfigMap \"a\", and only the last one counts: remove the other"
            ]
        );
        assert_eq!(candidate.manifest.matches("kind: ConfigMap").count(), 2, "the record keeps what the chart says");
    }

    #[test]
    fn a_hook_is_recorded_with_all_its_fields() {
        let read = hook(helm::manifest::Hook {
            name: "migrate".into(),
            kind: "Job".into(),
            path: "c/templates/job.yaml".into(),
            manifest: "kind: Job".into(),
            events: vec!["pre-upgrade"],
            weight: -5,
            delete_policies: ["hook-succeeded", "hook-failed", "before-hook-creation", "odd"].map(Into::into).into(),
            output_log_policies: vec!["hook-failed".into()],
        });
        let expected = Hook {
            name: "migrate".into(),
            kind: "Job".into(),
            path: "c/templates/job.yaml".into(),
            manifest: "kind: Job".into(),
            events: vec![HookEvent::PreUpgrade],
            weight: -5,
            delete_policies: vec![
                DeletePolicy::HookSucceeded,
                DeletePolicy::HookFailed,
                DeletePolicy::BeforeHookCreation,
                DeletePolicy::Other,
            ],
            output_log_policies: vec!["hook-failed".into()],
            ..Hook::default()
        };
        assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    }

    async fn renderer(template: &str) -> (Arc<MemoryApi>, EngineRenderer) {
        let server = Arc::new(MemoryApi::new());
        server.serve("v1", "ConfigMap", "configmaps");
        let chart = Chart::from_files([
            ("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.2.3\n"),
            ("values.yaml", "size: 1\n"),
            ("values.schema.json", r#"{"properties": {"size": {"type": "integer"}}}"#),
            ("templates/a.yaml", template),
        ]);
        let watch = "- {group: g, version: v1, kind: K, chart: x, overrideValues: {auth.password: fixed}}";
        let watch = crate::watches::parse(watch, |_| None).unwrap().watches.remove(0);
        let engine = Arc::new(Engine::new(chart.unwrap()));
        let discovered = Arc::new(Discovered::read(&Applier::new(server.clone())).await.unwrap());
        let renderer = EngineRenderer::new(engine, watch.overrides, discovered).unwrap();
        (server, renderer)
    }

    async fn rendered(renderer: &EngineRenderer, spec: &str, revision: u32) -> Result<String, RenderError> {
        let (name, namespace, inputs) = ("web".into(), "ns".into(), "digest".to_owned());
        let request = Request { name, namespace, spec: Spec::new(spec), revision, inputs: inputs.clone() };
        let candidate = renderer.render(request).await?;
        assert_eq!(candidate.inputs, inputs);
        Ok(candidate.manifest)
    }

    #[tokio::test]
    async fn a_render_sees_its_release_override_values_and_the_clusters_capabilities() {
        let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  \
            text: '{{ .Release.Name }} {{ .Release.Revision }} {{ .Release.IsUpgrade }} {{ .Values.auth.password }} \
            {{ .Capabilities.KubeVersion.Minor }} {{ .Capabilities.APIVersions.Has \"example.com/v1/Kind\" }}'";
        let (server, renderer) = renderer(template).await;
        assert_eq!(renderer.chart_name(), "demo");
        let overrides = renderer.overrides().unwrap().texts().clone();
        assert_eq!(overrides, [("auth.password".to_owned(), "fixed".to_owned())].into());
        let first = rendered(&renderer, "{}", 1).await.unwrap();
        assert!(first.contains("text: 'web 1 false fixed 36 false'"), "{first}");
        let second = rendered(&renderer, "{\"auth\": {\"password\": \"mine\"}}", 2).await.unwrap();
        assert!(second.contains("text: 'web 2 true fixed 36 false'"), "{second}");
        server.serve("example.com/v1", "Kind", "kinds");
        renderer.discovered.applier.mapper.resource("example.com/v1", "Kind").await.unwrap();
        let third = rendered(&renderer, "{}", 3).await.unwrap();
        assert!(third.contains("text: 'web 3 true fixed 36 true'"), "{third}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_users_template_reads_nothing_of_other_namespaces() {
        let template =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: {{ tpl .Values.text . | quote }}}";
        let (server, renderer) = renderer(template).await;
        for namespace in ["ns", "far"] {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps/m");
            server.put(&path, json!({"metadata": {"name": "m"}, "data": {"k": format!("of {namespace}")}}), "someone");
        }
        let read = |namespace: &str| json!({"text": format!("{{{{ (lookup \"v1\" \"ConfigMap\" {namespace:?} \"m\").data.k }}}}")});
        assert!(rendered(&renderer, &read("ns").to_string(), 1).await.unwrap().contains("x: \"of ns\""));
        let refused = rendered(&renderer, &read("far").to_string(), 1).await.unwrap_err();
        assert!(refused.message.contains("lookup: {namespaces: [far]} in watches.yaml opens it"), "{refused}");
        let opened = renderer.reaching(&LookupRule { namespaces: ["far".to_owned()].into(), all: false });
        assert!(rendered(&opened, &read("far").to_string(), 1).await.unwrap().contains("x: \"of far\""));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_survives_some_lost_answers_but_not_an_absent_server() {
        let server = Arc::new(MemoryApi::new());
        server.disturb("/version", 3, Disturbance::Unreachable);
        Discovered::read(&Applier::new(server.clone())).await.unwrap();
        server.disturb("/version", 100, Disturbance::Refused(503));
        assert!(Discovered::read(&Applier::new(server.clone())).await.is_err());
    }

    #[tokio::test]
    async fn a_render_that_fails_has_a_reason() {
        let (_, renderer) = renderer("{{ fail \"no\" }}").await;
        let failed = async |spec: &str| rendered(&renderer, spec, 1).await.unwrap_err().reason;
        assert_eq!(failed("{}").await, "RenderError");
        assert_eq!(failed(r#"{"size": "large"}"#).await, "InvalidValues");
        assert_eq!(failed("[]").await, "InvalidValues");
    }
}
