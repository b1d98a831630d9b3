//! Decides whether an action may wait for long, and estimates the memory that it holds meanwhile. Pure.

use helm_release::action::{Action, Candidate};
use helm_release::release::Hook;
use helm_release::release::HookEvent::{
    self, PostDelete, PostInstall, PostRollback, PostUpgrade, PreDelete, PreInstall, PreRollback, PreUpgrade,
};
use helm_release::storage::Marks;
use outside::weight;

/// Long waits of an action: for hooks, whose time limit an annotation may lift, and for the groups of an ordered
/// release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    events: &'static [HookEvent],
    /// Whether each round of objects waits for the one before.
    has_rounds: bool,
}

/// What an action needs that could not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lacking {
    /// The digest of the attempt.
    pub(crate) attempt: String,
    /// The memory that it would hold, in bytes.
    pub(crate) bytes: usize,
}

impl Waits {
    pub(crate) fn of(action: Action) -> Waits {
        let (events, has_rounds): (&'static [HookEvent], bool) = match action {
            Action::Install => (&[PreInstall, PostInstall], true),
            Action::Upgrade => (&[PreUpgrade, PostUpgrade], true),
            Action::Rollback => (&[PreRollback, PostRollback], true),
            Action::Test => (&[HookEvent::Test], false),
            // It ends, and begins anew, between two rounds.
            Action::Uninstall => (&[PreDelete, PostDelete], false),
        };
        Waits { events, has_rounds }
    }

    /// Returns what an action waits for that runs no hooks.
    pub(crate) fn without_hooks(self) -> Waits {
        Waits { events: &[], ..self }
    }

    /// Returns about how many bytes an action holds while it waits; `None` if it does not wait for long.
    pub(crate) fn bytes(self, candidate: &Candidate) -> Option<usize> {
        self.are_long(&candidate.hooks, is_ordered(candidate)).then(|| size(candidate))
    }

    /// Returns whether an action with a recorded revision's content may wait for long.
    pub(crate) fn are_long_for(self, hooks: &[Hook], marks: &Marks) -> bool {
        self.are_long(hooks, marks.has_order())
    }

    /// Returns whether an action with these hooks may wait for long. `is_ordered` is whether its objects are applied in
    /// several rounds.
    fn are_long(self, hooks: &[Hook], is_ordered: bool) -> bool {
        let runs_hooks = hooks.iter().any(|hook| self.events.iter().any(|event| hook.events.contains(event)));
        runs_hooks || self.has_rounds && is_ordered
    }
}

/// Returns about how many bytes an upgrade holds while it waits; `None` if it does not wait for long. `remedy` is the
/// same about what follows if it fails.
pub(crate) fn of_upgrade(candidate: &Candidate, waits: Waits, remedy: Option<usize>) -> Option<usize> {
    match remedy {
        Some(remedy) => Some(size(candidate) + remedy),
        None => waits.bytes(candidate),
    }
}

/// Returns whether the objects are applied in several rounds.
fn is_ordered(candidate: &Candidate) -> bool {
    let mut rounds = candidate.objects.iter().map(|object| object.turn.round());
    let first = rounds.next();
    rounds.any(|round| Some(round) != first)
}

/// Returns the memory of an action with this candidate, in bytes: the candidate and the release that it records. An
/// action that continues an interrupted one also holds the interrupted action's candidate.
fn size(candidate: &Candidate) -> usize {
    let objects: usize = candidate.objects.iter().chain(&candidate.crds).map(|object| weight(&object.body)).sum();
    let hooks: usize = candidate.hooks.iter().map(|hook| hook.manifest.len()).sum();
    2 * objects + 3 * (weight(&candidate.config) + candidate.manifest.len() + hooks)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helm::sequence::Turn;
    use helm_release::kube::Object;
    use helm_release::release::ChartDocument;
    use serde_json::{Value, json};

    use super::*;

    fn candidate(events: &[HookEvent], rounds: &[usize]) -> Candidate {
        let object = |round: &usize| Object {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: format!("a{round}"),
            namespace: None,
            body: json!({"data": {"a": "b"}}),
            template: "".into(),
            turn: if *round == 0 { Turn::default() } else { Turn::of_round(*round) },
        };
        let hook = |event: &HookEvent| Hook { events: vec![*event], manifest: "hook".into(), ..Hook::default() };
        Candidate {
            chart: Arc::new(ChartDocument::from_json("{}").unwrap()),
            config: Value::Null,
            manifest: "a".repeat(1000),
            objects: rounds.iter().map(object).collect(),
            hooks: events.iter().map(hook).collect(),
            notes: String::new(),
            crds: Vec::new(),
            duplicates: Vec::new(),
            unread: Vec::new(),
            inputs: String::new(),
        }
    }

    #[test]
    fn an_action_with_hooks_of_its_own_or_with_several_rounds_may_wait_for_long() {
        let check = |action, events: &[HookEvent], rounds: &[usize], expected: bool| {
            let bytes = Waits::of(action).bytes(&candidate(events, rounds));
            assert_eq!(bytes.is_some_and(|bytes| bytes > 3000), expected, "{action:?} {events:?} {rounds:?}");
        };
        check(Action::Install, &[], &[0, 0], false);
        check(Action::Install, &[PreUpgrade, HookEvent::Test, HookEvent::Other], &[1, 1], false);
        check(Action::Install, &[PostInstall], &[], true);
        check(Action::Upgrade, &[PreInstall, PreUpgrade], &[], true);
        check(Action::Rollback, &[PostRollback], &[], true);
        check(Action::Upgrade, &[], &[1, 2], true);
        check(Action::Upgrade, &[], &[1, 0], true);
        check(Action::Uninstall, &[], &[1, 2], false);
        check(Action::Uninstall, &[PreDelete], &[], true);
        check(Action::Test, &[HookEvent::Test], &[], true);
        assert_eq!(Waits::of(Action::Upgrade).without_hooks().bytes(&candidate(&[PreUpgrade], &[0])), None);
    }

    #[test]
    fn an_upgrade_also_holds_what_follows_its_failure() {
        let plain = candidate(&[], &[0]);
        let waits = Waits::of(Action::Upgrade);
        assert_eq!(of_upgrade(&plain, waits, None), None);
        let remedy = Waits::of(Action::Rollback).bytes(&candidate(&[PreRollback], &[0])).unwrap();
        assert!(of_upgrade(&plain, waits, Some(remedy)).is_some_and(|bytes| bytes > remedy + 3000));
    }
}
