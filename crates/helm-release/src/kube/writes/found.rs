//! What is known of a live object before a write.

use serde_json::Value;

use crate::kube::live_state::live::Proven;
use crate::kube::live_state::ownership::Ownership;
use crate::kube::writes::leave::Adopted;
use crate::kube::writes::managed_fields::ManagedFields;

/// The known state of a live object before a write.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Nothing is known; it is read first.
    Unknown,
    /// It does not exist.
    Absent,
    /// A watch has shown that it is ours and was applied by us.
    Ours {
        /// The object's uid and resource version.
        proven: Proven,
        /// Whether someone else set its number of replicas.
        scaled: bool,
        /// Whether its annotation keeps it.
        kept: bool,
    },
    /// It was read, and the rule admits it.
    Read(Box<Existing>),
}

impl Found {
    /// Returns the state of an object that the release already contains, with how it was adopted if that is not settled
    /// yet.
    pub(crate) fn of_release(mut self, adopted: Option<Adopted>) -> Found {
        if let Found::Read(existing) = &mut self {
            existing.adopted = adopted;
        }
        self
    }

    /// Keeps of its managed fields only what the write needs. `owner` is the owner's uid; empty if there is no owner.
    pub(in crate::kube) fn reduced(mut self, owner: &str) -> Found {
        if let Found::Read(existing) = &mut self {
            let known = std::mem::replace(&mut existing.managed_fields, ManagedFields::Stay);
            existing.managed_fields = known.reduced(owner);
        }
        self
    }

    /// Returns the state of an object that a watch showed to be ours, read again because it has changed since then. If it
    /// is still ours, its controller may go on writing its status until the write.
    pub(in crate::kube) fn seen_again(mut self) -> Found {
        if let Found::Read(existing) = &mut self {
            existing.is_ours_now = existing.stays;
        }
        self
    }

    /// Returns whether the object must be read before it is written.
    pub(in crate::kube) fn must_be_read(&self) -> bool {
        match self {
            Found::Unknown => true,
            Found::Read(existing) => matches!(existing.managed_fields, ManagedFields::Move),
            Found::Absent | Found::Ours { .. } => false,
        }
    }

    /// Returns the uid and the owner of the known object; `None` if no object is known.
    pub(in crate::kube) fn owned(&self) -> Option<(&str, Ownership)> {
        match self {
            Found::Ours { proven, .. } => Some((&proven.uid, Ownership::Ours)),
            Found::Read(existing) => Some((&existing.uid, existing.owner.clone())),
            Found::Unknown | Found::Absent => None,
        }
    }

    /// Returns the known resource version; `None` if no object is known.
    pub(in crate::kube) fn resource_version(&self) -> Option<&str> {
        match self {
            Found::Ours { proven, .. } => Some(&proven.resource_version),
            Found::Read(existing) => Some(&existing.resource_version),
            Found::Unknown | Found::Absent => None,
        }
    }

    /// Returns whether the live object's annotation keeps it.
    pub(in crate::kube) fn is_kept(&self) -> bool {
        match self {
            Found::Ours { kept, .. } => *kept,
            Found::Read(existing) => existing.kept,
            Found::Unknown | Found::Absent => false,
        }
    }

    /// Returns whether the object existed before the release and does not belong to the resource.
    pub(in crate::kube) fn is_adopted(&self) -> bool {
        let Found::Read(existing) = self else { return false };
        existing.adopted.is_some_and(Adopted::is_untied)
    }
}

/// A live object that the rule admits.
#[derive(Clone, Debug)]
pub(crate) struct Existing {
    pub(in crate::kube) uid: String,
    pub(in crate::kube) resource_version: String,
    pub(in crate::kube) managed_fields: ManagedFields,
    pub(in crate::kube) scaled: bool,
    /// Whether its annotation keeps it.
    pub(in crate::kube) kept: bool,
    /// The object without its managed fields; `None` if only its metadata was read.
    pub(in crate::kube) whole: Option<Value>,
    /// How the object is adopted by a release that does not contain it yet.
    pub(crate) adopted: Option<Adopted>,
    /// How the release adopts it if somebody else has made it; `None` if nobody else has.
    pub(crate) made_by_others: Option<Adopted>,
    /// Whether it is the release's, is not being deleted, and does not go with a former resource.
    pub(crate) stays: bool,
    /// Whether it stays by a read for the write that follows, which may find it in any state.
    pub(in crate::kube) is_ours_now: bool,
    /// Who owned it when it was read.
    pub(in crate::kube) owner: Ownership,
}

impl Existing {
    /// Describes a live object, from its JSON, for a server-side write that ignores replicas and resource policy. The
    /// caller has checked its owner.
    pub(in crate::kube) fn of(live: &Value) -> Existing {
        let metadata = &live["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        Existing {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            managed_fields: ManagedFields::Known(metadata["managedFields"].clone()),
            scaled: false,
            kept: false,
            whole: None,
            adopted: None,
            made_by_others: None,
            stays: false,
            is_ours_now: false,
            owner: Ownership::Ours,
        }
    }
}
