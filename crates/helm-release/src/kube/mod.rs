//! Applies, prunes and deletes the objects of a release, runs its hooks, and computes readiness. Counterpart: Helm's
//! `pkg/kube`, with server-side apply and ownership marks instead of three-way merges.
//!
//! All requests go through [`Api`]: raw requests with prepared JSON, sent by kube's client or served by [`MemoryApi`]
//! in tests.
//!
//! # Rules
//! - [`Applier`] changes or deletes only objects whose own metadata allows it ([`Ownership`]); being listed in a
//!   manifest proves nothing.
//! - A write names the uid that was checked, a deletion also the resource version. If either changed since then, the
//!   object is checked again.
//! - A [`Mark`] digests the managed fields that are ours. It changes when another manager takes over a field, and so
//!   reveals drift from metadata alone.

mod apply;
mod ca_bundle;
mod check;
mod client_side;
mod decoded;
mod decorate;
mod definition;
mod delete;
mod duplicate;
mod dynamic;
mod expiry;
mod handover;
mod hooks;
mod leave;
mod live;
mod mapping;
mod migrate;
mod object;
mod order;
mod ownership;
mod reach;
mod readiness;
mod recreate;
mod replaced;
mod resource;
mod rivals;
mod rules;
#[cfg(test)]
mod tests;
mod unowned;
mod whole;
mod write;

pub use apply::{Applied, Applier, ApplyError};
pub use check::Conflict;
pub use decoded::OPEN_FIELDS;
pub use decorate::{CHART_LABEL, Decoration, Owner, Tie, label_value};
pub use definition::CrdPolicy;
pub use delete::Proven;
pub use duplicate::{Duplicate, deduplicate};
pub use handover::{Pointer, PointerError};
pub use hooks::{HookError, Slot};
pub use leave::Adopted;
pub use live::{Live, LiveMetadata, Mark};
pub use mapping::Mapper;
pub use object::{Object, ObjectDigest, ObjectError, ObjectFault, ObjectKey, Weight, digest_json, objects_of};
pub use order::install_order;
pub use outside::{
    Api, Asked, Call, Disturbance, Error, MAX_RESPONSE_BYTES, MemoryApi, Pieces, Response, intern, read_within,
    value_at,
};
pub use ownership::{Adopt, NotOurs, Ownership};
pub use reach::{Allowed, Limit, OutOfReach, Reach};
pub use readiness::{Readiness, Unready, progress_of};
pub use recreate::{Guard, RECREATE_ANNOTATION};
pub use resource::Resource;
pub use rivals::{Look, Rival};
pub use rules::{DRIFT_ANNOTATION, DriftPolicy, IgnoreRule, ObjectRule};
pub use whole::Whole;
pub use write::{ApplyMethod, Policy};

pub(crate) use apply::{Observed, Target};
pub(crate) use client_side::LastApplied;
pub(crate) use decorate::is_kept;
pub(crate) use delete::Removal;
pub(crate) use handover::{Scaled, has_replicas};
pub(crate) use hooks::{HookRun, Journal, JournalError, Patience};
pub(crate) use leave::Left;
pub(crate) use object::recorded_objects;
pub(crate) use order::uninstall_order;
pub(crate) use outside::{is_transient, is_unanswered};
pub(crate) use ownership::Rule;
pub(crate) use write::{Previous, WriteOptions};

/// The field manager of all our writes; the same as that of operator-sdk's binary.
pub const FIELD_MANAGER: &str = "helm-operator";
