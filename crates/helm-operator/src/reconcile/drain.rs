//! Gives a resource up to another shard of the ring, takes over one that comes, and makes sure of a deletion before
//! acting on it.
//!
//! The sharder reassigns a resource as soon as this shard's label is removed, so the write that removes it is the last
//! one, and goes out only when no other is in flight. The release is left unchanged, even in the middle of an action:
//! the next shard continues it from its record, as after a restart.

use std::time::Duration;

use controller::metrics::ReconcileResult;
use controller::report::chain;
use controller::runtime::key::ResourceKey;
use controller::shards::Shard;
use helm_release::kube::{Call, Error};
use helm_release::storage;

use super::controller_context::ControllerContext;
use super::failure::Failed;
use super::step_context::StepContext;
use super::{reread, restore};
use crate::view::primary::{Primary, Received};

/// How long to wait before the next attempt, unless the server refuses each.
const AGAIN: Duration = Duration::from_secs(1);

/// The field manager of the write that removes the labels.
const FIELD_MANAGER: &str = "helm-operator-shard";

/// Requests that the server may refuse, as logs name them.
const GIVE_UP: &str = "give the resource up to another shard";
const TAKE_OVER: &str = "read the records of a resource that came";

/// The reason why a resource that is given up stays.
const UNDONE: &str =
    "the API server accepts the removal of its labels and stores the resource with them, which a webhook may cause";

/// Gives the resource up if the sharder has requested it; returns `None` otherwise.
pub(crate) async fn give_up(shared: &ControllerContext, key: &ResourceKey) -> Option<ReconcileResult> {
    let shard = shared.shard.as_ref()?;
    let primary = shared.cache.primary(key).filter(|primary| primary.is_drained)?;
    if !shard.settled(key).await {
        tracing::info!(resource = %key, "Waiting for a write in flight before the resource goes to another shard");
        return Some(again(shared, key));
    }
    match acknowledge(shared, shard, &primary).await {
        // Its labels are as before, so no event follows.
        Ok(()) if shared.cache.primary_with_uid(key, primary.uid()).is_some_and(|now| now.is_drained) => {
            Some(back_off(shared, key, &primary, GIVE_UP, UNDONE))
        }
        Ok(()) => {
            tracing::info!(resource = %key, "The resource goes to another shard");
            Some(ReconcileResult::Success)
        }
        // It changed a moment ago, or was deleted.
        Err(error) if error.is_not_found() || error.is_conflict() => {
            if let Err(error) = reread::read(shared, key, &primary).await {
                tracing::debug!(resource = %key, error = chain(&error), "Cannot read the resource again");
            }
            Some(again(shared, key))
        }
        Err(error) => {
            let error = StepContext::new(shared, key, &()).refusal(&primary, &error).await;
            Some(back_off(shared, key, &primary, GIVE_UP, &error))
        }
    }
}

/// Waits longer after each refusal, which may last until someone changes the permissions. Warns once of each reason.
fn back_off(
    shared: &ControllerContext,
    key: &ResourceKey,
    primary: &Primary,
    what: &str,
    error: &str,
) -> ReconcileResult {
    let is_there = || shared.cache.has_primary(key, primary.uid());
    let counted = shared.memory.change_if(is_there, key, |memory| {
        let unmoved = memory.unmoved.get_or_insert_default();
        (unmoved.refuse(error), unmoved.wait())
    });
    let Some((is_new, wait)) = counted else { return again(shared, key) };
    match is_new {
        true => tracing::warn!(resource = %key, error, ?wait, "Cannot {what}"),
        false => tracing::debug!(resource = %key, error, ?wait, "Still cannot {what}"),
    }
    shared.queue.push_after(key.clone(), wait);
    ReconcileResult::RequeueAfter
}

async fn acknowledge(shared: &ControllerContext, shard: &Shard, primary: &Primary) -> Result<(), Error> {
    let path = shared.resource.path(primary.namespace(), primary.name())?;
    // Only a ring's labels request this.
    let Some(ring) = shard.ring() else { return Ok(()) };
    let patch = ring.acknowledgement(primary.uid(), primary.resource_version());
    let path = format!("{path}?fieldManager={FIELD_MANAGER}");
    let answer = shared.api.send(Call::merge(path, patch.to_string().into_bytes())).await?;
    shared.primary_written(answer.parse::<Received>()?);
    Ok(())
}

fn again(shared: &ControllerContext, key: &ResourceKey) -> ReconcileResult {
    shared.queue.push_after(key.clone(), AGAIN);
    ReconcileResult::RequeueAfter
}

/// Restores what another shard, or the previous process, remembered of a resource that came after the start: its failed
/// attempts still count, and so does its upgrade. Returns `None` once the resource can be reconciled. A resource whose
/// records cannot be watched can be, because its reconcile only reports that.
pub(crate) async fn catch_up(shared: &ControllerContext, key: &ResourceKey) -> Option<ReconcileResult> {
    let primary = shared.cache.primary(key)?;
    if shared.arrivals.take(key) {
        if let Err(error) = read_records(shared, key).await
            && !shared.cache.is_blind(key)
        {
            shared.arrivals.add(key);
            return Some(back_off(shared, key, &primary, TAKE_OVER, &chain(&error)));
        }
        restore::restore_late(shared, key);
    }
    if shared.shard.is_some() {
        shared.memory.change(key, |memory| memory.unmoved = None);
    }
    None
}

/// Reads the records of a resource that came to a shard: their own watch may be behind the resource's, and an older
/// revision must not count as the newest. A process that serves everything knows them by its watch.
async fn read_records(shared: &ControllerContext, key: &ResourceKey) -> Result<(), storage::Error> {
    if shared.shard.is_some() {
        let records = shared.storage.history(&key.namespace, &key.name).await?;
        shared.cache.catch_up(key, records);
    }
    Ok(())
}

/// Returns whether a resource that is to be uninstalled is being deleted and still this shard's, by a fresh read. A
/// process that serves everything knows by its watch.
pub(crate) async fn is_confirmed(context: &StepContext<'_>, primary: &Primary) -> Result<bool, Failed> {
    if context.shared.shard.is_none() {
        return Ok(true);
    }
    let read = reread::read_again(context, primary).await;
    read.map_err(|error| Failed::of_request(&error, "failed to read the resource before its release is uninstalled"))?;
    let now = context.shared.cache.primary_with_uid(context.key, primary.uid());
    Ok(now.is_some_and(|now| now.deleting && !now.is_drained))
}
