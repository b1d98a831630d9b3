//! Repairs drift, and takes ownership of objects that an upstream operator left. Neither creates a revision.

use std::sync::Arc;

use controller::report::Outcome;
use helm_release::action::{self, Action, Admitted, Environment, Repaired, Unbound};
use helm_release::kube::{Applied, ApplyError, ApplyMethod, Live, ObjectKey, OwnershipLoss, intern};
use helm_release::release::{Packed, Status};
use helm_release::storage::{MarkedObject, Marks, Stored};
use tokio::time::Instant;

use super::marks::{RepairDeletions, keep_written, note_made_again, update_marks, write_marks};
use super::{give_up, remediate};
use crate::reconcile::changes::{self, put_back};
use crate::reconcile::failure::Failed;
use crate::reconcile::learned::{Ended, FailedStep, Learned, NextStep, after};
use crate::reconcile::ownership;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::status::{Fault, MAX_NAMED, condition};
use crate::view::primary::Primary;
use crate::view::release::{Holder, Revision};

/// Applies the objects that are missing or have lost fields of ours.
pub(crate) async fn repair(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    let Some((version, marks)) = deployed(context) else { return Ok(NextStep::Done) };
    let drifted = context.drifted(&marks, primary);
    check_served(context, &marks, &drifted).await?;
    let watched = drifted.iter().any(|key| context.shared.cache.is_synced(key));
    let env = context.environment(primary, Action::Upgrade);
    let packed = context.release().and_then(|release| release.record(version).cloned());
    if watched && context.shared.memory.change(context.key, |memory| memory.drift.count(Instant::now())) {
        let changed = context.shared.memory.of(context.key).drift.changed_again(&drifted);
        let fault = drift_loop(&env, version, packed.as_ref(), primary, &changed).await;
        context.shared.memory.change(context.key, |memory| memory.drift.begin_loop(fault.clone()));
        context.report_fault(primary, &fault);
        return Ok(NextStep::Done);
    }
    let objects: Vec<&MarkedObject> = marks.objects.iter().filter(|o| drifted.contains(&o.key)).collect();
    let unbound = unbind(context, &env, &objects).await;
    let objects: Vec<&MarkedObject> =
        objects.into_iter().filter(|object| !context.may_be_of_failed_upgrade(object)).collect();
    // The objects to unbind are gone, or have another owner. The watch will report that.
    let awaits_event = !drifted.is_empty() && objects.is_empty() && unbound.live.is_empty();
    let inspected = if watched { MAX_NAMED } else { 0 };
    let noted = RepairDeletions::new(context, primary, version, &marks);
    let repaired = action::repair(&env, (version, packed.as_ref()), &objects, inspected, &noted).await;
    if watched {
        note_repair(context, &drifted, &unbound, repaired.as_ref().ok());
    }
    let Some(repaired) = context.unless_unproven(version, repaired)? else { return Ok(NextStep::Again) };
    let (applied, marks) = (repaired.applied, accept(context, version, &noted.marks(), &repaired.accepted));
    let put_back = put_back(&applied);
    if watched && !put_back.is_empty() {
        report(context, primary, &put_back, &repaired.losses);
    }
    cache_repaired(context, &applied, repaired.failed.as_ref());
    remediate::publish_client_side_applies(context, primary, &applied, None).await;
    update_marks(context, primary, version, &marks, &applied).await.map_err(|e| fault(&e))?;
    if let Some(error) = repaired.failed.or(unbound.failed) {
        return Err(fault(&error));
    }
    context.shared.memory.change(context.key, |memory| memory.drift.succeed());
    Ok(if awaits_event { NextStep::Done } else { NextStep::Again })
}

/// Removes the owner reference from the objects that a person keeps, whatever else a repair may do to them.
async fn unbind(context: &StepContext<'_>, env: &Environment<'_>, drifted: &[&MarkedObject]) -> Unbound {
    let bound: Vec<&MarkedObject> = drifted.iter().filter(|object| context.is_bound(object)).copied().collect();
    let unbound = action::unbind(env, &bound).await;
    unbound.live.iter().for_each(|(key, live)| context.shared.cache.store_read(key, live, context.key));
    unbound
}

/// Notes whether a repair restored any of these objects, and which ones it could not write.
fn note_repair(context: &StepContext<'_>, drifted: &[ObjectKey], unbound: &Unbound, repaired: Option<&Repaired>) {
    // An apply that changed nothing also counts: if the object still differs, its repairs must slow down.
    let counts = |one: &Applied| one.changed || one.method == ApplyMethod::Server;
    let has_applied = repaired.is_some_and(|repaired| repaired.applied.iter().any(counts));
    let has_put_back = has_applied || !unbound.live.is_empty();
    let refused = repaired.map(|repaired| refused(drifted, repaired)).unwrap_or_default();
    context.shared.memory.change(context.key, |memory| match has_put_back {
        true => memory.drift.put_back(refused, Instant::now()),
        false => memory.drift.discount(),
    });
}

/// Returns which of these objects a failed repair left unchanged.
fn refused(drifted: &[ObjectKey], repaired: &Repaired) -> Box<[ObjectKey]> {
    let Repaired { applied, accepted, finished, failed, .. } = repaired;
    let is_done = |key: &&ObjectKey| {
        applied.iter().any(|one| one.key == **key)
            || accepted.iter().any(|(of, _)| of == *key)
            || finished.iter().any(|object| object.key == **key)
    };
    drifted.iter().filter(|key| failed.is_some() && !is_done(key)).cloned().collect()
}

/// Logs, publishes and counts repaired objects.
fn report(
    context: &StepContext<'_>,
    primary: &Primary,
    put_back: &[&ObjectKey],
    losses: &[(ObjectKey, OwnershipLoss)],
) {
    let note = changes::repaired(put_back, losses);
    tracing::info!(resource = %context.key, "Drift: {note}");
    context.shared.publish(primary, Outcome::normal("DriftCorrected", "Repair", note));
    for object in put_back {
        let loss = losses.iter().find(|(of, _)| of == *object).map(|(_, loss)| loss);
        let manager = loss.and_then(|loss| loss.manager.as_deref());
        context.shared.counts.repaired(&context.shared.settings.controller, &object.kind, manager);
    }
}

/// Fails if a drifted object's kind is no longer served. Its watch saw the object disappear with the kind, so nothing
/// could be repaired and it would drift forever.
///
/// The watch is about to fail as well; then the object counts as unready instead of drifted.
async fn check_served(context: &StepContext<'_>, marks: &Marks, drifted: &[ObjectKey]) -> Result<(), Failed> {
    for object in drifted.iter().filter(|key| context.shared.cache.is_synced(key)).filter_map(|key| marks.find(key)) {
        let served = context.shared.applier.mapper.any_version(&object.api_version, &object.key.kind).await;
        served.map_err(|source| {
            fault(&ApplyError::Failed { verb: "repair", object: object.key.to_string(), source }.into())
        })?;
    }
    Ok(())
}

/// Describes which managers keep changing or deleting which objects. If that cannot be read, the message is less
/// specific.
async fn drift_loop(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Stored<Packed>>,
    primary: &Primary,
    drifted: &[ObjectKey],
) -> Fault {
    let named = &drifted[..drifted.len().min(MAX_NAMED)];
    let losses = action::inspect(env, version, packed, named).await.unwrap_or_default();
    let mut described: Vec<String> = named
        .iter()
        .map(|key| {
            losses
                .iter()
                .find(|(of, _)| of == key)
                .map_or_else(|| format!("someone keeps changing {key}"), |(_, found)| found.loss.describe(key))
        })
        .collect();
    if drifted.len() > named.len() {
        described.push(format!("and {} more objects", drifted.len() - named.len()));
    }
    let message =
        format!("{}; release {:?} restores them at increasing intervals", described.join("; "), primary.name());
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::DriftLoop, message }
}

/// Reads the records without marks and stores their objects.
pub(crate) async fn read(context: &StepContext<'_>, primary: &Primary) -> Result<NextStep, Failed> {
    let Some(release) = context.release() else { return Ok(NextStep::Done) };
    let env = context.environment(primary, Action::Upgrade);
    let base = release.base().map(|(v, _)| v);
    // Reading takes nothing over. Only a record that we wrote does.
    let is_ours = release.holder(&primary.owner()) == Holder::Resource;
    for version in release.unmarked() {
        let (mut marks, packed) = match action::inventory_of(&env, version).await {
            Ok((marks, packed)) => (marks, Some(packed)),
            Err(action::Error::Storage(error)) if error.is_damage() => (Marks::default(), None),
            // Its manifest cannot be parsed.
            Err(action::Error::Manifest(_)) => (Marks::default(), None),
            Err(error) => return Err(fault(&error)),
        };
        let facts = packed.as_ref().map(Stored::facts);
        if Some(version) == base {
            // Its own marks are newer, and take precedence.
            marks = action::with_unsuccessful_before(&env, version, marks).await.map_err(|e| fault(&e))?;
        }
        let known = release.revisions.get(&version).and_then(|revision| revision.marks.as_deref());
        match known.filter(|known| !known.inputs.is_empty() || !known.adopted.is_empty()) {
            // They lack only the objects, which were too many.
            Some(known) => marks = known.with_inventory(marks.objects),
            None => {
                if is_ours {
                    marks.owner = release.sealed_owner().unwrap_or_else(|| intern(primary.uid()));
                    marks.owner_type = intern(&primary.owner().annotated_type());
                }
                marks.string_overrides =
                    Some(version) == base && facts.is_some_and(|facts| context.finds_strings(primary, facts));
            }
        }
        // A release without objects has nothing to take ownership of.
        marks.complete = marks.objects.is_empty();
        // Another revision has followed an unfinished one before the base, which stays as it is.
        let is_followed = base.is_some_and(|base| version < base);
        let is_helms_pending = |r: &Revision| r.status.is_pending() && r.marks.is_none();
        let abandoned = !is_followed && release.revisions.get(&version).is_some_and(is_helms_pending);
        let status = match packed.as_ref().filter(|_| abandoned) {
            Some(packed) => Some(action::abandon(&env, packed).await.map_err(|e| fault(&e))?),
            None => None,
        };
        context.shared.cache.change_release(context.key, |release| {
            if let Some(revision) = release.revisions.get_mut(&version) {
                revision.marks = Some(Arc::new(marks));
                if abandoned {
                    revision.status = Status::Failed;
                }
                if let Some(written) = status {
                    revision.rewritten(written);
                }
            }
            if Some(version) == base {
                release.packed = packed.map(|packed| (version, packed));
            }
        });
    }
    Ok(NextStep::Again)
}

/// Takes ownership of every object of the deployed revision.
pub(crate) async fn take_ownership(context: &StepContext<'_>, primary: &Primary) -> Result<Ended, FailedStep> {
    let Some((version, marks)) = deployed(context) else { return Ok(NextStep::Done.into()) };
    let is_held_back = context.is_held_back(primary);
    let (admitted, learned) = context.admitted(primary, version).await?;
    let Some(admitted) = admitted else {
        // The chart decides then, which it must not yet for a release that is held back.
        let next = if is_held_back { NextStep::Done } else { NextStep::Again };
        return Ok(next.with(learned));
    };
    let taken = take(&context.knowing(&learned), primary, (version, &marks), admitted).await;
    after(learned, taken.map(|()| NextStep::Again.with([Learned::Owned])))
}

async fn take(
    context: &StepContext<'_>,
    primary: &Primary,
    (version, marks): (u32, &Arc<Marks>),
    admitted: Admitted,
) -> Result<(), Failed> {
    let mut env = context.environment(primary, Action::Upgrade);
    let marks = &context.without_claimed_strings(primary, marks);
    let mut whole = marks.taken_by(&primary.owner());
    // The record may have had other hooks than the chart, which count.
    whole.delete_hooks = admitted.has_delete_hooks();
    env.decoration.tie = whole.tie();
    let noted = RepairDeletions::new(context, primary, version, marks).sealing(&env, &admitted);
    noted.note_jobs_of_former(&env, &admitted).await.map_err(|e| fault(&e))?;
    let known = noted.marks();
    let taken = action::take_ownership(&env, &admitted, &known, &noted).await.map_err(|e| fault(&e))?;
    let applied = taken.applied;
    let noted = note_made_again(context, primary, (version, &noted.marks()), &applied).await;
    if let Some(error) = taken.failed {
        return Err(fault(&noted.err().unwrap_or(error)));
    }
    noted.map_err(|e| fault(&e))?;
    cache_applied(context, &applied);
    remediate::publish_client_side_applies(context, primary, &applied, None).await;
    whole.objects = applied.iter().map(MarkedObject::from).chain(taken.finished).collect();
    for object in &mut whole.objects {
        object.turn = marks.find_in_any_scope(&object.key).map(|known| known.turn).unwrap_or_default();
    }
    whole.complete = true;
    // Their hooks run on until then, and no revision follows that would end them.
    give_up::give_up_followed(context, primary, &env).await.map_err(|e| fault(&e))?;
    // A pinned release was not made from the resource's present `spec`.
    if context.pinned(primary).is_none() && !context.is_held_back(primary) {
        prune_left_behind(context, &env, marks, &whole).await?;
        if !context.differs_by_chance(&marks.inputs, primary) {
            whole.inputs = context.recorded_inputs(primary);
        }
    } else {
        let listed = only_listed(marks, &whole);
        whole.objects.extend(listed);
    }
    context.note_replacement();
    let is_tested_anew = whole.tests.is_some() && marks.is_anothers(&primary.owner());
    let admitted = if is_tested_anew { admitted.with_tests_to_run() } else { admitted };
    let written = action::record_ownership(&env, &admitted, &whole).await.map_err(|e| fault(&e))?;
    if !marks.owner.is_empty() && marks.owner_type != whole.owner_type {
        context.shared.memory.change(context.key, |memory| memory.release.took_over = true);
    }
    keep_written(context, version, whole, written);
    tracing::info!(resource = %context.key, version, "Took over release");
    context.succeed();
    Ok(())
}

/// Returns the objects that an imported revision only lists: the next revision may render them, and otherwise deletes
/// them.
fn only_listed(marks: &Marks, taken: &Marks) -> Vec<MarkedObject> {
    let is_listed = |object: &&MarkedObject| object.digest.is_none() && taken.find_in_any_scope(&object.key).is_none();
    marks.objects.iter().filter(is_listed).cloned().collect()
}

/// Deletes the objects that only failed revisions before a person's `helm upgrade`s made, because no later revision of
/// ours would, and those that an imported revision only lists. Custom resource definitions stay: the chart may ship them
/// separately. So does what the release has in another API group.
async fn prune_left_behind(
    context: &StepContext<'_>,
    env: &Environment<'_>,
    marks: &Marks,
    taken: &Marks,
) -> Result<(), Failed> {
    let release = context.release().unwrap_or_default();
    let has = |key: &ObjectKey| {
        let mut left = release.left_behind().filter_map(|(_, revision)| revision.marks.as_deref());
        left.any(|marks| marks.find(key).is_some())
    };
    let is_pruned = |object: &&MarkedObject| {
        !object.kept
            && &*object.key.kind != "CustomResourceDefinition"
            && taken.find_in_any_scope(&object.key).is_none()
    };
    let inventory = release.inventory();
    let is_listed = |key: &ObjectKey| marks.find(key).is_some_and(|known| known.digest.is_none());
    let is_left = |object: &&MarkedObject| is_listed(&object.key) || has(&object.key);
    let left: Vec<&MarkedObject> = inventory.objects.iter().filter(is_pruned).filter(is_left).collect();
    action::delete_left_behind(env, &inventory, &left, taken).await.map_err(|e| fault(&e))
}

/// Reads the objects that we wrote and whose events are overdue.
pub(crate) async fn confirm(context: &StepContext<'_>) -> Result<NextStep, Failed> {
    let Some((_, marks)) = deployed(context) else { return Ok(NextStep::Done) };
    for key in context.shared.cache.overdue(&context.watched(&marks)) {
        let Some(object) = marks.find(&key) else { continue };
        let live = context.applier.find_live(&key, &object.api_version).await.map_err(|e| fault(&e.into()))?;
        let read = live.as_ref().map(|live| (live, ownership::claim(context.shared, &key, live)));
        context.shared.cache.confirm(&key, read);
    }
    Ok(NextStep::Again)
}

/// Records the digest of other inputs that render to the same deployed objects.
pub(crate) async fn note_inputs(
    context: &StepContext<'_>,
    primary: &Primary,
    version: u32,
    inputs: String,
) -> Result<(), Failed> {
    let Some((_, marks)) = deployed(context) else { return Ok(()) };
    // `before` explains the upgrade to this revision, not a later change of inputs that rendered the same.
    let marks = Marks { inputs, before: None, ..(*marks).clone() };
    write_marks(context, primary, version, marks).await.map_err(|e| fault(&e))
}

pub(crate) fn deployed(context: &StepContext<'_>) -> Option<(u32, Arc<Marks>)> {
    let release = context.release()?;
    let (version, revision) = release.deployed()?;
    Some((version, revision.marks.clone()?))
}

/// Updates the marks of objects that lost only fields that others own. Only in memory: our content did not change, and
/// after a restart a read will show the same again.
pub(crate) fn accept(
    context: &StepContext<'_>,
    version: u32,
    marks: &Arc<Marks>,
    accepted: &[(ObjectKey, Live)],
) -> Arc<Marks> {
    if accepted.is_empty() {
        return marks.clone();
    }
    let mut new = (**marks).clone();
    for (key, live) in accepted {
        context.shared.cache.store_read(key, live, context.key);
        let same = new.objects.iter_mut().filter(|o| o.key == *key);
        same.for_each(|object| object.mark = live.mark);
    }
    let new = Arc::new(new);
    context.shared.cache.change_release(context.key, |release| {
        if let Some(revision) = release.revisions.get_mut(&version) {
            revision.marks = Some(new.clone());
        }
    });
    new
}

fn cache_applied(context: &StepContext<'_>, applied: &[Applied]) {
    context.shared.cache.store_applied(applied, context.key);
    context.shared.memory.change(context.key, |memory| memory.triggers.resynced = Some(Instant::now()));
}

/// Stores what a repair applied. After a failure, the rest stays due.
pub(crate) fn cache_repaired(context: &StepContext<'_>, applied: &[Applied], failed: Option<&action::Error>) {
    match failed {
        Some(_) => context.shared.cache.store_applied(applied, context.key),
        None => cache_applied(context, applied),
    }
}

pub(crate) fn fault(error: &action::Error) -> Failed {
    Failed::of_step(error, condition::IRRECONCILABLE, Reason::ReconcileError)
}
