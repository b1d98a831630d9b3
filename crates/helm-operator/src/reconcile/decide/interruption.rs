//! Decides whether the wait for a hook ends early: when the resource is deleted, or when its `spec`, a value source or
//! its annotation `…-disable-hooks` or `pin` changes, or when another writer records a revision: a person with
//! `helm rollback`, or this operator for a resource that takes the release over. Absence from the cache alone does not
//! mean that a resource is deleted. Nothing in the resource ends the hooks of its deletion. The hooks of an uninstall after a failed upgrade
//! can be ended until the first object is deleted, because the corrected resource would otherwise lose its release.
//!
//! Any other change, such as the chart of a new process, is handled after the hook: only the person who sets the values
//! can know that a running migration is no longer needed. See docs/decisions/0045-interrupted-hooks.md.

use std::sync::{Arc, Mutex};

use helm_release::action::{Action, Candidate};
use helm_release::release::Status;
use outside::sync::lock;
use serde_json::Value;

use crate::values_from::Resolved;
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

/// The reason once the resource no longer exists.
const GONE: &str = "the resource is gone";
/// The reason once another writer's revision has followed, or the tested revision is no longer deployed.
const REPLACED: &str = "somebody has replaced the revision";

/// The part of a resource's desired state that concerns hooks, as of the start of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aim {
    /// The action whose hooks run, by its name in annotations.
    action: Action,
    uid: Box<str>,
    /// Whether the resource is being deleted, or its release, which is then deleted to its end.
    is_deleting: bool,
    spec: Box<str>,
    are_hooks_disabled: bool,
    /// The revision that an annotation pins the release to.
    pin: Option<u32>,
}

impl Aim {
    pub(crate) fn of(primary: &Primary, action: Action) -> Aim {
        Aim {
            action,
            uid: primary.uid().into(),
            is_deleting: primary.deleting,
            spec: primary.spec.digest().into(),
            are_hooks_disabled: primary.annotations.disable_hooks(action),
            pin: primary.annotations.pin().ok().flatten(),
        }
    }

    /// Returns why the hooks of an action with this aim are no longer waited for, given the resource and the state of
    /// its value sources. While the resource is paused, the wait continues, because nothing would follow it.
    fn outdated(&self, now: &Primary, sources: Sources) -> Option<&'static str> {
        let aim = Aim::of(now, self.action);
        match () {
            () if aim.uid != self.uid => Some(GONE),
            () if now.annotations.pause() => None,
            () if aim.are_hooks_disabled && !self.are_hooks_disabled => Some("an annotation disables hooks"),
            // The deletion takes its hooks from the record, and goes on.
            () if self.action == Action::Uninstall && (self.is_deleting || aim.is_deleting) => None,
            () if aim.is_deleting => Some("the resource is being deleted"),
            () if now.annotations.leaves_alone() => None,
            () if aim.pin != self.pin => Some("the annotation pin changed"),
            // A pinned release does not follow it.
            () if self.pin.is_some() => None,
            () if aim.spec != self.spec => Some("the spec changed"),
            () => (sources == Sources::Changed).then_some("a source of values changed"),
        }
    }
}

/// Whether the value sources still hold what an action started with, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sources {
    #[default]
    Same,
    Changed,
}

/// A value source, with the digest of its content.
pub(crate) type Used = (Resolved, Value);

/// The running action, shared by the steps and the slot that they wait in.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<Option<Begun>>);

#[derive(Debug)]
struct Begun {
    aim: Aim,
    used: Vec<Used>,
    sources: Sources,
    candidate: Option<Arc<Candidate>>,
    /// Whether a read has shown that the resource no longer exists.
    is_gone: bool,
    /// What the action does to a revision, if anything.
    work: Option<Work>,
}

/// What an action does to the revision with this number.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// It makes or continues the revision.
    Makes(u32),
    /// It runs the tests of the deployed revision.
    Tests(u32),
    /// It uninstalls the release, of which it knows no later revision.
    Uninstalls(u32),
}

impl Running {
    /// Records that an action starts, with values from these sources, and what it is about to record.
    pub(crate) fn begin(&self, aim: Aim, used: Vec<Used>, candidate: Option<Arc<Candidate>>) {
        *lock(&self.0) = Some(Begun { aim, used, sources: Sources::Same, candidate, is_gone: false, work: None });
    }

    /// Records that the action makes or continues this revision.
    pub(crate) fn makes_revision(&self, version: u32) {
        if let Some(action) = &mut *lock(&self.0) {
            action.work = Some(Work::Makes(version));
        }
    }

    /// Records that the uninstall is about to delete objects, as for a resource that is deleted: only disabled hooks end
    /// its waits from now on.
    pub(crate) fn deletes(&self) {
        if let Some(action) = &mut *lock(&self.0) {
            action.aim.is_deleting = true;
        }
    }

    /// Records that the action runs the tests of this deployed revision.
    pub(crate) fn test(&self, revision: u32) {
        if let Some(action) = &mut *lock(&self.0) {
            action.work = Some(Work::Tests(revision));
        }
    }

    /// Records that the action uninstalls a release of which this is the newest known revision; 0 if none is known.
    pub(crate) fn uninstalls(&self, newest: u32) {
        if let Some(action) = &mut *lock(&self.0) {
            action.work = Some(Work::Uninstalls(newest));
        }
    }

    /// Returns why the action no longer waits for its hooks or tests, given the release's records: another writer upgrades,
    /// rolls back or uninstalls the release.
    pub(crate) fn replaced(&self, release: impl FnOnce() -> Option<Arc<ReleaseRecords>>) -> Option<&'static str> {
        let (work, uid) = lock(&self.0).as_ref().and_then(|begun| Some((begun.work?, begun.aim.uid.clone())))?;
        let release = release()?;
        let (newest, revision) = release.newest()?;
        let is_replaced = match work {
            // Helm can roll back a release that is pending. Its tests and its uninstall only rewrite the record of ours. Another
            // resource may take over a release whose action or uninstall writes nothing for long.
            Work::Makes(known) | Work::Uninstalls(known) => {
                newest > known && !(revision.is_sealed() && revision.is_marked_for(&uid))
            }
            Work::Tests(tested) => {
                let is_tested = revision.status == Status::Deployed && revision.is_marked_for(&uid);
                newest > tested || (newest == tested && !is_tested)
            }
        };
        is_replaced.then_some(REPLACED)
    }

    /// Returns what the action records. Its event may be late.
    pub(crate) fn candidate(&self) -> Option<Arc<Candidate>> {
        lock(&self.0).as_ref()?.candidate.clone()
    }

    /// Returns the value sources of the action.
    pub(crate) fn used(&self) -> Vec<Used> {
        lock(&self.0).as_ref().map(|action| action.used.clone()).unwrap_or_default()
    }

    pub(crate) fn sources_changed(&self) {
        if let Some(action) = &mut *lock(&self.0) {
            action.sources = Sources::Changed;
        }
    }

    /// Returns the uid of the action's resource if the cache has forgotten it, and no read has shown why.
    pub(crate) fn missing(&self, now: Option<&Primary>) -> Option<Box<str>> {
        let running = lock(&self.0);
        let begun = running.as_ref().filter(|begun| now.is_none() && !begun.is_gone)?;
        Some(begun.aim.uid.clone())
    }

    /// Records that the resource of the action no longer exists.
    pub(crate) fn resource_gone(&self) {
        if let Some(action) = &mut *lock(&self.0) {
            action.is_gone = true;
        }
    }

    /// Returns why the action's hooks are no longer waited for; `None` while they are. A resource that is not cached may
    /// have moved to another operator, so only a read ends the wait for its hooks.
    pub(crate) fn outdated(&self, now: Option<&Primary>) -> Option<&'static str> {
        let running = lock(&self.0);
        let Begun { aim, sources, is_gone, .. } = running.as_ref()?;
        match now {
            Some(now) => aim.outdated(now, *sources),
            None => is_gone.then_some(GONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use helm_release::storage::Marks;
    use serde_json::{Value, json};

    use super::*;
    use crate::view::primary::Received;
    use crate::view::release::Trust;

    fn primary(change: impl FnOnce(&mut Value)) -> Primary {
        let mut object = json!({
            "apiVersion": "example.com/v1", "kind": "Shop", "spec": {"a": 1},
            "metadata": {"name": "a", "namespace": "ns", "uid": "u1", "annotations": {}},
        });
        change(&mut object);
        serde_json::from_value::<Received>(object).unwrap().primary
    }

    fn annotated(key: &'static str) -> impl Fn(&mut Value) {
        move |p| p["metadata"]["annotations"][format!("helm.sdk.operatorframework.io/{key}")] = "true".into()
    }

    #[test]
    fn only_a_deletion_another_spec_and_disabled_hooks_end_a_wait() {
        let changes = |p: &mut Value| p["spec"]["a"] = 2.into();
        let deletes = |p: &mut Value| p["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let check = |action, change: &dyn Fn(&mut Value), expected: Option<&str>| {
            let now = primary(change);
            assert_eq!(Aim::of(&primary(|_| ()), action).outdated(&now, Sources::Same), expected, "{action:?}");
        };
        check(Action::Install, &|_| (), None);
        check(Action::Install, &changes, Some("the spec changed"));
        check(Action::Upgrade, &deletes, Some("the resource is being deleted"));
        check(Action::Upgrade, &annotated("upgrade-disable-hooks"), Some("an annotation disables hooks"));
        check(Action::Install, &annotated("upgrade-disable-hooks"), None);
        check(Action::Install, &|p| p["status"] = json!({"x": 1}), None);
        check(Action::Install, &|p| p["metadata"]["generation"] = 9.into(), None);
        check(Action::Uninstall, &changes, Some("the spec changed"));
        check(Action::Uninstall, &|p| (changes(p), deletes(p)).1, None);
        check(Action::Uninstall, &annotated("uninstall-disable-hooks"), Some("an annotation disables hooks"));
        let paused = annotated("pause");
        check(Action::Upgrade, &|p| (deletes(p), paused(p)).1, None);
        let suspended = annotated("suspend");
        check(Action::Upgrade, &|p| (changes(p), suspended(p)).1, None);
        check(Action::Upgrade, &|p| (deletes(p), suspended(p)).1, Some("the resource is being deleted"));
        check(Action::Upgrade, &|p| p["metadata"]["uid"] = "u2".into(), Some(GONE));
        let pin = |p: &mut Value| p["metadata"]["annotations"]["helm.sdk.operatorframework.io/pin"] = "1".into();
        check(Action::Upgrade, &pin, Some("the annotation pin changed"));
        check(Action::Uninstall, &pin, Some("the annotation pin changed"));
        check(Action::Uninstall, &|p| (pin(p), suspended(p)).1, None);
        check(Action::Uninstall, &|p| (pin(p), deletes(p)).1, None);
        let leaving = Aim::of(&primary(deletes), Action::Uninstall);
        assert_eq!(leaving.outdated(&primary(|p| (deletes(p), pin(p), changes(p)).1), Sources::Changed), None);
        let running = Running::default();
        running.begin(Aim::of(&primary(|_| ()), Action::Uninstall), Vec::new(), None);
        running.sources_changed();
        let corrected = primary(|p| (pin(p), changes(p)).1);
        assert_eq!(running.outdated(Some(&corrected)), Some("the annotation pin changed"));
        running.deletes();
        assert_eq!(running.outdated(Some(&corrected)), None, "its objects are deleted already");
        let disabled = primary(annotated("uninstall-disable-hooks"));
        assert_eq!(running.outdated(Some(&disabled)), Some("an annotation disables hooks"));
        let returning = Aim::of(&primary(pin), Action::Rollback);
        assert_eq!(returning.outdated(&primary(|p| (pin(p), changes(p)).1), Sources::Changed), None);
        assert_eq!(Running::default().outdated(None), None);
    }

    #[test]
    fn a_resource_that_is_not_cached_ends_a_wait_only_once_a_read_has_shown_that_it_is_gone() {
        let (running, known) = (Running::default(), primary(|_| ()));
        assert_eq!(running.missing(None), None);
        running.begin(Aim::of(&known, Action::Uninstall), Vec::new(), None);
        assert_eq!((running.missing(Some(&known)), running.outdated(Some(&known))), (None, None));
        assert_eq!((running.missing(None).as_deref(), running.outdated(None)), (Some("u1"), None));
        running.resource_gone();
        assert_eq!((running.missing(None), running.outdated(None)), (None, Some(GONE)));
    }

    #[test]
    fn only_a_later_revision_of_somebody_else_ends_the_wait_of_an_action_or_an_uninstall() {
        let check_one = |action, known, owner: &str, trust, expected: Option<&str>| {
            let running = Running::default();
            running.begin(Aim::of(&primary(|_| ()), action), Vec::new(), None);
            match action {
                Action::Uninstall => running.uninstalls(known),
                _ => running.makes_revision(known),
            }
            let marks = || Marks { owner: owner.into(), ..Marks::default() };
            let mut release =
                ReleaseRecords::written_by_us(&[(Status::Uninstalling, marks()), (Status::PendingRollback, marks())]);
            release.revisions.iter_mut().for_each(|(_, revision)| revision.trust = trust);
            assert_eq!(running.replaced(|| Some(Arc::new(release))), expected, "{action:?} {known} {owner} {trust:?}");
        };
        let check = |known, owner: &str, trust, expected| {
            for action in [Action::Uninstall, Action::Upgrade] {
                check_one(action, known, owner, trust, expected);
            }
        };
        check(1, "u1", Trust::Foreign, Some(REPLACED));
        check(2, "u1", Trust::Foreign, None);
        check(1, "u1", Trust::Written(None), None);
        check(1, "another resource", Trust::Written(None), Some(REPLACED));
        check(2, "another resource", Trust::Written(None), None);
    }

    #[test]
    fn other_values_from_a_source_end_a_wait_as_another_spec_does() {
        let check = |action, change: &dyn Fn(&mut Value), expected: Option<&str>| {
            let running = Running::default();
            running.begin(Aim::of(&primary(|_| ()), action), Vec::new(), None);
            running.sources_changed();
            assert_eq!(running.outdated(Some(&primary(change))), expected, "{action:?}");
        };
        check(Action::Upgrade, &|_| (), Some("a source of values changed"));
        check(Action::Uninstall, &|_| (), Some("a source of values changed"));
        check(Action::Upgrade, &annotated("pause"), None);
        check(Action::Upgrade, &annotated("suspend"), None);
    }
}
