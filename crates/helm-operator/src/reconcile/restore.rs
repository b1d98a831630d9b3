//! Restores what the previous process, or another shard, remembered of resources, from their status and records. Until
//! all can be, upgrades get no slots.

use std::sync::Arc;

use controller::runtime::key::ResourceKey;
use controller::runtime::reflector::WatchScope;
use tokio::time::Instant;

use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::inputs;
use crate::reconcile::decide::memory::ResourceMemory;
use crate::reconcile::decide::remembered::FoundTokens;
use crate::reconcile::decide::rollout;
use crate::reconcile::step_context::StepContext;
use crate::status::Status;
use crate::view::coverage::Loss;
use crate::view::primary::Primary;

/// Begins a start: restores what is remembered of all resources. Resources in later lists count as having come after it.
pub(crate) fn begin(context: &ControllerContext) {
    // In the other order, a resource that is stored in between would be neither restored nor late.
    context.arrivals.begin();
    restore(context);
}

/// Restores what is remembered of all known resources, before any reconcile.
pub(crate) fn restore(context: &ControllerContext) {
    context.cache.primaries().iter().for_each(|primary| restore_one(context, primary));
    // The turns of whatever is found from now on are missing, and are restored once the start is over.
    context.unseen.settle_all();
    restore_turns(context);
    context.announce_rollout();
    report_unseen(context);
}

/// Ends the start: lets reconciles begin.
pub(crate) fn open(context: &ControllerContext) {
    context.queue.open();
    // Resources found during the start had to wait for its end.
    resume(context);
}

fn restore_turns(context: &ControllerContext) {
    if context.turns.rule().is_none() {
        return;
    }
    let primaries = context.cache.primaries();
    let members = primaries.iter().map(|primary| {
        let key = primary.key();
        let member = StepContext::new(context, &key, &()).member(primary, None);
        (key, member)
    });
    let is_known = |key: &ResourceKey| context.cache.primary(key).is_some();
    context.turns.restore(is_known, members.collect(), outside::now());
}

/// Restores what is remembered of a resource: its last failure, its tokens, and its upgrade slot.
fn restore_one(context: &ControllerContext, primary: &Arc<Primary>) {
    let (key, now) = (primary.key(), Instant::now());
    // Its deletion may be noticed meanwhile, and would then have nothing to forget.
    let is_known = || context.cache.has_primary(&key, primary.uid());
    if let Some(memory) = ResourceMemory::restore(primary, now, outside::now()) {
        report_restored(primary, &memory, now);
        context.memory.change_if(is_known, &key, |known| known.inherit(memory));
    }
    if let Some(found) = FoundTokens::unreported(primary) {
        context.memory.change_if(is_known, &key, |known| known.triggers.found = Some(Box::new(found)));
    }
    restore_slot(context, primary);
}

/// Records that a resource came after the start.
pub(crate) fn came(context: &ControllerContext, key: &ResourceKey) {
    context.unseen.came(key);
    context.arrivals.add(key);
}

/// Restores what is remembered of a resource that came after the start, before its first reconcile.
pub(crate) fn restore_late(context: &ControllerContext, key: &ResourceKey) {
    context.cache.primary(key).iter().for_each(|primary| restore_one(context, primary));
    context.unseen.restored(key);
    resume(context);
}

/// Handles the end of a scope's list. If the first one was refused, other releases get slots only after the slots of
/// upgrades in this scope are restored.
pub(crate) fn listed(context: &ControllerContext, scope: &WatchScope) {
    // A resource that came to a shard may have newer records than the cache: its reconcile reads them before it
    // restores the slot.
    let came = if context.shard.is_none() { context.arrivals.within(scope) } else { Vec::new() };
    came.iter().filter_map(|key| context.cache.primary(key)).for_each(|primary| restore_slot(context, &primary));
    let unrestored = context.unseen.unrestored(scope).into_iter();
    let gone = unrestored.filter(|key| context.cache.primary(key).is_none());
    came.into_iter().chain(gone).for_each(|key| context.unseen.restored(&key));
    context.unseen.listed(scope);
    resume(context);
}

/// Handles a refused list or watch of a scope. While the server does not serve the resources' kind, no list is awaited.
pub(crate) fn lost(context: &ControllerContext, scope: &WatchScope, loss: Loss) {
    context.unseen.lost(scope, loss);
    resume(context);
}

/// Restores the upgrade slots of the resources whose records have just become visible.
pub(crate) fn see_records(context: &ControllerContext) {
    let mut seen = context.unseen.unrecorded();
    seen.retain(|key| !context.cache.is_blind(key));
    for key in &seen {
        if let (Some(primary), Some(status)) = (context.cache.primary(key), context.unseen.first_status(key)) {
            restore_slot_by(context, &primary, &status);
        }
        context.unseen.recorded(key);
    }
    resume(context);
}

/// Lets upgrades begin once all releases are known, and logs what is missing if that has changed. During the start, the
/// lists are not complete: the start itself does both.
pub(crate) fn resume(context: &ControllerContext) {
    if !context.queue.is_open() {
        return;
    }
    if let Some(finds) = context.unseen.complete() {
        restore_turns(context);
        // Not before: upgrades would begin in the turns of a part of the releases.
        context.unseen.settle(finds);
        context.announce_rollout();
        context.wake_all();
    }
    report_unseen(context);
}

/// Restores the upgrade slot that the previous process's upgrade held, or makes upgrades wait for the records.
fn restore_slot(context: &ControllerContext, primary: &Primary) {
    if context.rollout.is_limited() {
        await_records(context, primary);
        restore_slot_by(context, primary, &primary.status);
    }
}

/// Restores the upgrade slot that the previous process's upgrade held, as the records and this status say. It keeps the
/// slot until the release is ready, unless the resource itself changed, or the release was ready since: then only until
/// it is stalled.
fn restore_slot_by(context: &ControllerContext, primary: &Primary, status: &Status) {
    let key = primary.key();
    let is_known = || context.cache.has_primary(&key, primary.uid());
    let release = context.cache.release_or_beside(primary).unwrap_or_default();
    if let Some(before) = rollout::unfinished(&release, &inputs::own_digest(primary), status) {
        context.rollout.restore(is_known, &key, before);
    }
}

/// Makes upgrades wait for the records of a resource if they cannot be watched and there may be any.
fn await_records(context: &ControllerContext, primary: &Primary) {
    let key = primary.key();
    if !may_have_release(primary) || !context.cache.is_blind(&key) {
        return;
    }
    context.unseen.lack_records(&key, context.cache.namespace_of_records(&key), &primary.status);
    // Whoever noticed before that they can be watched, or that the resource is gone, could not end the wait.
    if !context.cache.is_blind(&key) || context.cache.primary(&key).is_none() {
        context.unseen.recorded(&key);
    }
}

/// Returns whether this operator may have a release for a resource. An install first sets the finalizer.
fn may_have_release(primary: &Primary) -> bool {
    primary.has_finalizer() || primary.status.deployed_release.is_some()
}

/// Logs what upgrades wait for, which their conditions do not name, if that has changed.
fn report_unseen(context: &ControllerContext) {
    let Some(news) = context.unseen.news() else { return };
    let resources = news.scopes.iter().map(|scope| scope.of(&context.resource.kind));
    let records = news.namespaces.iter().map(|name| WatchScope::namespace(name).of("release records (Secrets)"));
    let missing: Vec<String> = resources.chain(records).collect();
    if context.unseen.report(&missing) && !missing.is_empty() {
        tracing::warn!(
            controller = &*context.settings.controller,
            missing = missing.join(", "),
            "Upgrades that need a permit wait until everything is listed"
        );
    }
}

/// Logs when a resource that failed before is retried. Someone who fixed something and restarted the
/// operator is waiting for it.
fn report_restored(primary: &Primary, memory: &ResourceMemory, now: Instant) {
    if let Some(wait) = memory.restored_wait(now) {
        tracing::info!(
            resource = %primary.key(),
            next_try_in = format!("{wait:.0?}"),
            "The resource failed before this process served it: it is tried again soon, or at once with a change of its spec or the annotation \
             helm.sdk.operatorframework.io/retry-now"
        );
    }
}
