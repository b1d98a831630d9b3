//! Restores what the previous process, or another shard, remembered of resources, from their status and records.

use std::sync::Arc;

use controller::runtime::key::ResourceKey;
use helm_release::storage::Before;
use tokio::time::Instant;

use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::inputs;
use crate::reconcile::decide::memory::ResourceMemory;
use crate::reconcile::decide::rollout;
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

/// Restores, at startup, what is remembered of all resources.
pub(crate) fn restore(context: &ControllerContext) {
    let today = outside::now();
    let primaries = context.cache.primaries();
    primaries.iter().for_each(|primary| restore_one(context, primary));
    if context.turns.rule().is_some() {
        let members = primaries.iter().map(|primary| {
            let key = primary.key();
            let member = StepContext::new(context, &key, &()).member(primary, None);
            (key, member)
        });
        let is_known = |key: &ResourceKey| context.cache.primary(key).is_some();
        context.turns.restore(is_known, members.collect(), today);
        context.announce_rollout();
    }
}

/// Restores what is remembered of a resource: its last failure, and its upgrade slot.
pub(crate) fn restore_one(context: &ControllerContext, primary: &Arc<Primary>) {
    let (key, now) = (primary.key(), Instant::now());
    // Its deletion may be noticed meanwhile, and would then have nothing to forget.
    let is_known = || context.cache.primary_with_uid(&key, primary.uid()).is_some();
    if let Some(memory) = ResourceMemory::restore(primary, now, outside::now()) {
        report_restored(primary, &memory, now);
        context.memory.change_if(is_known, &key, |known| *known = memory);
    }
    if let Some(before) = slot(context, primary) {
        context.rollout.restore(is_known, &key, before);
    }
}

/// Returns the release's state before the previous process's upgrade, if that held a slot. It keeps the slot until the
/// release is ready, unless the resource itself changed, or the release was ready since: then only until it is stalled.
fn slot(context: &ControllerContext, primary: &Primary) -> Option<Before> {
    let release = context.cache.release_or_beside(primary).unwrap_or_default();
    rollout::unfinished(&release, &inputs::own_digest(primary), &primary.status)
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
