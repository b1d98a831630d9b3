//! The chart controllers of a process that only rehearses, for plans of any resource.

use std::sync::Arc;
use std::time::Duration;

use controller::context::Context;
use controller::runtime::key::ResourceKey;
use controller::runtime::priority::Priority;
use helm_release::kube::{Call, Error as ApiError, Resource};
use kube::Client;
use kube::core::SelectorExt as _;
use serde_json::Value;
use tokio::sync::watch;

use super::config::ChartConfig;
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::progression::outline;
use crate::reconcile::rehearse::rehearse;
pub(crate) use crate::reconcile::rehearse::{Error, Rehearsed};
use crate::record_key;
use crate::view::primary::Received;

/// How often to check whether the objects of a release are listed. A controller limits the wait.
const LISTING: Duration = Duration::from_millis(20);

/// The chart controllers of a process that only rehearses, once they have listed everything.
#[derive(Default)]
pub(crate) struct Rehearsals {
    /// Whether controllers reconcile nothing by themselves.
    pub(super) is_on: bool,
    ready: watch::Sender<Vec<Arc<ControllerContext>>>,
}

impl Rehearsals {
    /// Makes the process only rehearse.
    pub(crate) fn on() -> Rehearsals {
        Rehearsals { is_on: true, ..Rehearsals::default() }
    }

    /// Returns the process's rehearsals, which are off by default.
    pub(crate) fn of(context: &Context) -> Arc<Rehearsals> {
        context.part(|_| Rehearsals::default())
    }

    /// Adds a controller that has listed everything.
    pub(crate) fn add(&self, controller: Arc<ControllerContext>) {
        self.ready.send_modify(|ready| ready.push(controller));
    }

    /// Waits for the controller of a kind; returns `None` if the process ends.
    pub(crate) async fn planner(&self, api_version: &str, kind: &str) -> Option<Planner> {
        let is_it =
            |one: &&Arc<ControllerContext>| *one.resource.api_version == *api_version && *one.resource.kind == *kind;
        let mut ready = self.ready.subscribe();
        let ready = ready.wait_for(|ready| ready.iter().any(|one| is_it(&one))).await.ok()?;
        ready.iter().find(is_it).cloned().map(Planner)
    }
}

/// Plans for the resources of one kind.
#[derive(Clone)]
pub(crate) struct Planner(Arc<ControllerContext>);

impl Planner {
    pub(crate) fn kind(&self) -> &Resource {
        &self.0.resource
    }

    /// Returns in which steps a change reaches these resources; `None` if there are no steps.
    pub(crate) fn steps(&self, resources: &[&Value]) -> Option<Vec<(String, Vec<ResourceKey>)>> {
        let rule = self.0.settings.rollout.as_deref()?;
        let is_canary = |one: &&&Value| {
            let labels = serde_json::from_value(one["metadata"]["labels"].clone()).unwrap_or_default();
            rule.canary.as_ref().is_some_and(|canary| canary.matches(&labels))
        };
        let text = |one: &Value, field: &str| one["metadata"][field].as_str().unwrap_or_default().to_owned();
        let keys = |some: Vec<&&Value>| {
            let mut keys: Vec<ResourceKey> =
                some.iter().map(|one| ResourceKey::new(&text(one, "namespace"), &text(one, "name"))).collect();
            keys.sort();
            keys
        };
        let (canaries, others) = resources.iter().partition::<Vec<&&Value>, _>(is_canary);
        Some(outline(&keys(canaries), &keys(others), rule))
    }

    /// Plans the next reconcile of a resource, which may differ from the one in the cluster, or exist only here. As in
    /// a process that has just started, nothing waits for an earlier failure or for another resource's upgrade.
    ///
    /// # Errors
    /// The resource is invalid.
    pub(crate) async fn plan(&self, resource: Value) -> Result<Rehearsed, Error> {
        let shared = &*self.0;
        let received: Received = serde_json::from_value(resource.clone())?;
        let (primary, key) = (&received.primary, shared.acceptance.key_of(&received.primary));
        while shared.cache.is_listing(&key) {
            tokio::time::sleep(LISTING).await;
        }
        // A plan shows what will happen, whatever the resource waits for.
        shared.dependencies.forget(&shared.user(primary.own_namespace(), primary.name()));
        // This process only rehearses, so a plan may take all its memory.
        rehearse(shared, resource, Priority::Normal, usize::MAX).await
    }
}

/// Returns whether the key exists that proves the operator's release records.
pub(crate) async fn has_key(client: &Client, config: &ChartConfig) -> Result<bool, ApiError> {
    let path = record_key::path(config.own_namespace(client));
    match outside::Api::send(client, Call::metadata(path)).await {
        Err(error) if error.is_missing_object() => Ok(false),
        read => read.map(|_| true),
    }
}
