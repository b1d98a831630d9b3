//! Decides whether the wait for a hook ends early: when the resource is deleted, or when its `spec`, a value source or
//! its annotation `…-disable-hooks` or `pin` changes.
//!
//! Any other change, such as the chart of a new process, is handled after the hook: only the person who sets the values
//! can know that a running migration is worthless now. See docs/decisions/0045-interrupted-hooks.md.

use std::sync::{Arc, Mutex};

use helm_release::action::{Action, Candidate};
use outside::sync::lock;
use serde_json::Value;

use crate::values_from::Resolved;
use crate::view::primary::Primary;

/// The part of a resource's desired state that concerns hooks, as of the start of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aim {
    /// The action whose hooks run, by its name in annotations.
    action: Action,
    uid: Box<str>,
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
    fn outdated(&self, now: Option<&Primary>, sources: Sources) -> Option<&'static str> {
        let Some(now) = now.filter(|now| now.uid() == &*self.uid) else {
            return Some("the resource is gone");
        };
        let aim = Aim::of(now, self.action);
        match () {
            () if now.annotations.pause() => None,
            () if aim.are_hooks_disabled && !self.are_hooks_disabled => Some("an annotation disables hooks"),
            // An uninstall takes its hooks from the record.
            () if self.action == Action::Uninstall => None,
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
}

impl Running {
    /// Records that an action starts, with values from these sources, and what it is about to record.
    pub(crate) fn begin(&self, aim: Aim, used: Vec<Used>, candidate: Option<Arc<Candidate>>) {
        *lock(&self.0) = Some(Begun { aim, used, sources: Sources::Same, candidate });
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

    /// Returns why the action's hooks are no longer waited for; `None` while they are.
    pub(crate) fn outdated(&self, now: Option<&Primary>) -> Option<&'static str> {
        let running = lock(&self.0);
        let Begun { aim, sources, .. } = running.as_ref()?;
        aim.outdated(now, *sources)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::primary::Received;

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
            assert_eq!(Aim::of(&primary(|_| ()), action).outdated(Some(&now), Sources::Same), expected, "{action:?}");
        };
        check(Action::Install, &|_| (), None);
        check(Action::Install, &changes, Some("the spec changed"));
        check(Action::Upgrade, &deletes, Some("the resource is being deleted"));
        check(Action::Upgrade, &annotated("upgrade-disable-hooks"), Some("an annotation disables hooks"));
        check(Action::Install, &annotated("upgrade-disable-hooks"), None);
        check(Action::Install, &|p| p["status"] = json!({"x": 1}), None);
        check(Action::Install, &|p| p["metadata"]["generation"] = 9.into(), None);
        check(Action::Uninstall, &changes, None);
        check(Action::Uninstall, &annotated("uninstall-disable-hooks"), Some("an annotation disables hooks"));
        let paused = annotated("pause");
        check(Action::Upgrade, &|p| (deletes(p), paused(p)).1, None);
        let suspended = annotated("suspend");
        check(Action::Upgrade, &|p| (changes(p), suspended(p)).1, None);
        check(Action::Upgrade, &|p| (deletes(p), suspended(p)).1, Some("the resource is being deleted"));
        check(Action::Upgrade, &|p| p["metadata"]["uid"] = "u2".into(), Some("the resource is gone"));
        let pin = |p: &mut Value| p["metadata"]["annotations"]["helm.sdk.operatorframework.io/pin"] = "1".into();
        check(Action::Upgrade, &pin, Some("the annotation pin changed"));
        check(Action::Uninstall, &pin, None);
        let returning = Aim::of(&primary(pin), Action::Rollback);
        assert_eq!(returning.outdated(Some(&primary(|p| (pin(p), changes(p)).1)), Sources::Changed), None);
        assert_eq!(
            Aim::of(&primary(|_| ()), Action::Uninstall).outdated(None, Sources::Same),
            Some("the resource is gone")
        );
        assert_eq!(Running::default().outdated(None), None);
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
        check(Action::Uninstall, &|_| (), None);
        check(Action::Upgrade, &annotated("pause"), None);
        check(Action::Upgrade, &annotated("suspend"), None);
    }
}
