//! Previews what another version of a chart would change in the releases of running controllers, without writing
//! anything. `run --reload` prints the preview before it serves a saved chart.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use controller::context::Context;
use controller::report::chain;
use controller::runtime::served_kinds::ServedKinds;
use helm::chart::Chart;
use helm::engine::Engine;
use helm_release::kube::objects_of;
use kube::core::GroupVersionKind;
use outside::sync::lock;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use super::chart_controller::Source;
use super::cluster::Cluster;
use super::start::renderer;
use crate::mask::Mask;
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::failure::{Failed, Unanswered};
use crate::reconcile::step_context::StepContext;
use crate::rendering::request::{Rendered, Renderer};
use crate::status::reason::Reason;
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;
use crate::watches::Watch;

/// How long a saved chart waits for its preview.
const LIMIT: Duration = Duration::from_secs(2);

/// The running controllers, for previews of their releases.
#[derive(Default)]
pub(crate) struct Previews(Mutex<Vec<Served>>);

/// A running controller. Small, because every process keeps them, whether it previews or not.
#[derive(Clone)]
struct Served {
    kind: GroupVersionKind,
    cluster: Arc<Cluster>,
    served: Arc<ServedKinds>,
    shared: Weak<ControllerContext>,
    runtime: Handle,
}

/// A preview of one release: what the chart changes in it.
pub(crate) struct ReleasePreview {
    /// The resource, as `default/a`.
    pub(crate) name: String,
    /// The documents of the deployed manifest and of its hooks.
    pub(crate) before: Vec<String>,
    /// What the chart renders now, or the reason why it cannot; `None` if there was no time.
    pub(crate) after: Option<Result<Vec<String>, String>>,
    /// Redacts the contents of Secrets and override values.
    pub(crate) mask: Mask,
}

impl Previews {
    /// Returns the running chart controllers of this process.
    pub(crate) fn of(context: &Context) -> Arc<Previews> {
        context.part(|_| Previews::default())
    }

    pub(crate) fn add(&self, watch: &Watch, context: &Context, shared: &Arc<ControllerContext>) {
        let served = Served {
            kind: watch.gvk(),
            cluster: Cluster::of(context),
            served: context.served.clone(),
            shared: Arc::downgrade(shared),
            runtime: Handle::current(),
        };
        let mut all = lock(&self.0);
        all.retain(|one| one.shared.strong_count() > 0);
        all.push(served);
    }

    /// Renders a chart for the deployed releases of its watch, for at most two seconds. Blocks, so the controllers' own
    /// threads must not call it.
    pub(crate) fn preview(&self, watch: &Watch, chart: Arc<Chart>) -> Vec<ReleasePreview> {
        let Some((shared, Served { cluster, served, runtime, .. })) = self.controller(watch) else { return Vec::new() };
        runtime.block_on(async {
            let source = Source::Engine(Arc::new(Engine::new(chart)), watch.chart.clone());
            match renderer(source, watch, &cluster, &served).await {
                Ok(renderer) => of_all(&shared, &*renderer).await,
                Err(error) => {
                    tracing::debug!(error = chain(&*error), "Cannot preview releases");
                    Vec::new()
                }
            }
        })
    }

    fn controller(&self, watch: &Watch) -> Option<(Arc<ControllerContext>, Served)> {
        let (all, kind) = (lock(&self.0), watch.gvk());
        let one = all.iter().rfind(|one| one.kind == kind)?;
        Some((one.shared.upgrade()?, one.clone()))
    }
}

/// Previews the deployed releases of a controller, ordered by name.
pub(crate) async fn of_all(shared: &ControllerContext, renderer: &dyn Renderer) -> Vec<ReleasePreview> {
    let until = Instant::now() + LIMIT;
    let is_served = |primary: &Arc<Primary>| !primary.deleting && !primary.annotations.leaves_alone();
    let mut primaries: Vec<_> = shared.cache.primaries().into_iter().filter(is_served).collect();
    primaries.sort_by_key(|primary| (primary.namespace().to_owned(), primary.name().to_owned()));
    let mut all = Vec::new();
    for primary in primaries {
        all.extend(of_one(shared, renderer, &primary, until).await);
    }
    all
}

/// Previews one release; returns `None` if nothing is deployed.
async fn of_one(
    shared: &ControllerContext,
    renderer: &dyn Renderer,
    primary: &Primary,
    until: Instant,
) -> Option<ReleasePreview> {
    let key = primary.key();
    let context = StepContext::new(shared, &key, &());
    let version = context.release().as_deref().and_then(ReleaseRecords::deployed).map(|(version, _)| version)?;
    let name = format!("{}/{}", primary.namespace(), primary.name());
    let unknown = || ReleasePreview { name: name.clone(), before: Vec::new(), after: None, mask: Mask::default() };
    let rendered = async {
        let record = shared.storage.get(primary.namespace(), primary.name(), version).await.ok()?.release;
        let record = record.facts();
        let sources = context.load_sources(primary).await;
        let context = context.knowing(&sources);
        let rendered = match sources {
            Ok(_) => render(&context, renderer, primary, version).await,
            Err(failed) => Err(failed),
        };
        let hooks = record.hooks.iter().map(|hook| hook.manifest.clone());
        let before: Vec<String> = std::iter::once(record.manifest.clone()).chain(hooks).collect();
        let after = match rendered {
            Ok(after) => Ok(after),
            Err(failed) => Err(context.redacted(primary, failed.fault().clone()).await.message),
        };
        let mask = mask(&context, before.iter().chain(after.iter().flatten()));
        Some(ReleasePreview { name: name.clone(), before, after: Some(after), mask })
    };
    match timeout_at(until, rendered).await {
        Ok(rendered) => Some(rendered.unwrap_or_else(unknown)),
        Err(_) => Some(unknown()),
    }
}

/// Returns the documents that the renderer produces for a resource.
async fn render(
    context: &StepContext<'_>,
    renderer: &dyn Renderer,
    primary: &Primary,
    version: u32,
) -> Result<Vec<String>, Failed> {
    let request = context.request(primary, version);
    let Rendered::Done(rendered) = renderer.render(request).await? else {
        return Err(Unanswered::with_reason(Reason::Unanswered, "others render".into()).into());
    };
    let candidate = context.decorated(primary, rendered).await?;
    let hooks = candidate.hooks.into_iter().map(|hook| hook.manifest);
    Ok(std::iter::once(candidate.manifest).chain(hooks).collect())
}

/// Returns a mask that redacts the contents of value sources and rendered Secrets, and override values, which may come
/// from the operator's environment.
fn mask<'d>(context: &StepContext<'_>, documents: impl Iterator<Item = &'d String>) -> Mask {
    let mut mask = context.secrets_and_overrides();
    documents.filter_map(|document| objects_of(document).ok()).for_each(|objects| mask.add_objects(&objects));
    mask
}
