//! Records the outcome of a reconcile with at most one status write, and schedules the next one.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use controller::metrics::ReconcileResult;
use controller::report::{Outcome, chain};
use controller::runtime::key::ResourceKey;
use helm_release::kube::{ObjectKey, intern};
use serde_json::json;
use tokio::time::Instant;

use super::diagnose::current_health;
use super::fields::fields;
use super::status_requests::{apply, held, is_taken_over, remove};
use super::{history, status_events};
use crate::dependencies::Waiting;
use crate::preflight::Refused;
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::memory::ResourceMemory;
use crate::reconcile::decide::remembered::Unwritten;
use crate::reconcile::decide::schedule::{End, Times, next_requeue};
use crate::reconcile::decide::state::Recorded;
use crate::reconcile::reread;
use crate::reconcile::step_context::StepContext;
use crate::status::history::HistoryEntry;
use crate::status::reason::Reason;
use crate::status::{DeployedRelease, Facts, Fault, Health, ListType, ObjectCount, Stall, Status, condition};
use crate::view::primary::{Primary, Received};
use crate::view::release::{ReleaseRecords, Revision, Trust};

/// The remedy if the status of a resource that exists is not found for long.
const NO_SUBRESOURCE: &str =
    "; if this lasts, declare `subresources: {status: {}}` for this version in the CustomResourceDefinition";

/// Writes the status and schedules the next reconcile. `decided` is the resource that the last step was decided on, if any.
/// If the cached one is newer, the status names the generation of `decided`. A new resource of the name gets no status.
pub(crate) async fn finish(context: &StepContext<'_>, decided: Option<&Primary>, end: End) -> ReconcileResult {
    let Some(primary) = context.shared.cache.primary(context.key) else { return ReconcileResult::Success };
    let decided = decided.unwrap_or(&primary);
    if decided.uid() != primary.uid() {
        return plan(context, &primary, end);
    }
    context.handle_failed(decided, end);
    // The previous process's report stays until the first attempt, which an idle resource never makes, and the last
    // plan stays until the next one. The health of the objects is unknown until they are listed.
    let restored = context.shared.memory.of(context.key).restored(&primary).filter(|_| end != End::Idle);
    let is_known = has_status(&primary)
        && !context.found.is_status_kept
        && restored.is_none_or(|until| until <= context.decided)
        && !context.is_listing();
    let found = if is_known {
        read_description(context, &primary).await;
        Some(current_health(context, &primary).await)
    } else {
        None
    };
    // It may have been deleted, or have left the watch, during the diagnosis.
    if !context.shared.cache.has_primary(context.key, primary.uid()) {
        return ReconcileResult::Success;
    }
    let known_health = found.as_ref().map(|(health, _)| health.clone());
    // The status says whether the release is in line.
    context.leave_rollout(&primary, known_health.as_ref());
    if let Some((health, objects)) = found {
        write_status(context, (&primary, decided.generation), health, objects).await;
    }
    // The write may have changed the cached status, or have shown that the resource is gone.
    let Some(now) = context.shared.cache.primary_with_uid(context.key, primary.uid()) else {
        return ReconcileResult::Success;
    };
    context.note_part(&now, known_health.as_ref());
    plan(context, &primary, end)
}

/// Reads the chart and notes of a deployed revision that the status does not show yet, if this process did not create
/// it: the process that did ended before it wrote the status, or lost the response.
async fn read_description(context: &StepContext<'_>, primary: &Primary) {
    let release = context.release().unwrap_or_default();
    let Some((version, _)) = release.deployed().filter(|_| !primary.deleting) else { return };
    let is_reported = primary.status.deployed_release.as_ref().is_some_and(|reported| reported.revision == version);
    if is_reported || release.record(version).is_some() {
        return;
    }
    let record = context.shared.storage.get(primary.namespace(), primary.name(), version).await;
    let described = record.map_err(|e| chain(&e)).and_then(|record| {
        let packed = record.release.pack().map_err(|e| chain(&e))?;
        Ok((packed, record.release))
    });
    match described {
        Ok((packed, release)) => {
            let notes = context.recorded_notes(primary, release.facts()).await;
            context.shared.cache.change_release(context.key, |release| release.packed = Some((version, packed)));
            context.change_memory_of(primary, |memory| memory.status.notes = notes);
        }
        Err(error) => tracing::debug!(resource = %context.key, error, "Cannot read the record for the status"),
    }
}

/// Returns whether to write the resource's status. If it is being released, or was never ours, only when other
/// finalizers keep it.
fn has_status(primary: &Primary) -> bool {
    let kept_by_others =
        || primary.status.find(condition::DEPLOYED).is_some() && !primary.other_finalizers().is_empty();
    !primary.deleting || primary.has_finalizer() || kept_by_others()
}

/// Returns the facts that a reconcile found, as those of this generation, and the reason why a status field could not be
/// computed.
fn facts(
    context: &StepContext<'_>,
    (primary, generation): (&Primary, i64),
    health: Health,
    count: ObjectCount,
) -> (Facts, Option<String>) {
    // A release that the resource only began to take over is not its own.
    let release = held(context.shared, primary);
    let deployed = release.as_deref().and_then(ReleaseRecords::deployed);
    let memory = context.shared.memory.of(context.key);
    let recorded = context.recorded(primary);
    let kept_by: Vec<String> = match primary.deleting && !primary.has_finalizer() {
        true => keepers(primary),
        false => Vec::new(),
    };
    let deployed = deployed.filter(|_| context.found.awaited.is_none() && kept_by.is_empty());
    // Only the status still names a release whose record disappeared, until it is uninstalled, and one that a person's
    // helm is replacing.
    let last = primary.status.deployed_release.clone();
    let lost = last.filter(|_| matches!(recorded, Recorded::Lost | Recorded::InFlight));
    let objects: Vec<ObjectKey> = match deployed.and_then(|(_, revision)| revision.marks.as_ref()) {
        Some(marks) if !context.shared.settings.expressions.fields().is_empty() => {
            marks.objects.iter().map(|object| object.key.clone()).collect()
        }
        _ => Vec::new(),
    };
    let (fields, field_fault) = fields(context, primary, &objects);
    // Names what the first attempt waits for in addition to the failure that this process found.
    let own_fault = memory.own_fault();
    let fault = own_fault.or_else(|| context.rejection(primary));
    let limit = Some(context.shared.rollout.limit).filter(|_| fault.is_none());
    let shown = deployed.map(|(version, _)| deployed_release(context, primary, version)).or(lost);
    let facts = Facts {
        generation,
        history: revisions(context, primary, shown.as_ref()),
        release: shown,
        next_attempt: next_attempt(&memory),
        rolled_back_to: deployed.and_then(|(_, revision)| revision.marks.as_ref()?.rolled_back_to),
        health,
        objects: count,
        fields,
        fault: fault.or_else(|| memory.fault()),
        pinned: context.pinned(primary),
        tests: context.test_report(primary).filter(|_| deployed.is_some()),
        stall: stall(&memory),
        blocked: deployed.and_then(|_| blocked(context)),
        drift: if deployed.is_some() { context.detections(primary) } else { Vec::new() },
        notes: memory.status.notes.clone(),
        paused: primary.paused_by(),
        suspended: primary.annotations.suspend(),
        planned: context.plan_report(primary),
        is_queued: limit.filter(|_| context.shared.rollout.is_waiting(context.key)),
        handled: context.handled(primary),
        waiting: waiting(context, primary),
        awaited: context.found.awaited.clone(),
        unread: context.unread(primary),
        unproven: context.unproven(primary),
        ignored: primary.annotations.mistakes().join("; "),
        kept_by,
    };
    (facts, field_fault)
}

/// Returns what the resource waits for: dependencies; that all releases are known, or its turn in a rollout, unless
/// this process found a failure; or memory, unless it is in line for an upgrade slot.
fn waiting(context: &StepContext<'_>, primary: &Primary) -> Option<Waiting> {
    let has_failed = context.shared.memory.of(context.key).own_fault().is_some();
    let is_in_line = context.shared.rollout.is_waiting(context.key);
    let sight = || context.waits_for_sight(primary).filter(|_| !has_failed);
    let turn = || context.waits_for_turn(primary).filter(|_| !has_failed);
    let room = || context.waits_for_room(primary).filter(|_| !is_in_line);
    context.found.waiting.clone().or_else(sight).or_else(turn).or_else(room)
}

/// Returns what keeps a resource after its uninstall: the finalizers of others, and the number of those not listed.
fn keepers(primary: &Primary) -> Vec<String> {
    let more = Some(primary.finalizers.more).filter(|more| *more > 0).map(|more| format!("and {more} more"));
    primary.other_finalizers().into_iter().map(str::to_owned).chain(more).collect()
}

/// Returns the last revisions of the resource's own release, of which `shown` is the deployed one.
fn revisions(context: &StepContext<'_>, primary: &Primary, shown: Option<&DeployedRelease>) -> Box<[HistoryEntry]> {
    let old = &primary.status.history;
    let release = match held(context.shared, primary) {
        Some(release) => release,
        // Its records disappeared, but it is still there. Or another resource has it.
        None if shown.is_some() || is_taken_over(context.shared, primary) => return old.clone(),
        None => return Box::default(),
    };
    let newest_known = old.first().map_or(0, |entry| entry.revision);
    let chart_of = |version: u32, revision: &Revision| {
        if let Some(shown) = shown.filter(|shown| shown.revision == version && !shown.chart.is_empty()) {
            return Some(shown.chart.clone());
        }
        // A process renders only one chart. For an older revision, it only knows what the status says.
        let is_news = version > newest_known && matches!(revision.trust, Trust::Written(_));
        let (name, number) = (context.shared.renderer.chart_name(), context.shared.renderer.chart_version());
        let is_rendered = is_news && !number.is_empty() && !revision.is_rollback();
        is_rendered.then(|| intern(&format!("{name}-{number}")))
    };
    history::history(old, &release, chart_of, outside::now())
}

/// Logs and publishes, once, why a status field keeps its old value.
fn report_field_fault(context: &StepContext<'_>, primary: &Primary, fault: Option<String>) {
    if context.shared.memory.of(context.key).status.field_fault.as_deref() == fault.as_deref() {
        return;
    }
    context.change_memory_of(primary, |memory| memory.status.field_fault = fault.as_deref().map(Box::from));
    if let Some(fault) = fault {
        tracing::warn!(resource = %context.key, error = fault, "Cannot compute the status");
        context.shared.publish(primary, Outcome::warning("StatusExpressionError", "Reconcile", fault));
    }
}

/// Returns when the failed attempt is repeated, in seconds.
fn next_attempt(memory: &ResourceMemory) -> Option<jiff::Timestamp> {
    let failed = memory.failure.as_ref().filter(|failed| !failed.exhausted)?;
    let wait = failed.retry.at.checked_duration_since(Instant::now())?;
    let at = outside::now().checked_add(wait).ok()?;
    jiff::Timestamp::from_second(at.as_second()).ok()
}

/// Returns why only a change can end the current failure.
fn stall(memory: &ResourceMemory) -> Option<Stall> {
    let failed = memory.failure.as_ref()?;
    let refused =
        memory.refused.as_deref().is_some_and(|(inputs, refusal)| *inputs == failed.inputs && refusal.is_final());
    match failed.exhausted {
        true => Some(Stall::Exhausted(failed.attempts)),
        false => refused.then_some(Stall::Refused),
    }
}

/// Returns what prevents every render: a release of an upstream operator still works, but nothing can change it.
fn blocked(context: &StepContext<'_>) -> Option<Fault> {
    let blocked = context.shared.renderer.blocked()?;
    let message = format!("the release stays as it is, and no change of the resource can be rendered: {blocked}");
    Some(Fault { condition: condition::IRRECONCILABLE, reason: Reason::named(blocked.reason()), message })
}

/// Returns the deployed release for the status. Keeps the chart in the status unless this process has read the record.
///
/// A revision that was put back does not replace a later one, which is how it is recognised.
fn deployed_release(context: &StepContext<'_>, primary: &Primary, version: u32) -> DeployedRelease {
    let release = context.release().unwrap_or_default();
    let later = primary.status.deployed_release.clone();
    if let Some(later) = later.filter(|_| release.is_put_back(version, primary.reported())) {
        return later;
    }
    let override_values_are_strings = release.shows_string_overrides(primary);
    let packed = release.record(version);
    let known =
        primary.status.deployed_release.clone().filter(|known| known.revision == version && !known.chart.is_empty());
    match (packed, known) {
        (Some(packed), _) => {
            let chart = packed.facts().chart();
            DeployedRelease {
                name: intern(primary.name()),
                revision: version,
                chart: intern(&format!("{}-{}", chart.name, chart.version)),
                app_version: intern(&chart.app_version),
                override_values_are_strings,
            }
        }
        (None, Some(known)) => DeployedRelease { override_values_are_strings, ..known },
        (None, None) => {
            let (name, revision) = (intern(primary.name()), version);
            DeployedRelease { name, revision, override_values_are_strings, ..DeployedRelease::default() }
        }
    }
}

/// Writes the status, if it differs, as that of this generation.
async fn write_status(
    context: &StepContext<'_>,
    (primary, generation): (&Primary, i64),
    health: Health,
    objects: ObjectCount,
) {
    let memory = context.shared.memory.of(context.key);
    let is_ready = health == Health::Ready;
    let (facts, fault) = facts(context, (primary, generation), health, objects);
    report_field_fault(context, primary, fault.filter(|_| is_ready && facts.release.is_some()));
    // Before anything else: once the release is recorded, nothing else of the status may change.
    let is_held = memory.status.unwritten.is_some_and(|unwritten| unwritten.holds(Instant::now()));
    if primary.has_manifest && !is_held && !context.needs_manifest(primary) {
        drop_manifest(context, primary).await;
    }
    let Some(status) = primary.status.next(&facts, outside::now()) else {
        return written(context);
    };
    // The kind's schema may drop our fields. Then the same status must not be written again and again.
    let is_due = memory.status.rejected.as_ref().is_some_and(|rejected| rejected.retry_at <= Instant::now());
    if !is_due && memory.status.written.as_deref() == Some(&(timeless_hash(&status), hash(&primary.status))) {
        return written(context);
    }
    if is_held {
        return;
    }
    match apply(context.shared, primary, &status).await {
        Ok(None) => {
            let known = Box::new((timeless_hash(&status), hash(&primary.status)));
            context.change_memory_of(primary, |h| (h.status.written, h.status.notes) = (Some(known), None));
            written(context);
        }
        Ok(Some(answer)) => {
            status_events::publish(context, primary, &status);
            take_answer(context, primary, &status, answer);
        }
        Err(error) => {
            if error.is_not_found() {
                reread::refresh(context, primary).await;
            }
            // If it still exists as far as is known, something else is not there: the server may not serve a new
            // definition yet, or the definition may lack the subresource. No event would report the end of that.
            if context.shared.cache.has_primary(context.key, primary.uid()) {
                unwritten(context, primary, &error).await;
            }
        }
    }
}

/// Stores the response to a status write, in which the server may have changed the status.
fn take_answer(context: &StepContext<'_>, primary: &Primary, status: &Status, answer: Received) {
    let mut answered = answer.primary.status.clone();
    context.shared.primary_written(answer);
    // It may have left the watch before the write.
    let Some(known) = context.shared.cache.primary_with_uid(context.key, primary.uid()) else { return };
    // The cache parses the computed fields of a response.
    answered.fields = known.status.fields.clone();
    let is_changed = !answered.has_same(status);
    let known = is_changed.then(|| Box::new((timeless_hash(status), hash(&answered))));
    context.change_memory_of(primary, |h| (h.status.written, h.status.notes) = (known, None));
    written(context);
}

/// Logs why the status could not be written, and schedules the next attempt, unless the resource is gone. A failure before
/// that attempt is logged only at debug level.
pub(crate) async fn unwritten(context: &StepContext<'_>, primary: &Primary, error: &helm_release::kube::Error) {
    let now = Instant::now();
    let noted = context.change_memory_of(primary, |memory| {
        let record = if error.is_transient() { Unwritten::unanswered } else { Unwritten::refused };
        let next = record(memory.status.unwritten, now);
        (memory.status.unwritten.replace(next), next)
    });
    let Some((before, next)) = noted else { return };
    let error = format!("{}{}", context.refusal(primary, error).await, remedy(error).unwrap_or_default());
    let next_try_in = format!("{:?}", next.retry.at - now);
    match before.is_some_and(|before| now < before.retry.at) {
        true => tracing::debug!(resource = %context.key, error, next_try_in, "Cannot write the status"),
        false => tracing::warn!(resource = %context.key, error, next_try_in, "Cannot write the status"),
    }
}

/// Returns what lets the server accept the status, as far as its refusal shows that.
fn remedy(error: &helm_release::kube::Error) -> Option<String> {
    if error.is_not_found() {
        return Some(NO_SUBRESOURCE.to_owned());
    }
    let rule = Refused::read(&chain(error)).map(|refused| refused.rule_of_served())?;
    Some(format!("; add this rule to the role of the operator: {rule}"))
}

fn written(context: &StepContext<'_>) {
    context.shared.memory.change(context.key, |memory| memory.status.unwritten = None);
}

/// Writes what a long step waits for into the status.
pub(crate) async fn write_progress(shared: &ControllerContext, key: &ResourceKey, what: &str) {
    let Some(primary) = shared.cache.primary(key) else { return };
    let Some(status) = primary.status.in_progress(primary.generation, what, outside::now()) else { return };
    match apply(shared, &primary, &status).await {
        Ok(answer) => answer.into_iter().for_each(|answer| shared.primary_written(answer)),
        Err(error) => {
            let error = StepContext::new(shared, key, &()).refusal(&primary, &error).await;
            tracing::debug!(resource = %key, error, "Cannot write progress into the status")
        }
    }
}

/// Removes the release from the status, before its records are deleted.
///
/// # Errors
/// The server did not answer. If it refuses the status, that is only logged, because it would refuse it again.
pub(crate) async fn forget_release(
    context: &StepContext<'_>,
    primary: &Primary,
) -> Result<(), helm_release::kube::Error> {
    match write_uninstalled(context, primary).await {
        Err(error) if error.is_unanswered() => return Err(error),
        Err(error) => {
            let error = context.refusal(primary, &error).await;
            tracing::warn!(resource = %context.key, error, "Cannot remove the release from the status");
        }
        Ok(()) => {}
    }
    Ok(())
}

async fn write_uninstalled(context: &StepContext<'_>, primary: &Primary) -> Result<(), helm_release::kube::Error> {
    let shared = context.shared;
    let Some(known) = shared.cache.primary_with_uid(context.key, primary.uid()) else { return Ok(()) };
    let Some(status) = known.status.uninstalled(known.generation, outside::now()) else { return Ok(()) };
    let Some(answer) = apply(shared, &known, &status).await? else { return Ok(()) };
    // An upstream operator may own a part of it.
    let is_left = answer.primary.status.deployed_release.is_some();
    shared.primary_written(answer);
    if is_left {
        shared.primary_written(remove(context, primary, &json!({"deployedRelease": null})).await?);
    }
    Ok(())
}

/// Removes the manifest that operator-sdk kept in the status. Applying our own fields would leave it there.
async fn drop_manifest(context: &StepContext<'_>, primary: &Primary) {
    if let Err(error) = remove(context, primary, &json!({"deployedRelease": {"manifest": null}})).await {
        let error = context.refusal(primary, &error).await;
        tracing::warn!(resource = %context.key, error, "Cannot remove the manifest from the status");
    }
}

/// Hashes a status without its times, and without fields whose change alone is not worth a write.
fn timeless_hash(status: &Status) -> u64 {
    let mut status = Status { history: Box::default(), next_attempt: None, ..status.clone() };
    status.conditions.iter_mut().for_each(|c| c.last_transition_time = None);
    hash(&status)
}

/// Hashes a status without the texts of others' conditions, which may contain the time of their last check.
fn hash(status: &Status) -> u64 {
    let mut status = status.clone();
    status.shrink(ListType::Map);
    let mut hasher = DefaultHasher::new();
    status.hash(&mut hasher);
    hasher.finish()
}

/// Sets the resource's timer.
fn plan(context: &StepContext<'_>, primary: &Primary, end: End) -> ReconcileResult {
    let memory = context.shared.memory.of(context.key);
    let marks = context.release().as_deref().and_then(ReleaseRecords::deployed_marks).cloned();
    let asks = marks.and_then(|marks| context.shared.cache.ask_at(&context.watched(&marks)));
    let times = Times {
        decided: context.decided,
        ended: Instant::now(),
        period: context.period(primary),
        holds: memory.deadlines(),
        asks,
        waits: memory.status.waiting.as_ref().map_or([None; 2], |w| w.next(context.shared.settings.progress_timeout)),
        resync: context.full_resync_at(primary),
        turn: [context.turn_at(primary), context.room_at(primary), context.tokens_at()].into_iter().flatten().min(),
        status: memory.status.retries(),
    };
    let requeue = next_requeue(end, &times);
    match requeue {
        Some(at) => context.shared.queue.push_after(context.key.clone(), at.saturating_duration_since(times.ended)),
        None => context.shared.queue.cancel(context.key),
    }
    match (end, requeue) {
        (End::Failed, _) => ReconcileResult::Error,
        (_, Some(_)) => ReconcileResult::RequeueAfter,
        (_, None) => ReconcileResult::Success,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_does_not_differ_by_the_time_of_the_last_check_of_others() {
        let backup = |status: &str, time: &str| -> Status {
            let condition = json!({"type": "Backup", "status": status, "lastHeartbeatTime": time});
            serde_json::from_value(json!({"conditions": [condition]})).unwrap()
        };
        let (first, second) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
        let old = backup("True", first);
        for (new, is_same) in [(backup("True", second), true), (backup("False", first), false)] {
            assert_ne!(new, old);
            for of in [hash, timeless_hash] {
                assert_eq!(of(&new) == of(&old), is_same);
            }
        }
    }
}
