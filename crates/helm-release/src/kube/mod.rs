//! The crate's cluster writes besides storage: apply, prune and delete a release's objects, and see how they are doing.
//!
//! Everything goes through [`Api`], raw requests with prepared JSON: real over kube's client, or [`MemoryApi`] in tests.
//! Counterpart: Helm's `pkg/kube`, with server-side apply and ownership marks instead of three-way merges.

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

pub use api::{Answer, Api, Call, Error};
pub use apply::{Applied, Applier, ApplyError, Conflict, Existing, Seen, Target};
pub use client_side::LastApplied;
pub use decoded::OPEN_FIELDS;
pub use decorate::{CHART_LABEL, Decoration, Owner, PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION, is_kept, label_value};
pub use delete::{Proven, Removal};
pub use duplicate::{Duplicate, each_once};
pub use hooks::{HOOK_RUN_ANNOTATION, HookError, HookRun, Journal, JournalError, Slot};
pub use live::{Live, Mark};
pub use mapping::{Mapper, Resource};
pub use memory::{Disturbance, MemoryApi};
pub use migrate::migrated_managers;
pub use object::{Object, ObjectError, ObjectFault, ObjectKey, digest_json, objects_of, recorded_objects};
pub use order::{install_order, uninstall_order};
pub use ownership::{Ownership, Rule};
pub use readiness::{Readiness, readiness_of};
pub use refusal::Nature;
pub use rivals::Rival;
pub use write::{Before, Policy, Way, Writing};

/// The field manager of everything that we apply; operator-sdk's binary had the same name.
pub const FIELD_MANAGER: &str = "helm-operator";
