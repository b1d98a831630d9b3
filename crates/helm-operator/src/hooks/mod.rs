//! Rust code that an operator's author runs around a chart: value mappers, post-renderers, and hooks around installs
//! and upgrades. The chart's own hooks are run by `helm_release` instead.
//!
//! Async closures implement all of these traits. Counterparts: helm-operator-plugins' `pkg/hook` and `pkg/values`.

pub(crate) mod extensions;

use std::future::Future;
use std::sync::Arc;

use controller::events::{self, Events};
use controller::metrics::Metrics;
use controller::report::Outcome;
use futures::future::{BoxFuture, FutureExt as _};
use helm_release::kube::objects_of;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::{DynamicObject, TypeMeta};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The cause of a failed hook or mapper.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Computes the values of a chart.
///
/// It runs in each reconcile: when the resource or something of its release changed, when a
/// [watch](crate::charts::ChartController::watch) wakes it, and once per period. A result that differs from the
/// deployed revision's values is an upgrade, so equal inputs must give equal values: no clock, no random numbers. A
/// failure is reported in the resource's condition, with the reason `ValueMappingFailed`, and is retried.
pub trait ValueMapper: Send + Sync {
    /// Returns the values to render with, as a map.
    fn map(&self, mapping: Mapping) -> BoxFuture<'_, Result<Value, Error>>;
}

/// Runs before each install and upgrade, once a render has shown that the objects change. Hooks run in the order in
/// which they were added, and again when an attempt is repeated, so they must be idempotent. Dropped at any `.await`
/// when the process must stop at once.
///
/// As in upstream, a failed hook is logged and ignored. To change values, use a [`ValueMapper`]: the operator must know
/// them before it can determine whether anything changed.
pub trait PreHook: Send + Sync {
    /// Runs the hook.
    fn run(&self, before: Before) -> BoxFuture<'_, Result<(), Error>>;
}

/// Runs after each successful install and upgrade, before the status is written. It does not run again if the process
/// ends first. As in upstream, a failed hook is logged and ignored.
pub trait PostHook: Send + Sync {
    /// Runs the hook.
    fn run(&self, after: After) -> BoxFuture<'_, Result<(), Error>>;
}

/// Changes what a chart rendered, before anything is compared or applied.
///
/// Equal manifests must give equal results. As in Helm since 4.2, it also sees the chart's hooks, but not the custom
/// resource definitions below `crds/`. An object is a hook if it has the annotation `helm.sh/hook` in the result. A
/// failure is reported in the resource's condition, with the reason `PostRenderFailed`, and is retried.
pub trait PostRenderer: Send + Sync {
    /// Returns the manifest to apply and to record, with the hooks.
    fn render(&self, rendered: PostRender) -> BoxFuture<'_, Result<String, Error>>;
}

/// The input of a post-renderer.
#[derive(Clone)]
pub struct PostRender {
    /// The custom resource, without its status.
    pub resource: DynamicObject,
    /// The objects, then the hooks, as YAML documents, each with the comment `# Source: chart/templates/file.yaml`.
    pub manifest: String,
}

/// The input of a value mapper.
#[derive(Clone)]
pub struct Mapping {
    /// The custom resource, without its status.
    pub resource: DynamicObject,
    /// The values so far: the resource's `spec` merged over its `valuesFrom`, as changed by earlier mappers. Override
    /// values are merged over the result.
    pub values: Value,
    /// The process's client.
    pub client: Client,
    pub(crate) voice: Voice,
}

/// The input of a hook before an install or upgrade.
#[derive(Clone)]
pub struct Before {
    /// The custom resource, without its status.
    pub resource: DynamicObject,
    /// The values that the chart was rendered with, including override values.
    pub values: Value,
    /// The deployed revision; `None` before the first install.
    pub deployed: Option<u32>,
    /// The process's client.
    pub client: Client,
    pub(crate) voice: Voice,
}

/// The input of a hook after an install or upgrade.
#[derive(Clone)]
pub struct After {
    /// The custom resource, without its status.
    pub resource: DynamicObject,
    /// The release that was just deployed.
    pub release: DeployedRevision,
    /// The process's client.
    pub client: Client,
    pub(crate) voice: Voice,
}

/// A deployed revision of a release.
#[derive(Clone, Debug)]
pub struct DeployedRevision {
    /// The release's name, which is the custom resource's.
    pub name: String,
    /// The release's namespace.
    pub namespace: String,
    /// The revision's number, starting at 1.
    pub revision: u32,
    /// The objects as YAML documents, in apply order, without the chart's hooks.
    pub manifest: String,
}

impl DeployedRevision {
    /// Returns the objects as the chart rendered them, without what the server added.
    pub fn objects(&self) -> Vec<DynamicObject> {
        let rendered = objects_of(&self.manifest).unwrap_or_default();
        rendered.into_iter().filter_map(|object| serde_json::from_value(object.body).ok()).collect()
    }

    /// Returns the first object of a kind with this name, such as `release.object::<Deployment>("web")`.
    pub fn object<K: Resource<DynamicType = ()> + DeserializeOwned>(&self, name: &str) -> Option<K> {
        let kind = TypeMeta::resource::<K>();
        let mut objects = self.objects().into_iter();
        objects.find(|object| object.types.as_ref() == Some(&kind) && object.name_any() == name)?.try_parse().ok()
    }
}

/// Publishes outcomes about one resource.
#[derive(Clone)]
pub(crate) struct Voice {
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) controller: Arc<str>,
    pub(crate) resource: ObjectReference,
}

impl Voice {
    fn publish(&self, outcome: Outcome) {
        events::publish(&self.metrics, &self.events, &self.controller, self.resource.clone(), outcome);
    }
}

impl Mapping {
    /// Counts an outcome that the resource's users should know, and publishes it as an event in the background.
    pub fn publish(&self, outcome: Outcome) {
        self.voice.publish(outcome);
    }
}

impl Before {
    /// Counts an outcome that the resource's users should know, and publishes it as an event in the background.
    pub fn publish(&self, outcome: Outcome) {
        self.voice.publish(outcome);
    }
}

impl After {
    /// Counts an outcome that the resource's users should know, and publishes it as an event in the background.
    pub fn publish(&self, outcome: Outcome) {
        self.voice.publish(outcome);
    }
}

impl<F, R> ValueMapper for F
where
    F: Fn(Mapping) -> R + Send + Sync,
    R: Future<Output = Result<Value, Error>> + Send + 'static,
{
    fn map(&self, mapping: Mapping) -> BoxFuture<'_, Result<Value, Error>> {
        self(mapping).boxed()
    }
}

impl<F, R> PreHook for F
where
    F: Fn(Before) -> R + Send + Sync,
    R: Future<Output = Result<(), Error>> + Send + 'static,
{
    fn run(&self, before: Before) -> BoxFuture<'_, Result<(), Error>> {
        self(before).boxed()
    }
}

impl<F, R> PostHook for F
where
    F: Fn(After) -> R + Send + Sync,
    R: Future<Output = Result<(), Error>> + Send + 'static,
{
    fn run(&self, after: After) -> BoxFuture<'_, Result<(), Error>> {
        self(after).boxed()
    }
}

impl<F, R> PostRenderer for F
where
    F: Fn(PostRender) -> R + Send + Sync,
    R: Future<Output = Result<String, Error>> + Send + 'static,
{
    fn render(&self, rendered: PostRender) -> BoxFuture<'_, Result<String, Error>> {
        self(rendered).boxed()
    }
}
