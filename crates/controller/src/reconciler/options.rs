//! Options for applying an object.

/// An object, and how [`Scope::apply`](super::Scope::apply) writes it. An object alone is applied as the resource's
/// own: with the resource as its controller, and with force.
///
/// ```
/// use controller::reconciler::{Apply, Conflicts, Ownership};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let shared = ConfigMap::default();
/// let apply = Apply::from(shared).owned(Ownership::None).on_conflict(Conflicts::Fail);
/// ```
#[derive(Clone, Debug)]
pub struct Apply<K> {
    pub(super) object: K,
    pub(super) ownership: Ownership,
    pub(super) conflicts: Conflicts,
    pub(super) dry_run: bool,
    pub(super) create_only: bool,
}

/// The owner reference of an applied object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// The resource is the object's controller. An object with another controller, or without one, is not written. The
    /// default.
    #[default]
    Controller,
    /// The resource is one of the object's owners: the garbage collector deletes the object after the last of them.
    /// Objects with other owners are also written, but not one without any that the reconciler has never applied: it
    /// would be deleted with the resource. Each resource's reference has its own field manager, `<name of the
    /// reconciler>-<uid>`, and is written after the object.
    Owner,
    /// The object has no owner reference: it may be in any namespace and outlives the resource. Objects with other
    /// owners are also written.
    None,
}

/// What happens if another field manager has a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflicts {
    /// The apply takes the field over. The default.
    #[default]
    TakeOver,
    /// The apply fails, and the error names the manager.
    Fail,
}

impl<K> From<K> for Apply<K> {
    fn from(object: K) -> Apply<K> {
        let (ownership, conflicts) = (Ownership::default(), Conflicts::default());
        Apply { object, ownership, conflicts, dry_run: false, create_only: false }
    }
}

impl<K> Apply<K> {
    /// Sets the owner reference of the object.
    #[must_use]
    pub fn owned(self, ownership: Ownership) -> Apply<K> {
        Apply { ownership, ..self }
    }

    /// Sets what happens if another field manager has a field. To leave a field to another manager for good, such as
    /// the replicas that an autoscaler sets, omit it from the object.
    #[must_use]
    pub fn on_conflict(self, conflicts: Conflicts) -> Apply<K> {
        Apply { conflicts, ..self }
    }

    /// Leaves an object that exists as it is, but for [`Ownership::Owner`]'s reference, and returns it, whether or not the
    /// cache has seen it yet. What is generated, such as a password, needs this: a cache that lags behind the last
    /// write lacks the object, and the next reconcile would replace it with another one.
    #[must_use]
    pub fn create_only(self) -> Apply<K> {
        Apply { create_only: true, ..self }
    }

    /// Makes the apply a dry run: the server returns the object that it would store, and stores nothing.
    #[must_use]
    pub fn dry_run(self) -> Apply<K> {
        Apply { dry_run: true, ..self }
    }
}
