//! Applies, prunes and deletes the objects of a release, runs its hooks, and judges readiness. Counterpart: Helm's `pkg/kube`, with server-side apply
//! and ownership marks instead of three-way merges.
//!
//! All requests go through [`Api`]: raw requests with prepared JSON, sent by kube's client or served by [`MemoryApi`] in tests.
//!
//! # Rules
//! - [`Applier`] changes or deletes only objects whose own metadata admits it ([`Rule`], [`Ownership`]); being listed in a manifest proves nothing.
//! - A write names the uid it was judged by, a deletion the resource version, too. If either changed meanwhile, the object is judged again.
//! - A [`Mark`] digests the managed fields that are ours. It changes when someone takes a field away, and so reveals drift from metadata alone.

mod api;
mod apply;
mod as_yaml;
mod ca_bundle;
mod client_side;
mod decoded;
mod decorate;
mod delete;
mod duplicate;
mod dynamic;
mod hooks;
mod live;
mod mapping;
mod memory;
mod migrate;
mod object;
mod order;
mod ownership;
mod readiness;
mod refusal;
mod rivals;
#[cfg(test)]
mod tests;
mod unowned;
mod write;

pub use api::{Api, Call, Error, MAX_RESPONSE_BYTES, Response};
pub use apply::{Applied, Applier, ApplyError, Conflict, Existing, Observed, Target};
pub use client_side::LastApplied;
pub use decoded::OPEN_FIELDS;
pub use decorate::{CHART_LABEL, Decoration, Owner, PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION, is_kept, label_value};
pub use delete::{Proven, Removal};
pub use duplicate::{Duplicate, deduplicate};
pub use hooks::{HOOK_RUN_ANNOTATION, HookError, HookRun, Journal, JournalError, Slot};
pub use live::{Live, Mark};
pub use mapping::{Mapper, Resource};
pub use memory::{Disturbance, MemoryApi};
pub use migrate::migrated_managers;
pub use object::{Object, ObjectError, ObjectFault, ObjectKey, digest_json, objects_of, recorded_objects};
pub use order::{install_order, uninstall_order};
pub use ownership::{NotOurs, Ownership, Rule};
pub use readiness::{Readiness, readiness_of};
pub(crate) use refusal::is_transient;
pub use rivals::Rival;
pub use write::{ApplyMethod, Policy, Previous, WriteOptions};

/// The field manager of all our writes. operator-sdk's binary has the same name.
pub const FIELD_MANAGER: &str = "helm-operator";
