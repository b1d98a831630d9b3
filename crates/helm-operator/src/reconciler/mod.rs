//! The chart controller: keeps each custom resource's release in line with its chart and values.
//!
//! `observe` reads what is true, `state` decides, `work` loops; `deploy`, `correct_drift` and `uninstall` act; `settle` records the outcome once.
//! Counterpart: operator-sdk's `internal/helm/controller` and helm-operator-plugins' `pkg/reconciler`.

mod additions;
mod awaited;
mod blame;
mod cache;
mod candidate;
mod causes;
mod changes;
mod cluster;
mod compare;
mod controller;
mod correct_drift;
mod deletions;
mod deploy;
mod detect;
mod engine;
mod failure;
pub(crate) mod feed;
mod fields;
mod groups;
mod headline;
mod health;
#[cfg(test)]
mod helm_tests;
mod history;
#[cfg(test)]
mod hook_tests;
mod identity;
mod intake;
mod interruption;
mod kinds;
mod large_spec;
mod look;
mod missing;
mod observe;
mod outcome;
pub(crate) mod override_types;
pub(crate) mod pages;
mod pods;
mod previews;
mod primary;
mod progress;
pub(crate) mod queue;
mod recent;
mod recorded;
mod refusals;
mod release;
mod releases;
mod render;
mod requests;
mod resync;
mod retries;
mod rival;
mod rollout;
mod run;
mod schedule;
mod served;
mod settle;
mod shared;
mod sources;
pub(crate) mod stamp;
mod state;
mod status_fields;
mod supersede;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod turns;
mod undo;
mod uninstall;
mod unproven;
mod unread;
mod unserved;
mod veil;
mod versions;
mod watch;
mod work;
pub(crate) mod workers;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use cluster::Cluster;
pub(crate) use detect::DETECTED;
pub(crate) use failure::UNANSWERED;
pub(crate) use previews::{Previews, ReleasePreview};

pub use crate::mask::Published;
pub use crate::values::{Error as SpecError, Spec};
pub use controller::{ChartController, Wakes};
pub use render::{RenderError, Renderer, Request};

pub use primary::ResourceKey;
pub(crate) use versions::Versions;

/// Locks; a panic elsewhere left no change half done.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
