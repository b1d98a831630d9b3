//! Applies, prunes and deletes the objects of a release, runs its hooks, and computes readiness. Counterpart: Helm's
//! `pkg/kube`, with server-side apply and ownership marks instead of three-way merges.
//!
//! All requests go through [`Api`]: raw requests with prepared JSON, sent by kube's client or served by [`MemoryApi`]
//! in tests.
//!
//! # Rules
//! - [`Applier`] changes or deletes only objects whose own metadata allows it ([`Ownership`]); being listed in a
//!   manifest proves nothing.
//! - A write names the uid that was checked, and a deletion also the resource version, as does a write of what only a watch
//!   has shown. If either changed since then, the object is checked again.
//! - A [`Mark`] digests the managed fields that are ours. It changes when another manager takes over a field, and so
//!   reveals drift from metadata alone.

mod kinds;

mod objects;

mod live_state;

mod fields;

mod waiting;

mod writes;

mod hooks;

#[cfg(test)]
mod tests;

pub use fields::ownership_loss::OwnershipLoss;
pub use hooks::HookError;
pub use kinds::mapping::Mapper;
pub use kinds::resource::Resource;
pub use live_state::live::{Live, LiveMetadata, Mark, Proven};
pub use live_state::ownership::{Adopt, NotOurs, Ownership};
pub use live_state::readiness::{Readiness, Unready, progress_of};
pub use live_state::whole::Whole;
pub use objects::decoded::OPEN_FIELDS;
pub use objects::decorate::{
    CHART_LABEL, Decoration, FIELD_MANAGER, Former, HOOK_RUN_ANNOTATION, Owner, Tie, label_value,
};
pub use objects::duplicate::{Duplicate, deduplicate};
pub use objects::object::{Object, ObjectDigest, ObjectError, ObjectFault, ObjectKey, Weight, digest_json, objects_of};
pub use objects::order::install_order;
pub use objects::pointer::{Pointer, PointerError};
pub use objects::rules::{DRIFT_ANNOTATION, DriftPolicy, IgnoreRule, ObjectRule, RECREATE_ANNOTATION};
pub use outside::{
    Api, Call, Disturbance, Error, MAX_RESPONSE_BYTES, MemoryApi, Pieces, Purpose, Response, intern, read_within,
    value_at,
};
pub use waiting::slot::{HookObject, Slot};
pub use writes::apply::{Applied, Applier, ApplyError};
pub use writes::check::Conflict;
pub use writes::definition::CrdPolicy;
pub use writes::inspect::Inspection;
pub use writes::leave::Adopted;
pub use writes::reach::{Allowed, Limit, OutOfReach, Reach};
pub use writes::recreate::{DeletionError, Deletions, Guard};
pub use writes::write::{ApplyMethod, Policy};

pub(crate) use fields::omitted::omits_applied;
pub(crate) use hooks::{HookRun, Journal, JournalError, Patience};
pub(crate) use live_state::ownership::Rule;
pub(crate) use objects::decorate::{MANAGED_BY_LABEL, is_kept};
pub(crate) use objects::documents::without_objects;
pub(crate) use objects::duplicate::last_of_each;
pub(crate) use objects::object::recorded_objects;
pub(crate) use objects::order::uninstall_order;
pub(crate) use outside::{is_of_conversion, is_outage, is_unanswered, reached_server};
pub(crate) use waiting::pause::Pause;
pub(crate) use waiting::slot::without_slot;
pub(crate) use writes::apply::Target;
pub(crate) use writes::autoscaler::{Scaled, has_replicas};
pub(crate) use writes::client_side::MergeBases;
pub(crate) use writes::definition::DefinitionOf;
pub(crate) use writes::delete::{Grounds, Removal};
pub(crate) use writes::failures::Failures;
pub(crate) use writes::found::Found;
pub(crate) use writes::leave::Left;
pub(crate) use writes::limit::WriteLimit;
pub(crate) use writes::write::{AfterFailure, Previous, Unchanged, WriteOptions};
