//! Corrects drift and takes ownership of objects that an upstream operator or Helm applied, without a new revision.

use super::handover::Handover;
use super::keys::served;
use super::last::RecordedBases;
use super::{Admitted, Cached, Environment, Error, HELM_APPLY_METHOD, read_sealed};
use crate::kube::{
    Adopted, AfterFailure, Applied, ApplyError, Deletions, Failures, Found, Inspection, Left, Live, Object, ObjectKey,
    Ownership, OwnershipLoss, Pointer, Previous, Rule, Target, Unchanged, WriteOptions, has_replicas, recorded_objects,
};
use crate::release::{Packed, Release, Status};
use crate::storage::{Body, MarkedObject, Marks, Precondition, Sealed, Stored, Written};

/// The result of a repair.
#[derive(Debug, Default)]
pub struct Repaired {
    /// The objects that were applied.
    pub applied: Vec<Applied>,
    /// Objects that differ only in fields that other managers own, in their live state. They were not written.
    pub accepted: Vec<(ObjectKey, Live)>,
    /// The managers that changed the inspected objects, or the fact that an object was deleted.
    pub losses: Vec<(ObjectKey, OwnershipLoss)>,
    /// Jobs of a taken-over revision that finished and were deleted by the server. They are not recreated.
    pub finished: Vec<MarkedObject>,
    /// The first failure; if contact to the server was lost, that one. Otherwise, objects of all kinds were applied
    /// nevertheless, except in a takeover, which does not apply objects of later kinds.
    pub failed: Option<Error>,
}

/// Corrects drift: applies these objects of a revision again, each by the method that wrote it. Writes no record itself;
/// `deletions` records which of them are about to be deleted in order to recreate them.
///
/// An object with fields that may be handed over is read first, and not written if it differs in nothing else. Of the
/// other objects, the first `inspected` are read to find who changed them; an object that cannot be read then is repaired
/// anyway.
///
/// Objects of kinds that are no longer served are skipped, and those of a kind that is served in another scope are made
/// there, as objects that are new to the release: [`Applied::key`] has their keys. Repeating a repair changes nothing. When it fails or is
/// cancelled, some objects may already be repaired; objects of one kind are applied concurrently, kinds one after the
/// other. An object that the server rejects, that cannot be read, that the release may not contain, or that now belongs
/// to someone else keeps no other from its repair: [`Repaired::failed`] has the error.
///
/// # Errors
/// The record cannot be read, or contact to the server was lost before the first write.
pub async fn repair(
    env: &Environment<'_>,
    (version, packed): (u32, Option<&Stored<Packed>>),
    drifted: &[&MarkedObject],
    inspected: usize,
    deletions: &dyn Deletions,
) -> Result<Repaired, Error> {
    let rule = Rule::for_known(env.options.adopt);
    let release = read_sealed(env, version, packed).await?;
    apply(env, &release, With::Drifted { objects: drifted, inspected }, rule, deletions).await
}

/// Applies these objects of a revision again, whether or not they drifted.
///
/// # Errors
/// As [`repair`].
pub async fn reapply(
    env: &Environment<'_>,
    (version, packed): (u32, Option<&Stored<Packed>>),
    objects: &[&MarkedObject],
    deletions: &dyn Deletions,
) -> Result<Repaired, Error> {
    let rule = Rule::for_known(env.options.adopt);
    let release = read_sealed(env, version, packed).await?;
    apply(env, &release, With::These(objects), rule, deletions).await
}

/// The objects that [`unbind`] left to whoever keeps them.
#[derive(Debug, Default)]
pub struct Unbound {
    /// The objects, as they are then.
    pub live: Vec<(ObjectKey, Live)>,
    /// The first failure. The others were unbound nevertheless.
    pub failed: Option<Error>,
}

/// Removes the owner reference from these objects, which a person keeps, so that the garbage collector leaves them.
/// Changes nothing else, because an apply might be refused for another reason. An object that is no longer kept is left
/// unchanged.
pub async fn unbind(env: &Environment<'_>, kept: &[&MarkedObject]) -> Unbound {
    let mut unbound = Unbound::default();
    for object in kept {
        let left = Left::Before(Adopted::Owned);
        match env.applier.leave(&object.key, &object.api_version, left, &env.decoration).await {
            Ok(live) => unbound.live.extend(live.map(|live| (object.key.clone(), live))),
            Err(error) => unbound.failed = unbound.failed.or(Some(error.into())),
        }
    }
    unbound
}

/// Takes ownership of every object of a revision that Helm or an upstream operator applied: moves its managers' fields
/// to our field manager, then applies. [`record_ownership`] completes it. A missing Job counts as finished if the
/// server deletes it once it finished. An object of the revision that the server refuses to change keeps its fields.
///
/// Without the move, fields that a later chart drops would stay forever, owned by the old manager. Repeating it changes
/// nothing. An object whose digest `known` lacks may be live in another form, so it is recreated if the server refuses to
/// change it and it may be recreated; `deletions` records that before. A Job that `known` has as deleted has not finished.
///
/// If the server rejects an object, or it has no ownership metadata of Helm, [`Repaired::failed`] has the error. Objects of
/// later kinds are then not applied.
///
/// # Errors
/// The release may not contain an object. Otherwise as [`repair`].
pub async fn take_ownership(
    env: &Environment<'_>,
    release: &Admitted,
    known: &Marks,
    deletions: &dyn Deletions,
) -> Result<Repaired, Error> {
    apply(env, &release.release, With::All(known), Rule::for_new(env.options.adopt), deletions).await
}

/// Checks, before anything is written, that [`take_ownership`] may change what exists of a revision's objects.
///
/// # Errors
/// An object belongs to someone else, the release may not contain it, or it cannot be read.
pub async fn check_takeover(env: &Environment<'_>, release: &Admitted) -> Result<(), Error> {
    let objects = recorded_objects(&release.release.get().manifest, &env.decoration.namespace)?;
    let objects: Vec<Object> = served(env, objects).await?.into_iter().map(|(_, object)| object).collect();
    env.applier.check_reach(objects.iter(), &env.options.reach, &env.decoration).await?;
    let rule = Rule::for_new(env.options.adopt);
    let ruled: Vec<(&Object, Rule)> = objects.iter().map(|object| (object, rule)).collect();
    env.applier.check_ownership(&ruled, &env.decoration).await?;
    Ok(())
}

/// Which objects of a revision to apply.
#[derive(Clone, Copy)]
enum With<'a> {
    /// All objects, with the marks that are known.
    All(&'a Marks),
    These(&'a [&'a MarkedObject]),
    /// Only objects that differ in more than the fields of other managers. `inspected` of the rest are read to find who
    /// changed them.
    Drifted {
        objects: &'a [&'a MarkedObject],
        inspected: usize,
    },
}

impl With<'_> {
    /// Returns the options for these objects. A takeover does not recreate an object that the chart has not changed. A
    /// repair continues after a failure: the release is running, so no object waits for an earlier one.
    fn options(self, options: WriteOptions<'_>) -> WriteOptions<'_> {
        match self {
            With::All(_) => WriteOptions { unchanged: Unchanged::Left, ..options },
            With::These(_) | With::Drifted { .. } => WriteOptions { after_failure: AfterFailure::Continue, ..options },
        }
    }

    /// Returns whether an object may be live in another form than the revision's.
    fn is_in_doubt(self, key: &ObjectKey) -> bool {
        matches!(self, With::All(known) if known.find(key).is_some_and(|object| object.digest.is_none()))
    }

    /// Returns whether a missing object has not finished: a takeover deleted it to recreate it, or it went with a former
    /// resource. Once it is created again, it may finish.
    fn has_deleted(self, key: &ObjectKey) -> bool {
        matches!(self, With::All(known) if known.find(key).is_some_and(|object| object.deleted && !object.expires))
    }
}

async fn apply(
    env: &Environment<'_>,
    release: &Sealed<Release>,
    with: With<'_>,
    rule: Rule,
    deletions: &dyn Deletions,
) -> Result<Repaired, Error> {
    let objects = recorded_objects(&release.get().manifest, &env.decoration.namespace)?;
    let handover = Handover::new(env, &objects);
    let bases = match with {
        With::All(_) => RecordedBases::of_takeover(env, release),
        With::These(_) | With::Drifted { .. } => RecordedBases::of(env, release),
    };
    let options = WriteOptions { deletions, ..with.options(bases.write_options()) };
    let mut targets: Vec<Target<'_>> = Vec::new();
    let (mut repaired, mut failures) = (Repaired::default(), Failures::default());
    for (at, object) in objects.iter().enumerate() {
        match target(env, (object, &objects[at + 1..]), (with, rule), &handover, &mut repaired).await {
            Ok(target) => targets.extend(target),
            Err(Error::Apply(error)) if options.continues_after(&error) => failures.add(error, &options),
            Err(error) => return Err(error),
        }
    }
    match env.applier.apply_each(&targets, &options, &mut repaired.applied).await {
        Err(error) => failures.add(error, &options),
        Ok(()) => {
            for target in targets.iter().filter(|target| target.expires) {
                // It may have finished after it was found.
                let key = env.applier.key(target.object, &env.decoration).await?;
                if !repaired.applied.iter().any(|applied| applied.key == key) {
                    repaired.finished.push(finished(env, key, target.object));
                }
            }
        }
    }
    repaired.failed = failures.result().err().map(Error::Apply);
    Ok(repaired)
}

/// Returns how to write an object; `None` if it is left unchanged, which is noted, or if one of the `later` objects has
/// its key.
async fn target<'o>(
    env: &Environment<'_>,
    (object, later): (&'o Object, &[Object]),
    (with, rule): (With<'_>, Rule),
    handover: &Handover<'_>,
    repaired: &mut Repaired,
) -> Result<Option<Target<'o>>, Error> {
    // Objects of a kind that is no longer served cannot drift.
    let Some(key) = env.applier.recorded_key(object, &env.decoration).await? else { return Ok(None) };
    // Only cluster-scoped objects that name different namespaces can have the same key.
    if key.namespace.is_empty() && later.iter().any(|later| later.has_key(&key, &env.decoration.namespace)) {
        return Ok(None);
    }
    let known = match with {
        With::All(_) => None,
        With::These(objects) | With::Drifted { objects, .. } => match find(objects, &key) {
            None => return Ok(None),
            known => known,
        },
    };
    // The release's object in the other scope is gone, so this one is new to the release.
    let is_moved = known.is_some_and(|known| known.key != key);
    let rule = if is_moved { Rule::for_new(env.options.adopt) } else { rule };
    let expires = known.map_or_else(|| object.expires() && !with.has_deleted(&key), |known| known.expires);
    if expires && env.applier.find_live(&key, &object.api_version).await?.is_none() {
        repaired.finished.push(finished(env, key, object));
        return Ok(None);
    }
    if let Err(refused) = env.options.reach.admits(&key, &env.decoration.namespace) {
        return Err(ApplyError::OutOfReach(vec![refused]).into());
    }
    let handed_over = handover.of(&key);
    if let With::Drifted { inspected, .. } = with
        && !is_moved
        && let Some(found) = inspect(env, object, &key, &handed_over, repaired.losses.len() < inspected).await?
    {
        // An interrupted repair deleted it. Until it is applied again, the record says that it must not be missing.
        let was_deleted = known.is_some_and(|known| known.deleted);
        if let Some(live) = as_others_left_it(env, &found).filter(|_| !was_deleted) {
            repaired.accepted.push((key, live));
            return Ok(None);
        }
        repaired.losses.push((key.clone(), found.loss));
    }
    let client = known.is_some_and(|known| known.client);
    let previous = if client { Previous::Client { changed: false } } else { Previous::Apply };
    let (observed, changed) = (observed(env, &key, rule), with.is_in_doubt(&key));
    Ok(Some(Target { object, rule, observed, previous, changed, handed_over, expires, is_new: false }))
}

/// Returns the object with this key, or with the key that it had while its kind was served in another scope.
fn find<'o>(objects: &[&'o MarkedObject], key: &ObjectKey) -> Option<&'o MarkedObject> {
    let exact = objects.iter().find(|known| known.key == *key);
    exact.or_else(|| objects.iter().find(|known| known.key.is_in_other_scope(key))).copied()
}

fn finished(env: &Environment<'_>, key: ObjectKey, object: &Object) -> MarkedObject {
    MarkedObject { expires: true, ..MarkedObject::unapplied(key, object, &env.decoration.namespace) }
}

/// Inspects an object if its fields may be handed over, or if it `is_named`. Does not read an object that is known to
/// be deleted.
async fn inspect(
    env: &Environment<'_>,
    object: &Object,
    key: &ObjectKey,
    handed_over: &[Pointer],
    is_named: bool,
) -> Result<Option<Inspection>, Error> {
    let cached = env.live.cached(key, &env.decoration);
    let is_scaled = has_replicas(&object.body) && matches!(&cached, Cached::Ours(live) if live.scaled);
    let is_needed = is_scaled || !handed_over.is_empty();
    if !is_needed && (!is_named || cached == Cached::Absent) {
        let gone = Inspection { live: None, loss: OwnershipLoss { gone: true, ..OwnershipLoss::default() } };
        return Ok(is_named.then_some(gone));
    }
    match env.applier.inspect(object, &env.decoration, handed_over).await {
        Err(source) if is_needed => Err(ApplyError::Failed { verb: "read", object: key.to_string(), source }.into()),
        answer if is_needed => Ok(answer.ok()),
        // Only the manager that changed it matters: the object is repaired whatever it lost.
        answer => Ok(answer.ok().map(|found| Inspection { live: None, loss: found.loss })),
    }
}

/// Returns the live object if others changed only the fields that are theirs.
fn as_others_left_it(env: &Environment<'_>, found: &Inspection) -> Option<Live> {
    let is_bound = |live: &Live| live.kept && live.controller.is_some();
    let is_ours = |live: &&Live| env.decoration.ownership(live) == Ownership::Ours && !live.deleting && !is_bound(live);
    found.live.as_ref().filter(is_ours).filter(|_| found.loss.is_none()).cloned()
}

/// Returns the cached state. It suffices only for objects that we applied before.
fn observed(env: &Environment<'_>, key: &ObjectKey, rule: Rule) -> Found {
    if rule != Rule::Keep {
        return Found::Unknown;
    }
    env.live.cached(key, &env.decoration).into()
}

/// Records what is known of the objects of a deployed revision, and seals the record: complete marks say that we own
/// every one of them, incomplete ones how far a takeover got.
///
/// # Errors
/// The record cannot be written.
pub async fn record_ownership(env: &Environment<'_>, admitted: &Admitted, marks: &Marks) -> Result<Written, Error> {
    let Admitted { release, is_as_stored } = admitted;
    let first = marks.first_deployed.or(release.get().info.first_deployed);
    if release.get().apply_method == "ssa" || !is_as_stored {
        let mut release = release.get().clone();
        if release.apply_method == "ssa" {
            // Our field manager now owns the fields that Helm's did.
            release.apply_method = HELM_APPLY_METHOD.into();
        }
        release.info.first_deployed = first;
        return Ok(env.storage.update(&release, marks).await?);
    }
    let Release { namespace, name, version, .. } = release.get();
    let body = Body { version: *version, status: Status::Deployed, content: release.content() };
    let same = Precondition::of(release.get());
    let resource_version = env.storage.mark((namespace, name), &body, marks, &same).await?;
    Ok(Written { packed: release.pack()?, resource_version })
}
