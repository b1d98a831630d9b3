//! Determines which fields of a release's objects are left to other managers.

use super::Environment;
use crate::kube::{Object, ObjectKey, Pointer, Scaled, has_replicas};

/// The fields of a release's objects that other managers own.
pub(super) struct Handover<'a> {
    env: &'a Environment<'a>,
    scaled: Scaled,
}

impl<'a> Handover<'a> {
    /// Finds the autoscalers among the release's objects.
    pub(super) fn new(env: &'a Environment<'a>, objects: &[Object]) -> Handover<'a> {
        Handover { env, scaled: Scaled::of(objects, &env.decoration.namespace) }
    }

    /// Returns the fields of an object that the user's rules or an autoscaler of the release claim.
    pub(super) fn of(&self, key: &ObjectKey) -> Vec<Pointer> {
        let rules = self.env.options.ignore.iter().filter(|rule| rule.objects.selects(key));
        let mut pointers: Vec<Pointer> = rules.flat_map(|rule| rule.paths.iter().cloned()).collect();
        pointers.extend(self.scaled.contains(key).then(Pointer::replicas));
        pointers
    }

    /// Returns whether the object sets replicas that no autoscaler of the release owns.
    pub(super) fn sets_replicas(&self, key: &ObjectKey, object: &Object) -> bool {
        has_replicas(&object.body) && !self.scaled.contains(key)
    }
}
