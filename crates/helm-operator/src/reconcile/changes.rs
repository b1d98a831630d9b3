//! Describes the changes of actions for their events: pruned objects and objects that were left, hooks with their
//! durations, and repaired drift. Pure.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Mutex;
use std::time::Duration;

use helm_release::kube::{Applied, ObjectKey, OwnershipLoss};
use outside::sync::lock;

use crate::status::MAX_NAMED;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RanHook {
    /// The hook's object: `Job "shop-migrate"`.
    pub(crate) object: String,
    pub(crate) took: Duration,
}

/// The end of a hook's log, not redacted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookLog {
    /// The pod and the container: `pod "a-x", container "work"`.
    pub(crate) of: String,
    pub(crate) text: String,
}

/// The hooks that ended since they were last taken. One per reconcile.
#[derive(Debug, Default)]
pub(crate) struct RanHooks(Mutex<Vec<RanHook>>, Mutex<Vec<HookLog>>);

impl RanHooks {
    pub(crate) fn add(&self, hook: RanHook) {
        lock(&self.0).push(hook);
    }

    pub(crate) fn add_log(&self, log: HookLog) {
        lock(&self.1).push(log);
    }

    pub(crate) fn take_logs(&self) -> Vec<HookLog> {
        std::mem::take(&mut *lock(&self.1))
    }

    /// Takes the hooks, and returns their description for an event.
    pub(crate) fn take(&self) -> String {
        let ran = std::mem::take(&mut *lock(&self.0));
        let one = |hook: &RanHook| format!("{} ({})", hook.object, seconds(hook.took));
        if ran.is_empty() { String::new() } else { format!("; hooks: {}", named(ran.iter().map(one))) }
    }
}

/// Objects that steps kept although their release is being removed, since the last call of `take`. One per reconcile.
#[derive(Debug, Default)]
pub(crate) struct LeftObjects(Mutex<BTreeSet<ObjectKey>>);

impl LeftObjects {
    pub(crate) fn add(&self, key: &ObjectKey) {
        lock(&self.0).insert(key.clone());
    }

    /// Takes the objects, and names the first ones for an event; returns `None` if there are none.
    pub(crate) fn take(&self) -> Option<String> {
        let left = std::mem::take(&mut *lock(&self.0));
        (!left.is_empty()).then(|| named(left.iter()))
    }
}

/// Formats `4s`, `1m 4s` or `2h 3m`.
pub(crate) fn seconds(took: Duration) -> String {
    match took.as_secs() {
        short @ ..60 => format!("{short}s"),
        medium @ ..3600 => format!("{}m {}s", medium / 60, medium % 60),
        long => format!("{}h {}m", long / 3600, long % 3600 / 60),
    }
}

/// Formats `a, b, c and 2 more`.
fn named<T: Display>(all: impl ExactSizeIterator<Item = T>) -> String {
    let more = all.len().saturating_sub(MAX_NAMED);
    let named = all.take(MAX_NAMED).map(|one| one.to_string()).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// Describes the objects that an upgrade deleted, for an event.
pub(crate) fn pruned(objects: &[ObjectKey]) -> String {
    if objects.is_empty() { String::new() } else { format!("; deleted {}", named(objects.iter())) }
}

/// Returns the objects that a repair changed. Empty if nothing had drifted, or if someone removed only fields that the
/// chart does not set: a client owns the defaults of objects that it creates.
pub(crate) fn put_back(applied: &[Applied]) -> Vec<&ObjectKey> {
    applied.iter().filter(|one| one.changed).map(|one| &one.key).collect()
}

/// Describes repaired objects for an event: `repaired Deployment "web" (kubectl changed .spec.replicas)`. `rivals`
/// contains the managers found before.
pub(crate) fn repaired(objects: &[&ObjectKey], losses: &[(ObjectKey, OwnershipLoss)]) -> String {
    let one = |key: &&ObjectKey| {
        let change = losses.iter().find(|(of, _)| of == *key).and_then(|(_, loss)| loss.describe_change());
        change.map_or_else(|| key.to_string(), |change| format!("{key} ({change})"))
    };
    format!("repaired {}", named(objects.iter().map(one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey { group: "".into(), kind: "ConfigMap".into(), namespace: "ns".into(), name: name.into() }
    }

    #[test]
    fn three_objects_are_named_and_the_rest_is_counted() {
        let keys = ["a", "b", "c", "d", "e"].map(key);
        assert_eq!(pruned(&[]), "");
        assert_eq!(pruned(&keys[..1]), "; deleted ConfigMap \"a\"");
        assert_eq!(pruned(&keys), "; deleted ConfigMap \"a\", ConfigMap \"b\", ConfigMap \"c\" and 2 more");
    }

    #[test]
    fn hooks_are_named_once_with_their_durations() {
        let ran = RanHooks::default();
        for (name, took) in [("a", 0), ("b", 64), ("c", 7400)] {
            ran.add(RanHook { object: format!("Job {name:?}"), took: Duration::from_secs(took) });
        }
        assert_eq!(ran.take(), "; hooks: Job \"a\" (0s), Job \"b\" (1m 4s), Job \"c\" (2h 3m)");
        assert_eq!(ran.take(), "");
    }

    #[test]
    fn a_repair_names_fields_and_manager_as_far_as_they_are_known() {
        let fields = vec![".data.a".to_owned()];
        let losses = [
            (key("a"), OwnershipLoss { manager: Some("kubectl".into()), fields, ..OwnershipLoss::default() }),
            (key("b"), OwnershipLoss { gone: true, ..OwnershipLoss::default() }),
            (key("c"), OwnershipLoss::default()),
        ];
        let keys = ["a", "b", "c"].map(key);
        let expected =
            "repaired ConfigMap \"a\" (kubectl changed .data.a), ConfigMap \"b\" (it was gone), ConfigMap \"c\"";
        assert_eq!(repaired(&keys.iter().collect::<Vec<_>>(), &losses), expected);
    }
}
