//! Renders one chart with Helm's engine, in this process or in workers, with the cluster's capabilities of the latest
//! discovery.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use controller::runtime::BoxError;
use controller::runtime::served_kinds::ServedKinds;
use futures::future::BoxFuture;
use go_encoding::json;
use go_template::{Map, Value};
use helm::chart::Chart;
use helm::engine::{self, Capabilities, Engine, Lookup};
use helm::sequence::{SequenceError, Subcharts};
use helm_release::action::Candidate;
use helm_release::kube::{
    Applier, Duplicate, Object, ObjectError, Weight, deduplicate, digest_json, install_order, objects_of,
};
use helm_release::release::ChartDocument;
use serde_json::json;

use super::discovered::Discovered;
use super::lookup::{Blocking, ClusterLookup, LookupReach, Named, ReleaseReach};
use super::request::{RenderError, Rendered, Renderer, Request};
use crate::mask::Published;
use crate::rendering::output::release_options;
use crate::rendering::{Analysed, Job, Output, Rendering, Workers, explain, too_heavy};
use crate::status::reason::Reason;
use crate::values::Spec;
use crate::watches::{LookupRule, OverrideValuesType, Overrides, RenderOn, SchemaRule, Sequencing, ServiceAccount};

/// Renders one chart for one watch.
pub(crate) struct EngineRenderer {
    rendered_by: RenderedBy,
    document: Arc<ChartDocument>,
    overrides: Overrides,
    discovered: Arc<Discovered>,
    digest: String,
    /// The lookups that the chart spells out.
    named: Arc<Named>,
    lookup_rule: Arc<LookupRule>,
    served: Arc<ServedKinds>,
    schema: SchemaRule,
    published: Arc<Published>,
    /// The reason why the chart cannot be rendered with any values.
    blocked: Option<RenderError>,
    account: Option<ServiceAccount>,
    render_on: RenderOn,
    /// What the chart declares about the order of its subcharts, if its objects are applied in order.
    subcharts: Option<Result<Subcharts, SequenceError>>,
}

/// The process in which the chart is rendered.
enum RenderedBy {
    /// This process.
    Manager(Arc<Analysed>),
    /// Worker processes, which load the chart themselves.
    Workers { workers: Arc<Workers>, chart: PathBuf, digest: String },
}

impl EngineRenderer {
    /// Creates a renderer for this cluster, in this process.
    ///
    /// # Errors
    /// Fails if the chart does not fit into a record.
    pub(crate) fn new(
        engine: Arc<Engine>,
        overrides: Overrides,
        discovered: Arc<Discovered>,
    ) -> Result<EngineRenderer, BoxError> {
        let document = Arc::new(ChartDocument::of(engine.chart())?);
        // The digest contains the type of override values, or the default type if the watch leaves it open. A release
        // with another type then adds it to its own digest.
        let typed = (overrides.texts(), format!("{:?}", overrides.kind().unwrap_or_default()));
        let digest = digest_json(&json!([engine.chart().digest(), typed]));
        let named = Arc::new(Named::of(engine.chart()));
        let published = Arc::new(Published::by(engine.chart()));
        let (rendered_by, lookup_rule, schema) =
            (RenderedBy::Manager(Arc::new(Analysed::new(engine))), Arc::default(), SchemaRule::default());
        let renderer = EngineRenderer {
            rendered_by,
            document,
            overrides,
            discovered,
            digest,
            named,
            lookup_rule,
            served: Arc::default(),
            schema,
            published,
            blocked: None,
            account: None,
            render_on: RenderOn::default(),
            subcharts: None,
        };
        Ok(renderer)
    }

    /// Makes workers render, which load the chart from this absolute path.
    pub(crate) fn in_workers(mut self, workers: Arc<Workers>, chart: PathBuf) -> EngineRenderer {
        if let RenderedBy::Manager(engine) = &self.rendered_by {
            self.rendered_by = RenderedBy::Workers { workers, chart, digest: engine.chart().digest().to_owned() };
        }
        self
    }

    fn values(&self, spec: &Spec, overrides: OverrideValuesType) -> Result<Map, RenderError> {
        let own = spec.values().map_err(|e| invalid(&e))?;
        self.overrides.over_as(overrides, own).map_err(|e| invalid(&e))
    }

    /// Sets what templates may look up beyond their release. Default: nothing.
    pub(crate) fn reaching(self, rule: &LookupRule) -> EngineRenderer {
        EngineRenderer { lookup_rule: Arc::new(rule.clone()), ..self }
    }

    /// Sets the kinds whose resources contain users' values. Default: none.
    pub(crate) fn serving(self, served: Arc<ServedKinds>) -> EngineRenderer {
        EngineRenderer { served, ..self }
    }

    /// Sets how values are validated. The copies of documents have absolute paths. Default: against the chart's own
    /// files.
    pub(crate) fn validating(mut self, rule: SchemaRule) -> EngineRenderer {
        if let RenderedBy::Manager(engine) = &self.rendered_by {
            self.blocked = blocked(engine.chart(), &rule);
        }
        EngineRenderer { schema: rule, ..self }
    }

    /// Sets whether objects are applied in the chart's order. Default: they are not.
    pub(crate) fn sequencing(mut self, sequencing: Sequencing) -> EngineRenderer {
        if let (Sequencing::Ordered, RenderedBy::Manager(engine)) = (sequencing, &self.rendered_by) {
            self.subcharts = Some(Subcharts::of(engine.chart()));
        }
        self
    }

    /// Sets what renders releases again: kinds that do so count once they have settled. Default: nothing.
    pub(crate) fn rendering_on(self, render_on: RenderOn) -> EngineRenderer {
        EngineRenderer { render_on, ..self }
    }

    /// Sets the account of lookups. Default: the operator's.
    pub(crate) fn acting_as(self, account: Option<&ServiceAccount>) -> EngineRenderer {
        EngineRenderer { account: account.cloned(), ..self }
    }

    fn lookup(&self, namespace: &str) -> Arc<ClusterLookup> {
        let applier = acting_as(&self.discovered.applier, self.account.as_ref(), namespace);
        let (named, rule) = (self.named.clone(), self.lookup_rule.clone());
        let served = self.served.clone();
        let reach = LookupReach::Release(ReleaseReach { served, namespace: namespace.to_owned(), named, rule });
        let lookup = ClusterLookup::new(applier, tokio::runtime::Handle::current(), reach);
        let most = match &self.rendered_by {
            RenderedBy::Manager(_) => Rendering::default().memory / 8,
            RenderedBy::Workers { workers, .. } => workers.largest_answer(),
        };
        Arc::new(lookup.within(most).publishing(self.published.clone()))
    }

    /// Renders the chart, and returns the output with the values that the record keeps.
    async fn output(
        &self,
        request: Request,
        lookup: &Arc<ClusterLookup>,
    ) -> Result<Rendered<(Output, serde_json::Value)>, RenderError> {
        let values = self.values(&request.spec, request.overrides_type)?;
        let config = json::to_serde(&Value::Map(values.clone()));
        let current = self.discovered.current().await?;
        let capabilities =
            if self.render_on.capabilities { self.discovered.counting().0.capabilities } else { current };
        let output = match &self.rendered_by {
            RenderedBy::Manager(engine) => {
                let (engine, hiding, lookup, skip_schema) = (engine.clone(), lookup, lookup.clone(), self.schema.skip);
                let place = Here { engine, capabilities, lookup, skip_schema };
                match blocking(move || place.render(&values, &request)).await {
                    Ok(output) => output,
                    Err(error) => return Err(hiding.redact(error).await),
                }
            }
            RenderedBy::Workers { workers, chart, digest } => {
                // The worker merges them again from the texts: sent as JSON, whole floats would arrive as integers.
                drop(values);
                let job = self.job(request, chart, digest)?;
                match workers.render(job, &capabilities, lookup).await? {
                    Rendered::Done(output) => output,
                    Rendered::Postponed => return Ok(Rendered::Postponed),
                }
            }
        };
        Ok(Rendered::Done((output, config)))
    }

    /// Returns the maximum memory of the objects of a render, in bytes.
    fn weight(&self) -> u64 {
        match &self.rendered_by {
            RenderedBy::Manager(_) => Rendering::default().memory / 4,
            RenderedBy::Workers { workers, .. } => workers.weight(),
        }
    }

    fn job(&self, request: Request, chart: &Path, digest: &str) -> Result<Job, RenderError> {
        let spec = request.spec.shared_json();
        Ok(Job {
            chart: chart.to_owned(),
            digest: digest.to_owned(),
            spec: spec.map_err(|e| invalid(&e))?,
            overrides: self.overrides.texts().clone(),
            overrides_kind: request.overrides_type,
            copies: self.schema.copies.0.clone(),
            skip_schema: self.schema.skip,
            name: request.name,
            namespace: request.namespace,
            revision: request.revision,
            priority: request.priority,
        })
    }
}

fn invalid(error: &impl ToString) -> RenderError {
    RenderError::Failed { reason: "InvalidValues", message: error.to_string() }
}

impl Renderer for EngineRenderer {
    fn digest(&self) -> String {
        self.digest.clone()
    }

    fn capabilities(&self) -> Option<String> {
        let known = if self.render_on.capabilities { self.discovered.counting().0 } else { self.discovered.known() };
        Some(known.digest.to_string())
    }

    fn are_capabilities_settled(&self) -> bool {
        self.discovered.counting().1
    }

    fn chart_name(&self) -> &str {
        &self.document.name
    }

    fn chart_version(&self) -> &str {
        &self.document.version
    }

    fn overrides(&self) -> Option<&Overrides> {
        Some(&self.overrides)
    }

    fn sources(&self, spec: &Spec, overrides: OverrideValuesType) -> Option<(Arc<ChartDocument>, serde_json::Value)> {
        let values = self.values(spec, overrides).ok()?;
        Some((self.document.clone(), json::to_serde(&Value::Map(values))))
    }

    fn published(&self) -> Option<&Arc<Published>> {
        Some(&self.published)
    }

    fn subcharts(&self) -> Option<&Result<Subcharts, SequenceError>> {
        self.subcharts.as_ref()
    }

    fn chart_with_lines(&self) -> Option<Arc<Chart>> {
        match &self.rendered_by {
            RenderedBy::Manager(engine) => Some(engine.chart().clone()),
            // A chart that changed on the disk is not the one that is served.
            RenderedBy::Workers { chart, digest, .. } => {
                Chart::load_with_lines(chart).ok().filter(|chart| chart.digest() == digest)
            }
        }
    }

    fn template(&self, name: &str) -> Option<String> {
        let text = |chart: &Chart| Some(String::from_utf8_lossy(chart.template(name)?).into_owned());
        match &self.rendered_by {
            RenderedBy::Manager(engine) => text(engine.chart()),
            // Only workers have the chart in memory, so it is loaded again. A changed chart would have other lines.
            RenderedBy::Workers { chart, digest, .. } => {
                let loaded = Chart::load_with(chart, &self.schema.copies).ok();
                text(&*loaded.filter(|loaded| loaded.digest() == digest)?)
            }
        }
    }

    fn blocked(&self) -> Option<&RenderError> {
        self.blocked.as_ref()
    }

    fn rested(&self) -> BoxFuture<'_, ()> {
        match &self.rendered_by {
            RenderedBy::Manager(_) => Box::pin(std::future::ready(())),
            RenderedBy::Workers { workers, .. } => Box::pin(workers.rested()),
        }
    }

    fn render(&self, request: Request) -> BoxFuture<'_, Result<Rendered, RenderError>> {
        Box::pin(async move {
            let (namespace, inputs) = (request.namespace.clone(), request.inputs.clone());
            let lookup = self.lookup(&namespace);
            let rendered = async {
                let Rendered::Done((output, config)) = self.output(request, &lookup).await? else {
                    return Ok(Rendered::Postponed);
                };
                let (document, most) = (self.document.clone(), self.weight());
                match blocking(move || candidate((output, config), document, &namespace, inputs, most)).await {
                    Err(error) => Err(lookup.redact(error).await),
                    Ok(candidate) => Ok(Rendered::Done(candidate)),
                }
            };
            match rendered.await {
                Ok(Rendered::Done(candidate)) => {
                    Ok(Rendered::Done(Candidate { notes: lookup.hide(candidate.notes).await, ..candidate }))
                }
                Ok(Rendered::Postponed) => Ok(Rendered::Postponed),
                Err(error) => Err(lookup.judge(error)),
            }
        })
    }
}

/// Runs work that may compute for a long time or wait for the cluster.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RenderError> + Send + 'static,
) -> Result<T, RenderError> {
    let interrupted =
        || RenderError::Unanswered { reason: Reason::Unanswered.as_str(), message: "rendering was interrupted".into() };
    outside::apart(work).await.ok_or_else(interrupted)?
}

/// Returns why the chart cannot be rendered with any values: its own schema refers to a document that was not read.
/// Subcharts are ignored, because they may be disabled.
fn blocked(chart: &Chart, rule: &SchemaRule) -> Option<RenderError> {
    let unread = chart.unread_schemas().into_iter().find(|unread| unread.chart == chart.metadata.name && !rule.skip)?;
    Some(RenderError::Failed { reason: Reason::ExternalSchema.as_str(), message: explain(&unread) })
}

/// A render in this process.
struct Here {
    engine: Arc<Analysed>,
    capabilities: Arc<Capabilities>,
    lookup: Arc<ClusterLookup>,
    skip_schema: bool,
}

impl Here {
    fn render(self, values: &Map, request: &Request) -> Result<Output, RenderError> {
        let release = release_options(&request.name, &request.namespace, request.revision);
        let (lookup, skip_schema) = (Some(Arc::new(Blocking(self.lookup)) as Arc<dyn Lookup>), self.skip_schema);
        let capabilities = &*self.capabilities;
        let request = engine::Request { values, release: &release, capabilities, lookup, skip_schema };
        Ok(self.engine.rendered(&request)?)
    }
}

fn candidate(
    (output, config): (Output, serde_json::Value),
    chart: Arc<ChartDocument>,
    namespace: &str,
    inputs: String,
    most: u64,
) -> Result<Candidate, RenderError> {
    let Output { manifest, hooks, notes, crds: files, unread } = output;
    let mut weight = Weight::of(most);
    let objects = weight.objects_of(&manifest);
    let (objects, duplicates) = objects.and_then(|all| in_order(all, namespace)).map_err(|e| unusable(&e, most))?;
    // Other errors in hooks are found when they run.
    let heavy = hooks.iter().find_map(|hook| weight.objects_of(&hook.manifest).err().filter(|e| e.fault.is_weight()));
    heavy.map_or(Ok(()), |error| Err(unusable(&error, most)))?;
    let mut crds = Vec::new();
    for (path, text) in files {
        let found = weight.objects_of(&text).map_err(|e| ObjectError { template: path.as_str().into(), ..e });
        crds.extend(found.map_err(|e| unusable(&e, most))?);
    }
    Ok(Candidate { chart, config, manifest, objects, hooks, notes, crds, duplicates, unread, inputs })
}

/// Returns the objects of exactly the text that the record keeps, in install order.
pub(crate) fn release_objects(manifest: &str, namespace: &str) -> Result<(Vec<Object>, Vec<Duplicate>), ObjectError> {
    in_order(objects_of(manifest)?, namespace)
}

fn in_order(objects: Vec<Object>, namespace: &str) -> Result<(Vec<Object>, Vec<Duplicate>), ObjectError> {
    objects.iter().try_for_each(|object| object.check_name().and_then(|()| object.check_annotations()))?;
    let (mut objects, duplicates) = deduplicate(objects, namespace);
    install_order(&mut objects);
    Ok((objects, duplicates))
}

fn unusable(error: &ObjectError, most: u64) -> RenderError {
    if error.fault.is_weight() {
        return RenderError::Failed { reason: Reason::RenderLimit.as_str(), message: too_heavy(most) };
    }
    RenderError::Failed { reason: "RenderError", message: error.to_string() }
}

/// Returns an applier for a release in this namespace.
pub(crate) fn acting_as(applier: &Applier, account: Option<&ServiceAccount>, namespace: &str) -> Applier {
    account.map_or_else(|| applier.clone(), |account| applier.acting_as(&account.user(namespace)))
}

#[cfg(test)]
mod tests {
    use controller::runtime::priority::Priority;
    use helm::chart::Crd;
    use helm::engine::Rendered;
    use helm::manifest::{Head, Manifest};
    use helm_release::kube::{Disturbance, Error, MemoryApi};

    use super::*;
    use crate::rendering::settling::SETTLES;

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
        let document = Arc::new(ChartDocument::from_json("{}").unwrap());
        candidate((rendered.into(), json!({})), document, "ns", "digest".into(), 64 << 20)
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
    fn objects_that_take_too_much_memory_are_refused_whatever_the_worker_said() {
        let within = |manifest: &str, hooks: Vec<&str>, most| {
            let hook = |text: &&str| helm_release::release::Hook { manifest: (*text).to_owned(), ..Default::default() };
            let output =
                Output { manifest: manifest.to_owned(), hooks: hooks.iter().map(hook).collect(), ..Output::default() };
            let document = Arc::new(ChartDocument::from_json("{}").unwrap());
            candidate((output, json!({})), document, "ns", "digest".into(), most)
                .map(drop)
                .map_err(|e| (e.reason(), e.to_string()))
        };
        let heavy = format!("{}\nlist: [{}1]", map("name: a", "1"), "1,".repeat(50_000));
        assert_eq!(within(&heavy, vec![], 16 << 20), Ok(()));
        let refused = Err((Reason::RenderLimit.as_str(), too_heavy(1 << 20)));
        assert_eq!(within(&heavy, vec![], 1 << 20), refused);
        assert_eq!(within(&map("name: a", "1"), vec![&heavy], 1 << 20), refused);
        assert_eq!(within(&map("name: a", "1"), vec!["kind: X"], 1 << 20), Ok(()), "found when it runs");
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
        let request = Request {
            name,
            namespace,
            spec: Spec::new(spec),
            overrides_type: OverrideValuesType::Typed,
            revision,
            inputs: inputs.clone(),
            priority: Priority::Normal,
        };
        let candidate = renderer.render(request).await?.done().unwrap();
        assert_eq!(candidate.inputs, inputs);
        Ok(candidate.manifest)
    }

    #[tokio::test]
    async fn a_render_names_values_that_no_template_reads() {
        let (_, renderer) = renderer("# {{ .Values.size }}").await;
        let spec = Spec::new(r#"{"szie": 2}"#);
        let (name, namespace, inputs) = ("web".into(), "ns".into(), String::new());
        let request = Request {
            name,
            namespace,
            spec,
            revision: 1,
            inputs,
            priority: Priority::Normal,
            overrides_type: OverrideValuesType::Typed,
        };
        let unread = renderer.render(request).await.unwrap().done().unwrap().unread;
        let texts: Vec<String> = unread.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["auth", "szie; did you mean \"size\"?"]);
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
        assert!(first.contains("text: 'web 1 false fixed 37 false'"), "{first}");
        let second = rendered(&renderer, "{\"auth\": {\"password\": \"mine\"}}", 2).await.unwrap();
        assert!(second.contains("text: 'web 2 true fixed 37 false'"), "{second}");
        server.serve("example.com/v1", "Kind", "kinds");
        renderer.discovered.applier.mapper.resource("example.com/v1", "Kind").await.unwrap();
        let third = rendered(&renderer, "{}", 3).await.unwrap();
        assert!(third.contains("text: 'web 3 true fixed 37 true'"), "{third}");
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_that_alternate_change_no_chart_that_renders_on_them_once_they_have_settled() {
        let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  \
            text: '{{ .Capabilities.APIVersions.Has \"example.com/v1/Kind\" }}'";
        let (server, renderer) = renderer(template).await;
        let renderer = renderer.rendering_on(RenderOn { capabilities: true });
        let has_kind = async || rendered(&renderer, "{}", 1).await.unwrap().contains("text: 'true'");
        let known = || (renderer.capabilities(), renderer.are_capabilities_settled());
        let find = async |is_served: bool| {
            tokio::time::advance(SETTLES / 10).await;
            match is_served {
                true => server.serve("example.com/v1", "Kind", "kinds"),
                false => server.change(|server| _ = server.remove_kind("example.com/v1", "Kind")),
            }
            renderer.discovered.applier.mapper.refresh().await.unwrap();
            known()
        };
        assert!(!has_kind().await);
        let (without, is_settled) = known();
        assert!(!is_settled);
        for at in 0..9 {
            let (now, is_settled) = find(at % 2 == 0).await;
            assert_eq!((now == without, is_settled), (at % 2 == 1, false), "{at}: the last discovery counts");
        }
        let settled = find(false).await;
        assert!(settled.0 != without && settled.1 && has_kind().await);
        for at in 0..30 {
            assert_eq!(find(at % 2 == 0).await, settled, "{at}");
        }
        for at in 0..9 {
            assert_eq!(find(false).await, settled, "{at}");
        }
        assert!(has_kind().await);
        let gone = find(false).await;
        assert_eq!(gone, (without, true));
        assert!(!has_kind().await);
        assert_eq!(find(true).await, gone, "once");
        assert!(!has_kind().await);
        server.refuse(|call| call.path.starts_with("/api").then(|| Error::from_status(503, "", "away")));
        tokio::time::advance(SETTLES).await;
        renderer.discovered.applier.mapper.refresh().await.unwrap_err();
        server.accept();
        assert_eq!(find(true).await, gone, "the time of an outage shows nothing");
        assert!(!has_kind().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_chart_that_asks_for_a_kind_of_a_silent_server_is_judged_once_that_has_answered() {
        let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  \
            text: '{{ .Capabilities.APIVersions.Has \"example.com/v1/Kind\" }}'";
        for render_on in [RenderOn::default(), RenderOn { capabilities: true }] {
            let (server, renderer) = renderer(template).await;
            let renderer = renderer.rendering_on(render_on);
            server.serve_stale("example.com/v1");
            for _ in 0..20 {
                tokio::time::advance(SETTLES / 10).await;
                let error = rendered(&renderer, "{}", 1).await.unwrap_err();
                assert!(matches!(&error, RenderError::Unanswered { reason: "Unanswered", .. }), "{error:?}");
                assert!(error.to_string().contains("APIService \"v1.example.com\" does not answer"), "{error}");
            }
            assert_eq!(renderer.are_capabilities_settled(), render_on.capabilities);
            server.serve("example.com/v1", "Kind", "kinds");
            tokio::time::advance(SETTLES / 10).await;
            let found = rendered(&renderer, "{}", 1).await.unwrap();
            assert!(found.contains("text: 'true'"), "{render_on:?}: {found}");
        }
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
        assert!(refused.to_string().contains("lookup: {namespaces: [far]} in watches.yaml opens it"), "{refused}");
        let opened = renderer.reaching(&LookupRule { namespaces: ["far".to_owned()].into(), ..LookupRule::default() });
        assert!(rendered(&opened, &read("far").to_string(), 1).await.unwrap().contains("x: \"of far\""));
    }

    const GUARDED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: {{ dig \"data\" \"k\" \"new\" (lookup \"v1\" \"ConfigMap\" \"ns\" \"guard\") | quote }}}";

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lookup_that_is_not_answered_judges_no_chart() {
        let (server, renderer) = renderer(GUARDED).await;
        let unanswered = |error: &RenderError| matches!(error, RenderError::Unanswered { .. });
        for code in [500, 503, 429, 403] {
            server.refuse(move |call| call.path.ends_with("/guard").then(|| Error::from_status(code, "", "no answer")));
            let error = rendered(&renderer, "{}", 1).await.unwrap_err();
            assert!(unanswered(&error) && error.to_string().ends_with("error calling lookup: no answer"), "{error}");
            let expected = if code == 403 { "RenderError" } else { "Unanswered" };
            assert_eq!(error.reason(), expected);
            server.accept();
        }
        server.disturb("/guard", 1, Disturbance::Unreachable);
        assert!(unanswered(&rendered(&renderer, "{}", 1).await.unwrap_err()));
        assert!(rendered(&renderer, "{}", 1).await.unwrap().contains("x: \"new\""));
    }

    #[tokio::test]
    async fn a_chart_sees_no_server_without_kinds_before_the_first_discovery() {
        let (server, renderer) = renderer("{{ fail (.Capabilities.APIVersions.Has \"v1\" | toString) }}").await;
        server.disturb("GET /api", 1, Disturbance::Refused(503));
        let error = rendered(&renderer, "{}", 1).await.unwrap_err();
        assert!(error.to_string().starts_with("cannot read which kinds are served: "), "{error}");
        assert!(matches!(error, RenderError::Unanswered { .. }));
        server.accept();
        let error = rendered(&renderer, "{}", 1).await.unwrap_err();
        assert!(error.to_string().ends_with("true"), "{error}");
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
        let failed = async |spec: &str| rendered(&renderer, spec, 1).await.unwrap_err().reason();
        assert_eq!(failed("{}").await, "RenderError");
        assert_eq!(failed(r#"{"size": "large"}"#).await, "InvalidValues");
        assert_eq!(failed("[]").await, "InvalidValues");
    }
}
