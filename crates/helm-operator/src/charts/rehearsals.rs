//! Plans the next reconcile of a resource: runs it against a client that writes nothing, and sorts what it would write.

use std::sync::Arc;
use std::time::Duration;

use controller::client::rehearsal::{Rehearsal, Write};
use controller::context::Context;
use controller::runtime::key::ResourceKey;
use controller::runtime::priority::Priority;
use helm::manifest::HOOK_ANNOTATION;
use helm::sequence::Turn;
use helm_release::kube::{Call, Error as ApiError, ObjectKey, Resource};
use helm_release::storage::{MarkedObject, SECRET_TYPE};
use kube::Client;
use kube::core::SelectorExt as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::config::ChartConfig;
use crate::mask::Mask;
use crate::plan::{Change, Name, Plan, plan};
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::progression::outline;
use crate::reconcile::reconcile;
use crate::reconcile::step_context::StepContext;
use crate::record_key;
use crate::view::primary::Received;
use crate::view::release::Release;

/// How often to look whether the objects of a release are listed. A controller limits the wait.
const LISTING: Duration = Duration::from_millis(20);

/// The chart controllers of a process that only rehearses, once they have listed everything.
#[derive(Default)]
pub(crate) struct Rehearsals {
    is_on: bool,
    ready: watch::Sender<Vec<Arc<ControllerContext>>>,
}

/// The plan of a resource, and what must not be shown of it.
pub(crate) struct Rehearsed {
    pub(crate) plan: Plan,
    /// Redacts the contents of Secrets, and override values, which may come from the operator's environment.
    pub(crate) mask: Mask,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The resource cannot be read as one of its kind.
    #[error("the resource is invalid")]
    Invalid(#[from] serde_json::Error),
    /// It has no name that a path can contain.
    #[error(transparent)]
    Name(#[from] ApiError),
}

impl Rehearsals {
    /// Makes the process only rehearse.
    pub(crate) fn on() -> Rehearsals {
        Rehearsals { is_on: true, ..Rehearsals::default() }
    }

    /// Returns those of this process, which are off by default.
    pub(crate) fn of(context: &Context) -> Arc<Rehearsals> {
        context.part(|_| Rehearsals::default())
    }

    /// Returns whether controllers reconcile nothing by themselves.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
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
    /// Returns the kind of the resources.
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
        let text = |field: &str| resource["metadata"][field].as_str().unwrap_or_default();
        let path = shared.resource.path(text("namespace"), text("name"))?;
        let rehearsal = Arc::new(Rehearsal::new(settle));
        rehearsal.put(&path, resource);
        let now = || rehearsal.object(&path).unwrap_or_default();
        // Its version is newer than what watches have shown.
        let received: Received = serde_json::from_value(now())?;
        let key = shared.acceptance.key_of(&received.primary);
        while shared.cache.is_listing(&key) {
            tokio::time::sleep(LISTING).await;
        }
        let release = shared.cache.release(&key).unwrap_or_default();
        let primary = &received.primary;
        // A plan says what is to come, whatever it waits for.
        shared.dependencies.forget(&shared.user(primary.own_namespace(), primary.name()));
        let work = async {
            shared.primary_written(received);
            _ = reconcile(shared, &key, &(), Priority::Normal).await;
        };
        rehearsal.record(work).await;
        let writes = rehearsal.writes();
        let mut plan = plan(&now(), &path, &writes);
        let after = shared.cache.release(&key).unwrap_or_default();
        plan.changes.iter_mut().for_each(|change| change.round = round(change, &after, &release));
        plan.changes.extend(kept(&release, &after));
        Ok(Rehearsed { plan, mask: mask(shared, &key, &writes).await })
    }
}

/// Returns whether the key exists that proves the operator's release records.
///
/// # Errors
/// The Secret cannot be read.
pub(crate) async fn has_key(client: &Client, config: &ChartConfig) -> Result<bool, ApiError> {
    let path = record_key::path(config.own_namespace(client));
    match outside::Api::send(client, Call::metadata(path)).await {
        Err(error) if error.is_missing_object() => Ok(false),
        read => read.map(|_| true),
    }
}

/// Returns a mask that redacts the contents of Secrets, and override values.
async fn mask(shared: &ControllerContext, key: &ResourceKey, writes: &[Write]) -> Mask {
    let mut mask = Mask::default();
    if let Some(primary) = shared.cache.primary(key) {
        let context = StepContext::new(shared, key, &());
        // A source that cannot be read has failed the reconcile, too.
        let sources = context.load_sources(&primary).await.ok();
        mask = context.knowing(&sources).secrets_and_overrides();
    }
    writes.iter().flat_map(objects).filter(|object| is_secret(object)).for_each(|secret| mask.add_data(secret));
    mask
}

/// Returns the round in which an object is applied, or was if it is deleted.
fn round(change: &Change, after: &Release, before: &Release) -> Option<u16> {
    let Name { api_version, kind, namespace, name } = &change.object;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let key = ObjectKey::new(group, kind, namespace, name);
    let turn = |release: &Release| Some(release.newest()?.1.marks.as_ref()?.find(&key)?.turn);
    turn(after).or_else(|| turn(before)).map(Turn::round).filter(|round| *round > 0)
}

/// Returns the objects that leave the release and stay, which takes no write.
fn kept(before: &Release, after: &Release) -> Vec<Change> {
    let (Some(old), Some(new)) = (before.deployed_marks(), after.deployed_marks()) else { return Vec::new() };
    let is_left = |one: &&MarkedObject| one.kept && !new.objects.iter().any(|other| other.key == one.key);
    let name = |one: &MarkedObject| Name {
        api_version: one.api_version.to_string(),
        kind: one.key.kind.to_string(),
        namespace: one.key.namespace.to_string(),
        name: one.key.name.to_string(),
    };
    old.objects.iter().filter(is_left).map(|one| Change::kept(name(one))).collect()
}

fn objects(write: &Write) -> impl Iterator<Item = &Value> {
    write.before.iter().chain(write.after.as_ref().ok().and_then(Option::as_ref))
}

/// Returns whether an object is a Secret other than a release record, which only repeats known contents.
fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["type"] != SECRET_TYPE
}

/// Completes what a reconcile waits for: Jobs and Pods of hooks succeed, and definitions are established.
fn settle(object: &mut Value) {
    let is_hook = object["metadata"]["annotations"][HOOK_ANNOTATION].is_string();
    let holds = |kind: &str| json!({"type": kind, "status": "True", "reason": "Rehearsed", "message": ""});
    let status = match object["kind"].as_str().unwrap_or_default() {
        "Job" if is_hook => json!({"succeeded": 1, "conditions": [holds("SuccessCriteriaMet"), holds("Complete")]}),
        "Pod" if is_hook => json!({"phase": "Succeeded"}),
        "CustomResourceDefinition" => json!({"conditions": [holds("NamesAccepted"), holds("Established")]}),
        _ => return,
    };
    object["status"] = status;
}
