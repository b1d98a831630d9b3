//! Decides which objects of a revision to check, apply, skip and prune.

use std::cmp::Reverse;
use std::collections::HashMap;

use helm::sequence::Turn;

use super::deletions::AttemptDeletions;
use super::{ActionKind, Attempt, Changes};
use crate::action::deletion::delete;
use crate::action::keys::is_outscoped;
use crate::action::moved::is_one_of;
use crate::action::order::{Awaited, order, rounds, until_ready};
use crate::action::{Cached, CachedObject, Current, Environment, Error};
use crate::kube::{
    Applied, Decoration, Found, Left, Object, ObjectKey, Owner, Previous, Removal, Rule, Target, Unchanged,
    WriteOptions, objects_of, uninstall_order,
};
use crate::release::{Hook, HookEvent, HookPhase, Release};
use crate::storage::{MarkedObject, Marks};

/// Live objects as read before the first write.
pub(in crate::action) type Observations = HashMap<ObjectKey, Found>;

impl Attempt<'_> {
    /// Reads all objects that the release is not known to own, and fails on any conflict before anything is written.
    pub(super) async fn check_ownership(&self) -> Result<Observations, Error> {
        let (env, candidate) = (self.env, self.candidate);
        let unknown =
            |key: &ObjectKey| self.rule(key) != Rule::Keep || env.live.cached(key, &env.decoration) == Cached::Unknown;
        let objects = candidate.objects.iter().zip(&self.keys).filter(|(_, key)| unknown(key));
        let objects: Vec<(&Object, Rule)> = objects.map(|(object, key)| (object, self.rule(key))).collect();
        Ok(env.applier.check_ownership(&objects, &env.decoration).await?.into_iter().collect())
    }

    /// Fails if the release may not contain one of the candidate's objects or hooks, before anything is written.
    pub(super) async fn check_reach(&self) -> Result<(), Error> {
        let (env, candidate) = (self.env, self.candidate);
        // A hook whose manifest is invalid fails when it runs, with its template's name.
        let hooks = candidate.hooks.iter().filter(|_| !env.options.disable_hooks);
        let hooks: Vec<Object> = hooks.filter_map(|hook| objects_of(&hook.manifest).ok()).flatten().collect();
        let objects = candidate.objects.iter().chain(&hooks);
        Ok(env.applier.check_reach(objects, &env.options.reach, &env.decoration).await?)
    }

    /// Applies the candidate's objects, one round after the other if the release has an order, then prunes. Jobs that were applied, and that the server
    /// deletes once they finished, are noted in `ahead`: an attempt that continues after a failure does not run them again.
    pub(super) async fn apply(
        &self,
        observations: &Observations,
        release: &Release,
        ahead: &mut Marks,
    ) -> Result<Changes, Error> {
        let rounds = rounds(&self.candidate.objects);
        let mut applied = Vec::with_capacity(self.keys.len());
        for (at, round) in rounds.iter().enumerate() {
            let before = applied.len();
            self.apply_round(round, observations, release, ahead, &mut applied).await?;
            if at + 1 < rounds.len() {
                self.note_round(release, ahead, &applied[before..]).await?;
                self.await_round(round, (at + 1, rounds.len()), ahead, observations).await?;
            }
        }
        match self.prune(release, ahead).await {
            Ok(pruned) => Ok(Changes { applied, pruned }),
            Err(error) => {
                if error.is_refused_deletion() {
                    self.env.live.applied(&applied).await;
                    note(ahead, self.marks(&applied, release, observations).objects);
                }
                Err(error)
            }
        }
    }

    /// Applies the objects at these positions.
    async fn apply_round(
        &self,
        round: &[usize],
        observations: &Observations,
        release: &Release,
        ahead: &mut Marks,
        applied: &mut Vec<Applied>,
    ) -> Result<(), Error> {
        let target = |at: &usize| self.target(&self.candidate.objects[*at], &self.keys[*at], observations);
        let targets: Vec<Target<'_>> = round.iter().filter_map(target).collect();
        let before = applied.len();
        let deletions = AttemptDeletions::new(self, release, ahead);
        let options = WriteOptions { deletions: &deletions, ..self.write_options() };
        let each = self.env.applier.apply_each(&targets, &options, applied).await;
        if let Some(noted) = deletions.into_marks() {
            *ahead = noted;
        }
        for job in applied[before..].iter().filter(|job| job.expires) {
            let noted = ahead.objects.iter_mut().filter(|object| object.key == job.key);
            noted.for_each(|object| object.expires = true);
        }
        Ok(each?)
    }

    /// Returns how the action writes. If an object cannot be changed and the chart has not changed it, the action neither
    /// fails nor runs a Job again.
    pub(in crate::action) fn write_options(&self) -> WriteOptions<'_> {
        WriteOptions { unchanged: Unchanged::Left, ..self.bases.write_options() }
    }

    /// Records what a round applied, so that a continuation does not apply it again.
    async fn note_round(&self, release: &Release, ahead: &mut Marks, applied: &[Applied]) -> Result<(), Error> {
        if applied.is_empty() {
            return Ok(());
        }
        self.env.live.applied(applied).await;
        note(ahead, applied.iter().map(MarkedObject::from));
        self.env.storage.update(release, ahead).await?;
        Ok(())
    }

    /// Waits until the objects at these positions are ready, as far as later rounds wait for them.
    ///
    /// Records also tell whether a Job expires: the server, rather than the chart, may have given it a TTL.
    async fn await_round(
        &self,
        round: &[usize],
        number: (usize, usize),
        ahead: &Marks,
        observations: &Observations,
    ) -> Result<(), Error> {
        let awaited = |at: &usize| {
            let (object, key) = (&self.candidate.objects[*at], &self.keys[*at]);
            let is_recorded = || ahead.find(key).is_some_and(|known| known.expires);
            let expires = object.expires() || is_recorded() || self.may_have_finished(object, key, observations);
            object.turn.is_awaited().then_some(Awaited { object, key, expires })
        };
        let awaited: Vec<Awaited<'_>> = round.iter().filter_map(awaited).collect();
        Ok(until_ready(self.env, &awaited, number).await?)
    }

    /// Returns whether the candidate's objects are applied in rounds.
    pub(super) fn is_ordered(&self) -> bool {
        self.candidate.objects.iter().any(|object| object.turn != Turn::default())
    }

    /// Returns whether the record of an unfinished attempt may already hold marks of applied objects.
    pub(super) fn may_find_marks(&self) -> bool {
        self.is_ordered() || self.current.is_some_and(|current| current.is_continued_with(&self.candidate.inputs))
    }

    /// Returns which existing object may be changed. Objects that the last revision applied belong to the release until
    /// another owner claims them.
    ///
    /// So do objects that an unfinished attempt has applied and recorded, in an ordered release or before refused
    /// deletions.
    fn rule(&self, key: &ObjectKey) -> Rule {
        let is_recorded = |known: &MarkedObject| known.mark.is_some() && self.may_find_marks();
        let had = |current: &Current| {
            let known = current.inventory.find(key);
            known.is_some_and(|known| current.inventory.complete || is_recorded(known))
        };
        let had = self.current.is_some_and(had);
        let adopt = self.env.options.adopt;
        if had { Rule::for_known(adopt) } else { Rule::for_new(adopt) }
    }

    /// Returns how to apply an object; `None` if it is unchanged since the last revision. A Job that finished and that
    /// the server deleted is unchanged.
    pub(in crate::action) fn target<'a>(
        &self,
        object: &'a Object,
        key: &ObjectKey,
        observations: &Observations,
    ) -> Option<Target<'a>> {
        let (env, rule) = (self.env, self.rule(key));
        let recorded = self.current.and_then(|c| c.inventory.find(key));
        let known = recorded.filter(|_| rule == Rule::Keep);
        let observed = match (observations.get(key), env.live.cached(key, &env.decoration)) {
            (_, Cached::Ours(live))
                if known.is_some_and(|k| is_intact(k, &live) && is_same(object, k, env))
                    && self.is_tied_as_before()
                    && !self.takes_replicas_back(key, object) =>
            {
                return None;
            }
            (Some(read), _) => match recorded {
                Some(known) => read.clone().of_release(known.adopted),
                None => read.clone(),
            },
            (None, cached) => cached.into(),
        };
        let expires = self.may_have_finished(object, key, observations);
        if expires && matches!(observed, Found::Absent) {
            return None;
        }
        let previous = match recorded {
            Some(known) if known.client => Previous::Client { changed: !is_same(object, known, env) },
            _ => Previous::Apply,
        };
        // After an unfinished or failed action, a live object may come from any revision since the last good one;
        // `bases` holds the recorded ones. An adopted object may come from none of them.
        let is_other = |known: &MarkedObject| known.adopted.is_some() || !is_same(object, known, env);
        let changed = recorded.is_none_or(is_other) || self.current.is_some_and(Current::lacks_revisions);
        let is_settled = self.current.is_some_and(|current| current.has_settled(key));
        let is_new = rule != Rule::Keep && !is_settled && matches!(observed, Found::Absent);
        let handed_over = self.handover.of(key);
        Some(Target { object, rule, observed, previous, changed, handed_over, expires, is_new })
    }

    /// Returns whether a Job in this form has finished if it is missing: the server deletes it then, and it is known to
    /// have been applied. If the process ended before it recorded that, the live Job shows it, unless the Job existed
    /// before the release.
    pub(super) fn may_have_finished(&self, object: &Object, key: &ObjectKey, observations: &Observations) -> bool {
        let recorded = self.current.and_then(|current| current.inventory.find(key));
        let is_live = || matches!(observations.get(key), Some(Found::Read(found)) if found.stays);
        recorded.is_some_and(|known| {
            let is_its_own = !known.deleted && known.adopted.is_none();
            let was_applied = known.expires || (is_its_own && object.expires() && is_live());
            was_applied && is_same(object, known, self.env)
        })
    }

    /// Returns whether a Job that may have finished ran for the release's owner, according to the records. A Job that
    /// ran for another resource belongs to the owner only once the release does: this action may be refused, and
    /// nothing else of the release may be left when the next one begins.
    pub(super) fn has_run_for_owner(&self, key: &ObjectKey) -> bool {
        let (Some(owner), Some(current)) = (&self.env.decoration.owner, self.current) else { return true };
        let is_recorded = || current.inventory.find(key).is_some_and(|known| known.expires);
        !current.inventory.is_anothers(owner) || (is_recorded() && !current.finished_for_former.contains(key))
    }

    /// Returns whether objects name the same owner in the same way as in the last revision. The garbage collector
    /// deletes objects that name an earlier owner.
    pub(super) fn is_tied_as_before(&self) -> bool {
        let decoration = &self.env.decoration;
        let is_owner = |uid: &str| uid.is_empty() || decoration.owner.as_ref().is_none_or(|owner| owner.uid == uid);
        self.current
            .is_none_or(|current| current.inventory.tie() == decoration.tie && is_owner(&current.inventory.owner))
    }

    /// Returns whether the release drops an autoscaler, which may have scaled this object. The object itself does not
    /// show that: the server records no manager for a scaled field without an earlier owner.
    fn takes_replicas_back(&self, key: &ObjectKey, object: &Object) -> bool {
        let is_autoscaler = |key: &ObjectKey| &*key.group == "autoscaling" && &*key.kind == "HorizontalPodAutoscaler";
        let mut known = self.current.iter().flat_map(|c| &c.inventory.objects).map(|object| &object.key);
        self.handover.sets_replicas(key, object)
            && known.any(|known| is_autoscaler(known) && !self.keys.contains(known))
    }

    /// Deletes objects that the candidate no longer contains, in Helm's uninstall order, later rounds first. Returns
    /// the deleted ones. `ahead` lists them after the candidate's objects, and says which ones only leave the release.
    /// Objects that the action's hooks have made stay. If the server refuses to delete some, the others are deleted
    /// nevertheless.
    ///
    /// Kept objects may still name the resource that this one took the release from. No record lists them from now on,
    /// so they lose that reference here; otherwise the garbage collector would delete them with that resource.
    async fn prune(&self, release: &Release, ahead: &mut Marks) -> Result<Vec<ObjectKey>, Error> {
        let old = ahead.objects.iter().skip(self.keys.len());
        let mut dropped: Vec<MarkedObject> = old.filter(|o| !o.kept).cloned().collect();
        if dropped.is_empty() {
            return Ok(Vec::new());
        }
        let (hooks, namespace) = (self.objects_of_hooks(release), &self.env.decoration.namespace);
        dropped.retain(|dropped| !hooks.iter().any(|object| object.has_key(&dropped.key, namespace)));
        uninstall_order(&mut dropped, |o| &o.key.kind);
        dropped.sort_by_key(|object| Reverse(order(object.turn)));
        self.note_pruned(&dropped, release, ahead).await?;
        let (mut pruned, mut refused) = (Vec::new(), Ok(()));
        let former = self.former();
        for object in &dropped {
            if is_outscoped(self.env, &ahead.objects, object).await {
                continue;
            }
            match self.prune_one(object, former.as_ref()).await.map_err(Error::of_prune) {
                Ok(true) => pruned.push(object.key.clone()),
                Ok(false) => {}
                // The other objects are deleted nevertheless: another object of the release may already do their work.
                Err(error) if error.is_refused_deletion() => refused = refused.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        refused.map(|()| pruned)
    }

    /// Deletes an object that the candidate no longer contains, not even in another API group. Returns whether it did. A
    /// kept object loses its reference to the former owner.
    async fn prune_one(&self, object: &MarkedObject, former: Option<&Decoration>) -> Result<bool, Error> {
        let staying = self.candidate.objects.iter().zip(&self.keys).map(|(object, key)| (key, &*object.api_version));
        if is_one_of(self.env, staying, object).await? {
            return Ok(false);
        }
        let removal = delete(self.env, object).await?;
        if let (Removal::Kept, Some(former)) = (&removal, former) {
            self.env.applier.leave(&object.key, &object.api_version, Left::HasSuccessor, former).await?;
        }
        Ok(matches!(removal, Removal::Sent(_)))
    }

    /// Returns the objects that the action's hooks have made so far.
    fn objects_of_hooks(&self, release: &Release) -> Vec<Object> {
        let hooks = release.hooks.iter().filter(|hook| !self.env.options.disable_hooks && has_run(hook, &self.kind));
        hooks.filter_map(|hook| objects_of(&hook.manifest).ok()).flatten().collect()
    }

    /// Returns the decoration of the resource that this one is taking the release from. Only its uid is known, which
    /// suffices to recognize owner references.
    fn former(&self) -> Option<Decoration> {
        let (owner, uid) = (self.env.decoration.owner.as_ref()?, &self.current?.inventory.owner);
        let former = Owner { uid: uid.to_string(), ..owner.clone() };
        let is_another = !uid.is_empty() && former.uid != owner.uid;
        is_another.then(|| Decoration { owner: Some(former), ..self.env.decoration.clone() })
    }
}

/// Records these objects as applied in an action's marks.
pub(super) fn note(ahead: &mut Marks, applied: impl IntoIterator<Item = MarkedObject>) {
    for one in applied {
        if let Some(object) = ahead.objects.iter_mut().find(|object| object.key == one.key) {
            let MarkedObject { adopted, deleted, attempted, .. } = *object;
            *object = MarkedObject { adopted, deleted, attempted, ..one };
        }
    }
}

/// Returns whether a hook has run once the objects are applied: a pre hook has, and a post hook only if the action was
/// interrupted after that.
fn has_run(hook: &Hook, kind: &ActionKind) -> bool {
    let has = |event: HookEvent| hook.events.contains(&event);
    has(kind.before) || (has(kind.after) && hook.last_run.phase != HookPhase::NotRun)
}

/// Returns whether a live object is unchanged since it was applied. An object that an action was about to delete but
/// did not is applied again, because its record no longer says that it may finish.
fn is_intact(known: &MarkedObject, live: &CachedObject) -> bool {
    let is_noted = known.deleted && !known.expires;
    known.mark.is_some() && live.mark == known.mark && !is_noted
}

fn is_same(object: &Object, known: &MarkedObject, env: &Environment<'_>) -> bool {
    known.is_of(object, &env.decoration.namespace)
}
