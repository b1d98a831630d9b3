//! How an object is applied.

/// An object, and how [`Scope::apply`](super::Scope::apply) writes it. An object alone is applied as the resource's own: with the resource as its
/// controller, and with force.
///
/// ```
/// use controller::native::{Apply, Conflicts, Ownership};
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
}

/// What an applied object says about its resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// The resource is its controller. An object that has another one, or none, is left alone. The default.
    #[default]
    Controller,
    /// The resource is one of its owners: the garbage collector deletes the object once all of them are gone. Objects of others are written, too.
    Owner,
    /// Nothing: the object may be in any namespace, it stays when the resource goes, and objects of others are written, too.
    None,
}

/// What happens if another field manager has a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflicts {
    /// The field is taken over. The default.
    #[default]
    TakeOver,
    /// The apply fails, and names the manager.
    Fail,
}

impl<K> From<K> for Apply<K> {
    fn from(object: K) -> Apply<K> {
        Apply { object, ownership: Ownership::default(), conflicts: Conflicts::default(), dry_run: false }
    }
}

impl<K> Apply<K> {
    /// Sets what the object says about its resource.
    #[must_use]
    pub fn owned(self, ownership: Ownership) -> Apply<K> {
        Apply { ownership, ..self }
    }

    /// Sets what happens if another field manager has a field. To leave a field to another manager altogether, such as the replicas that an autoscaler
    /// sets, leave it out of the object.
    #[must_use]
    pub fn on_conflict(self, conflicts: Conflicts) -> Apply<K> {
        Apply { conflicts, ..self }
    }

    /// Asks the server what would become of the object, and writes nothing.
    #[must_use]
    pub fn dry_run(self) -> Apply<K> {
        Apply { dry_run: true, ..self }
    }
}
