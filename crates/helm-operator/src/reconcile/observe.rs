//! Observes a resource and its release for [`crate::reconcile::decide::state`] to decide on.

use std::sync::Arc;
use std::time::Duration;

use controller::runtime::priority::Priority;
use helm_release::kube::{Adopt, DriftPolicy, ObjectKey, Unready, digest_json};
use helm_release::release::Status;
use helm_release::storage::{MarkedObject, Marks};
use scaffold::annotations::PREFIX;
use serde_json::json;
use strum::IntoEnumIterator as _;
use tokio::time::Instant;

use super::step_context::{StepContext, UNSERVED};
use crate::reconcile::decide::beside::{self, Beside};
use crate::reconcile::decide::health::Unhealthy;
use crate::reconcile::decide::inputs::{self, NamedInput};
use crate::reconcile::decide::memory::ResourceMemory;
pub(crate) use crate::reconcile::decide::memory::share;
use crate::reconcile::decide::recorded::{Predecessor, recorded};
use crate::reconcile::decide::state::{Again, Inputs, Objects, Observed, Planning, Recorded};
use crate::view::primary::Primary;
use crate::view::release::{Holder, ReleaseRecords};

/// The reason why the annotation `adopt` has no effect.
const ADOPT_REFUSED: &str = "annotation helm.sdk.operatorframework.io/adopt: the operator's watches.yaml says adopt: never, \
    so remove the annotation, or ask whoever runs the operator";

/// The reason why the annotation `adopt` of a cluster-scoped resource has no effect.
const ADOPT_UNGRANTED: &str = "annotation helm.sdk.operatorframework.io/adopt: a cluster-scoped resource takes over nothing unless the operator's \
    watches.yaml says adopt: released or adopt: any, so remove the annotation, or ask whoever runs the operator";

/// Whether to read the objects whose drift no watch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Due,
    NotDue,
}

impl StepContext<'_> {
    pub(crate) fn observe(&self, primary: &Primary) -> Observed {
        let (release, planning) = (self.release(), self.planning(primary));
        let is_retry = planning == Planning::Due || self.shared.memory.of(self.key).is_retry();
        Observed {
            deleting: primary.deleting,
            finalizer: primary.has_finalizer(),
            suspended: primary.annotations.suspend(),
            paused: primary.annotations.pause(),
            planning,
            release: self.recorded(primary),
            invalid_annotation: self.annotation_fault(primary).is_some(),
            inputs: self.inputs(release.as_deref(), primary),
            objects: self.objects(release.as_deref(), primary),
            held: self.is_held(primary, release.as_deref()),
            listing: self.is_listing(),
            again: self.again(primary),
            upgrade_slot: self.upgrade_slot(primary, release.as_deref()),
            awaits: self.awaits(primary),
            needed: primary.deleting && self.may_be_needed(primary),
            crowded: self.is_crowded(primary),
            postponed: self.priority == Priority::Normal && self.found.is_postponed,
            contested: self.is_contested(),
            disputed: self.is_disputed(),
            blind: self.shared.cache.is_blind(self.key),
            gate: self.gate(primary, release.as_deref()),
            outdated: release.as_ref().is_some_and(|release| !release.outdated().is_empty()),
            yields: self.priority == Priority::Normal && is_retry,
        }
    }

    /// Returns how the newest revision relates to the resource.
    pub(crate) fn recorded(&self, primary: &Primary) -> Recorded {
        let memory = self.shared.memory.of(self.key);
        let is_lost = is_lost(primary, &memory) || self.beside(primary) != Beside::Nothing;
        let had_release = is_lost || memory.release.took_over;
        let recorded = recorded(
            self.release().as_deref(),
            if had_release { Predecessor::Lost } else { Predecessor::None },
            &primary.owner(),
            self.granted(primary),
            outside::now(),
        );
        match recorded {
            // Someone who replaces all records must not gain the objects by that.
            Recorded::Foreign if primary.deleting && had_own(primary, &memory) && self.is_displaced(primary) => {
                Recorded::Lost
            }
            Recorded::Foreign | Recorded::InFlight => recorded,
            // Another operator may have taken the release over: this operator must then neither delete its records nor
            // run its hooks.
            _ if primary.deleting && self.is_displaced(primary) => match is_cleared(primary, &memory) {
                true => Recorded::Foreign,
                false => Recorded::Lost,
            },
            recorded => recorded,
        }
    }

    /// Returns what records in the release's own namespace, from before the records moved, tell about a release without
    /// records here. They do not count once this process has seen the release end.
    pub(crate) fn beside(&self, primary: &Primary) -> Beside {
        let left = self.shared.cache.release_beside(primary).filter(|_| self.release().is_none());
        let Some(left) = left else { return Beside::Nothing };
        let memory = self.shared.memory.of(self.key);
        let has_ended = memory.release.removed || is_cleared(primary, &memory);
        if has_ended { Beside::Nothing } else { beside::judge(&left, primary) }
    }

    /// Returns what the resource may take over: what its annotation requests, as far as the watch grants it. A deletion
    /// takes nothing over. A release that an operator with another key took over is not taken back: its objects name
    /// another owner, which only `any` would ignore.
    pub(crate) fn granted(&self, primary: &Primary) -> Adopt {
        let is_claimed = || self.release().is_some_and(|release| release.is_claimed_from(&primary.owner()));
        match self.requested(primary) {
            _ if primary.deleting => Adopt::Never,
            Adopt::Any if is_claimed() => Adopt::Released,
            requested => requested,
        }
    }

    /// Returns which hook objects without an owner may be replaced if Helm made a revision of the release: those in its
    /// namespace, and those that the resource may take over. A deletion replaces them as well, because they may be the
    /// release's own.
    pub(crate) fn unclaimed_hooks(&self, primary: &Primary) -> Adopt {
        let is_taken_over = self.release().is_some_and(|release| release.is_taken_over());
        if is_taken_over { self.requested(primary).max(Adopt::Unowned) } else { Adopt::Never }
    }

    /// Returns what the annotation of the resource requests, as far as the watch grants it.
    fn requested(&self, primary: &Primary) -> Adopt {
        if primary.annotations.adopt() { self.adoptable(primary) } else { Adopt::Never }
    }

    /// Returns what the watch lets the resource take over. Without the key, a cluster-scoped resource takes over nothing:
    /// its release is in the operator's own namespace or a shared one, where its author need not have rights.
    fn adoptable(&self, primary: &Primary) -> Adopt {
        match self.shared.settings.adopt {
            Adopt::Unowned if primary.own_namespace().is_empty() => Adopt::Never,
            granted => granted,
        }
    }

    /// Returns why the annotation `adopt` of the resource has no effect.
    fn adoption_fault(&self, primary: &Primary) -> Option<&'static str> {
        if !primary.annotations.adopt() || self.adoptable(primary) != Adopt::Never {
            return None;
        }
        Some(if self.shared.settings.adopt == Adopt::Never { ADOPT_REFUSED } else { ADOPT_UNGRANTED })
    }

    /// Returns why an annotation of the resource is invalid, or not granted.
    pub(crate) fn annotation_fault(&self, primary: &Primary) -> Option<String> {
        let own = primary.annotations.fault().or_else(|| self.adoption_fault(primary).map(str::to_owned));
        let own = own.or_else(|| self.pin_fault(primary));
        own.or_else(|| self.shared.annotated(primary).err().map(|why| format!("annotation {PREFIX}depends-on: {why}")))
    }

    /// Returns whether this process has uninstalled this resource's release.
    pub(crate) fn is_uninstalled(&self, primary: &Primary) -> bool {
        is_cleared(primary, &self.shared.memory.of(self.key))
    }

    pub(crate) fn release(&self) -> Option<Arc<ReleaseRecords>> {
        self.shared.cache.release(self.key)
    }

    fn inputs(&self, release: Option<&ReleaseRecords>, primary: &Primary) -> Inputs {
        match self.compared(release, primary) {
            Inputs::Same if self.pinned(primary).is_some() => Inputs::Same,
            Inputs::Same if self.again(primary) == Again::Render => Inputs::Changed,
            compared => compared,
        }
    }

    /// Returns how the inputs of the deployed revision compare with the resource's, or the result of rendering.
    pub(crate) fn compared(&self, release: Option<&ReleaseRecords>, primary: &Primary) -> Inputs {
        // A pinned release follows neither its resource nor its chart.
        if self.pinned(primary).is_some() {
            return Inputs::Same;
        }
        if let Some(judged) = self.found.judged {
            return judged;
        }
        if !self.knows_sources(primary) {
            return Inputs::Unread;
        }
        let recorded = release.and_then(ReleaseRecords::deployed_marks).map(|marks| marks.inputs.as_str());
        match inputs::judge(recorded, &self.inputs_digest(primary)) {
            Inputs::Changed if recorded.is_some_and(|recorded| self.differs_by_chance(recorded, primary)) => {
                Inputs::Same
            }
            judged => judged,
        }
    }

    /// Returns whether the deployed revision stays, although the resource's inputs are others, or may be.
    pub(crate) fn is_held_back(&self, primary: &Primary) -> bool {
        let release = self.release();
        !matches!(self.compared(release.as_deref(), primary), Inputs::Same | Inputs::RenderedSame)
    }

    /// Digests everything that the objects are made from: chart, override values, value sources and the resource
    /// itself.
    pub(crate) fn inputs_digest(&self, primary: &Primary) -> String {
        let mut all = vec![json!(self.shared.renderer.digest())];
        all.extend(inputs::own(primary).map(Into::into));
        all.extend(self.sources_digest(primary));
        // The chart's digest, which comes first, also covers the override values.
        let others = NamedInput::iter().filter(|input| !matches!(input, NamedInput::Chart | NamedInput::Overrides));
        all.extend(others.filter_map(|input| self.input(input)));
        all.extend(self.keeps_strings(primary).then(|| json!("override values are strings")));
        inputs::with_scheme(&digest_json(&all.into()), &inputs::own_digest(primary))
    }

    fn objects(&self, release: Option<&ReleaseRecords>, primary: &Primary) -> Objects {
        let Some(marks) = release.and_then(ReleaseRecords::deployed_marks) else {
            return Objects::Intact;
        };
        if !marks.complete || !self.vouches_for_deployed(primary) {
            let is_own = release.is_some_and(|release| self.recorded_deployed(release, primary));
            return if is_own { Objects::Unclaimed } else { Objects::Unmarked };
        }
        let drift = match (self.drifted(marks, primary).is_empty(), self.unreported(marks, primary).is_empty()) {
            (true, true) => {
                let overdue = self.shared.cache.overdue(&self.watched(marks));
                return if overdue.is_empty() { Objects::Intact } else { Objects::Unconfirmed };
            }
            (true, false) => Objects::Unreported,
            (false, _) => Objects::Drifted,
        };
        let looping = self.shared.memory.of(self.key).drift.hold_until.is_some_and(|until| self.decided < until);
        if looping { Objects::Looping } else { drift }
    }

    /// Returns the objects that a watch covers.
    pub(crate) fn watched<'m>(&self, marks: &'m Marks) -> Vec<&'m ObjectKey> {
        marks.objects.iter().map(|object| &object.key).filter(|key| self.shared.cache.is_synced(key)).collect()
    }

    /// Returns the objects to repair, which are missing or lost fields of ours. Without a watch, returns all objects
    /// once per period. After a failed upgrade, returns only missing objects that the upgrade also renders: it may have
    /// applied the objects that exist, and pruned those that it does not render. Objects that a person keeps lose their
    /// owner reference in any case.
    pub(crate) fn drifted(&self, marks: &Marks, primary: &Primary) -> Vec<ObjectKey> {
        let reading = self.reading(primary, self.shared.memory.of(self.key).triggers.resynced);
        let repaired = marks.rendered().filter(|o| self.drift_policy(o, primary) == DriftPolicy::Repair);
        let differs = |o: &&MarkedObject| self.differs(o, reading) && !self.may_be_of_failed_upgrade(o);
        repaired.filter(|o| self.is_bound(o) || differs(o)).map(|object| object.key.clone()).collect()
    }

    /// Returns whether an object may be as the newest revision left it, which failed.
    pub(crate) fn may_be_of_failed_upgrade(&self, object: &MarkedObject) -> bool {
        let (release, cache) = (self.release().unwrap_or_default(), &self.shared.cache);
        let is_missing = cache.is_synced(&object.key) && cache.dependent(&object.key).is_none();
        let failed = release.newest().filter(|(_, newest)| newest.status == Status::Failed);
        failed.is_some_and(|(_, failed)| !is_missing || !failed.renders(&object.key))
    }

    /// Returns whether a person keeps an object whose owner reference would nevertheless let the garbage collector
    /// delete it.
    pub(crate) fn is_bound(&self, object: &MarkedObject) -> bool {
        let live = self.shared.cache.dependent(&object.key);
        live.is_some_and(|live| live.is_bound && live.ours && !live.deleting)
    }

    /// Returns whether an object is missing or lost fields of ours, or must be read to find out.
    pub(crate) fn differs(&self, object: &MarkedObject, reading: Reading) -> bool {
        let due = reading == Reading::Due;
        let cache = &self.shared.cache;
        match cache.dependent(&object.key) {
            _ if !cache.is_synced(&object.key) => {
                due && (!self.shared.settings.watch_dependent_resources || cache.is_refused(&object.key))
            }
            // It is repaired once it is deleted.
            Some(live) if live.deleting => false,
            // A repair was interrupted after it had deleted and recreated it.
            Some(_) if object.deleted => true,
            // The server keeps no managed fields.
            Some(_) if object.mark.is_none() => due,
            Some(live) => live.mark != object.mark,
            // If the server deletes a Job once it has finished, a missing one has finished.
            None => !object.expires,
        }
    }

    /// Returns the policy for an object's drift: its own annotation wins, then the resource's, then the watch's policy.
    pub(crate) fn drift_policy(&self, object: &MarkedObject, primary: &Primary) -> DriftPolicy {
        let own = || object.drift.or(primary.annotations.drift().ok().flatten());
        own().unwrap_or(self.shared.settings.drift.policy)
    }

    /// Returns how often to reconcile the resource without a reason, by its annotation or its watch; zero means never.
    pub(crate) fn period(&self, primary: &Primary) -> Duration {
        primary.annotations.reconcile_period().ok().flatten().unwrap_or(self.shared.settings.period)
    }

    /// Returns whether a period has passed since all objects were applied or read.
    pub(crate) fn reading(&self, primary: &Primary, last: Option<Instant>) -> Reading {
        let period = self.period(primary);
        let is_due = period > Duration::ZERO && last.is_none_or(|last| last.elapsed() >= period.mul_f64(0.9));
        if is_due { Reading::Due } else { Reading::NotDue }
    }

    /// Returns whether the current inputs may not be tried now, because they failed.
    pub(crate) fn is_held(&self, primary: &Primary, release: Option<&ReleaseRecords>) -> bool {
        let memory = self.shared.memory.of(self.key);
        // An action that the previous process started is finished immediately, no matter what failed before.
        let begun = release.and_then(ReleaseRecords::newest).is_some_and(|(_, newest)| newest.status.is_pending());
        let restored = memory.restored(primary).is_some_and(|until| until > self.decided);
        let attempt = self.attempt(primary);
        (restored && !begun) || memory.held_until(&attempt, self.decided).is_some() || memory.is_exhausted(&attempt)
    }

    /// Returns whether a watch that has listed covers every object of the release.
    pub(crate) fn is_watched(&self) -> bool {
        let marks =
            self.release().as_deref().and_then(ReleaseRecords::newest).and_then(|(_, newest)| newest.marks.clone());
        marks.is_some_and(|marks| marks.objects.iter().all(|object| self.shared.cache.is_synced(&object.key)))
    }

    /// Returns whether the first list of a kind in the release is still running.
    pub(crate) fn is_listing(&self) -> bool {
        self.shared.cache.is_listing(self.key)
    }

    /// Returns the deployed objects that are not ready, failed ones first.
    pub(crate) fn unhealthy(&self, marks: &Marks) -> Vec<Unhealthy> {
        let unready = marks.rendered().filter_map(|object| {
            let unready = self.unready(object)?;
            let is_live = self.shared.cache.dependent(&object.key).is_some_and(|live| !live.deleting);
            let (key, api_version, expires) = (object.key.clone(), object.api_version.clone(), object.expires);
            Some(Unhealthy { key, api_version, is_live, expires, unready })
        });
        let mut unready: Vec<Unhealthy> = unready.collect();
        unready.sort_by_key(|one| !one.unready.failed);
        unready
    }

    fn unready(&self, object: &MarkedObject) -> Option<Unready> {
        let key = &object.key;
        let because = |why: &str| Some(Unready::because(why));
        match self.shared.cache.dependent(key) {
            // The watch may have failed before it reported the deletion.
            _ if self.shared.cache.is_unserved(key) => because(UNSERVED),
            // A record may list someone else's object, whose state only its own resource reports.
            Some(live) if !live.is_of(self.key) => None,
            Some(live) if live.deleting => because("it is being deleted"),
            // Without a watch, nothing more will be known.
            Some(live) if live.is_partial && !self.shared.cache.is_synced(key) => None,
            Some(live) => live.unready.as_deref().cloned(),
            None if !object.expires && self.shared.cache.is_synced(key) => because("it does not exist"),
            None => None,
        }
    }
}

/// Returns whether there was a release whose objects may remain: its record disappeared while we watched, or the status
/// names one. A release that another resource had from the start does not count. A deleted resource whose status names no
/// release may also have had one: its uninstall has begun, or the process that installed it ended before the first status
/// write and someone removed the records.
fn is_lost(primary: &Primary, memory: &ResourceMemory) -> bool {
    let may_have_one = primary.status.is_unwritten() || primary.status.implies_release();
    let is_unnamed = primary.deleting && primary.has_finalizer() && may_have_one;
    let is_others = |lost: &Arc<ReleaseRecords>| lost.holder(&primary.owner()) == Holder::Other;
    let has_lost_one = memory.release.lost.as_ref().is_some_and(|lost| !is_others(lost));
    !is_cleared(primary, memory) && (has_lost_one || primary.status.deployed_release.is_some() || is_unnamed)
}

/// Returns whether the resource itself had a release whose objects may remain. A resource without a first status write may
/// have begun to take over the release that is there, so it does not count.
fn had_own(primary: &Primary, memory: &ResourceMemory) -> bool {
    let has_lost_own = memory.release.lost_own(&primary.owner()).is_some();
    !is_cleared(primary, memory) && (has_lost_own || primary.status.deployed_release.is_some())
}

fn is_cleared(primary: &Primary, memory: &ResourceMemory) -> bool {
    memory.release.cleared.as_deref() == Some(primary.uid())
}
