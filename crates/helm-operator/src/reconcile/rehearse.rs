//! Rehearses the next reconcile of a resource: runs it against a client that writes nothing, and sorts what it would
//! write.

use std::sync::Arc;

use controller::client::rehearsal::{Rehearsal, Write};
use controller::runtime::key::ResourceKey;
use controller::runtime::priority::Priority;
use futures::future::{BoxFuture, FutureExt as _};
use helm::manifest::HOOK_ANNOTATION;
use helm::sequence::Turn;
use helm_release::kube::{Error as ApiError, ObjectKey};
use helm_release::storage::{MarkedObject, SECRET_TYPE};
use scaffold::annotations::PREFIX;
use serde_json::{Value, json};

use super::controller_context::ControllerContext;
use super::reconcile;
use super::step_context::StepContext;
use crate::mask::Mask;
use crate::plan::{Change, Name, Plan, Resource, plan};
use crate::view::primary::Received;
use crate::view::release::ReleaseRecords;
use outside::group_of;

/// The plan of a resource, and what must not be shown of it.
pub(crate) struct Rehearsed {
    pub(crate) plan: Plan,
    /// Redacts the contents of Secrets, and override values, which may come from the operator's environment.
    pub(crate) mask: Mask,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the resource is invalid")]
    Invalid(#[from] serde_json::Error),
    #[error(transparent)]
    Name(#[from] ApiError),
    #[error("the objects that would be written take too much memory to plan here: use helm-operator diff")]
    TooLarge,
}

/// Plans the next reconcile of a resource, which may differ from the one in the cluster, or exist only here.
/// The controller must write nothing: one of a process that only rehearses, or a [twin](ControllerContext::twin).
/// Records objects of about `memory` bytes, and makes no plan of more.
pub(crate) fn rehearse(
    shared: &ControllerContext,
    mut resource: Value,
    priority: Priority,
    memory: usize,
) -> BoxFuture<'_, Result<Rehearsed, Error>> {
    // The annotation requests the plan that is made here.
    if let Some(annotations) = resource["metadata"]["annotations"].as_object_mut() {
        annotations.remove(&format!("{PREFIX}dry-run"));
    }
    async move {
        let text = |field: &str| resource["metadata"][field].as_str().unwrap_or_default();
        let path = shared.resource.path(text("namespace"), text("name"))?;
        // The answer to a dry run that creates a resource has no version.
        let exists = !text("resourceVersion").is_empty();
        let rehearsal = Arc::new(Rehearsal::new(settle).within(memory));
        rehearsal.put(&path, resource);
        let now = || rehearsal.object(&path).unwrap_or_default();
        // Its version is newer than what watches have shown.
        let received: Received = serde_json::from_value(now())?;
        let key = shared.acceptance.key_of(&received.primary);
        let release = shared.cache.release(&key).unwrap_or_default();
        let work = async {
            shared.primary_written(received);
            _ = reconcile(shared, &key, &(), priority).await;
        };
        rehearsal.record(work).await;
        if rehearsal.is_too_large() {
            return Err(Error::TooLarge);
        }
        let (writes, object) = (rehearsal.take_writes(), now());
        // It repeats what the writes contain.
        drop(rehearsal);
        let mut plan = plan(Resource { object: &object, path: &path, exists }, &writes);
        let after = shared.cache.release(&key).unwrap_or_default();
        plan.changes.iter_mut().for_each(|change| change.round = round(change, &after, &release));
        plan.changes.extend(kept(&release, &after));
        Ok(Rehearsed { plan, mask: mask(shared, &key, &writes).await })
    }
    .boxed()
}

/// Returns a mask that redacts the contents of Secrets, and override values.
async fn mask(shared: &ControllerContext, key: &ResourceKey, writes: &[Write]) -> Mask {
    let mut mask = Mask::default();
    if let Some(primary) = shared.cache.primary(key) {
        let context = StepContext::new(shared, key, &());
        // A source that cannot be read has already failed the reconcile.
        let sources = context.load_sources(&primary).await.ok();
        mask = context.knowing(&sources).secrets_and_overrides();
    }
    writes.iter().flat_map(objects).filter(|object| is_secret(object)).for_each(|secret| mask.add_data(secret));
    mask
}

/// Returns the round in which an object is applied, or was if it is deleted.
fn round(change: &Change, after: &ReleaseRecords, before: &ReleaseRecords) -> Option<u16> {
    let Name { api_version, kind, namespace, name } = &change.object;
    let group = group_of(api_version);
    let key = ObjectKey::new(group, kind, namespace, name);
    let turn = |release: &ReleaseRecords| Some(release.newest()?.1.marks.as_ref()?.find(&key)?.turn);
    turn(after).or_else(|| turn(before)).map(Turn::round).filter(|round| *round > 0)
}

/// Returns the objects that leave the release and stay, which takes no write.
fn kept(before: &ReleaseRecords, after: &ReleaseRecords) -> Vec<Change> {
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
