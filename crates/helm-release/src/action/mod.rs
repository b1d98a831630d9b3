//! What can be done to a release: install, upgrade, rollback, uninstall; one file each.
//!
//! Counterpart: Helm's `pkg/action`. Every action writes its record ahead, so that whatever a crash leaves is known, and can be repeated.

mod deploy;
mod failure;
mod install;
mod last;
mod orphans;
mod repair;
mod resume;
mod rivals;
mod rollback;
#[cfg(test)]
mod tests;
mod uninstall;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

use crate::kube::{
    Applied, Applier, ApplyError, Decoration, Duplicate, HookError, HookRun, Journal, JournalError, Mark, Nature,
    Object, ObjectError, ObjectKey, Policy, Proven, Slot, recorded_objects,
};
use crate::release::{ChartDocument, Hook, Packed, Release, Status};
use crate::storage::{self, Marks, Storage, Written};

pub use failure::Refusal;
pub use install::install;
pub use orphans::orphans;
pub use repair::{record_ownership, repair, take_ownership};
pub use rivals::rivals;
pub use rollback::rollback;
pub use uninstall::{
    Farewell, POST_DELETE_TRIES, Uninstalling, abandon, delete_objects, inventory_of, run_post_delete, run_pre_delete,
};
pub use upgrade::upgrade;

/// How long a hook may take unless somebody says otherwise: long enough for a migration.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(3600);

/// How a person's `helm upgrade` or `helm rollback` is to write over a revision of ours, whichever way we wrote it: by three-way merges. As
/// a server-side apply it would conflict with our field manager. See docs/decisions/0008-helm-by-hand.md.
pub(crate) const HELMS_WAY: &str = "csa";

/// A release as the chart and the values want it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The chart.
    pub chart: Arc<ChartDocument>,
    /// The user's values.
    pub config: serde_json::Value,
    /// The rendered manifest, as the record keeps it.
    pub manifest: String,
    /// Its objects, in install order.
    pub objects: Vec<Object>,
    /// Its hooks.
    pub hooks: Vec<Hook>,
    /// Its notes.
    pub notes: String,
    /// The objects of the chart's `crds` folder: made on install only.
    pub crds: Vec<Object>,
    /// What the chart makes more than once: the objects have only the last of each.
    pub duplicates: Vec<Duplicate>,
    /// The digest of everything that it was made from.
    pub inputs: String,
}

impl Candidate {
    /// What a recorded revision was made of, to be made again as it was rendered then.
    ///
    /// # Errors
    /// The stored manifest cannot be read.
    pub fn recorded(release: Release, inputs: &str) -> Result<Candidate, Error> {
        let objects = recorded_objects(&release.manifest, &release.namespace)?;
        Ok(Candidate {
            chart: release.chart,
            config: release.config,
            manifest: release.manifest,
            objects,
            hooks: release.hooks,
            notes: release.info.notes,
            crds: Vec::new(),
            duplicates: Vec::new(),
            inputs: inputs.to_owned(),
        })
    }
}

/// Where and how an action works.
pub struct Environment<'a> {
    /// Applies and deletes.
    pub applier: &'a Applier,
    /// Keeps records.
    pub storage: &'a Storage,
    /// What the release's objects are given.
    pub decoration: &'a Decoration,
    /// The live objects, as far as they are known without asking.
    pub live: &'a dyn LiveView,
    /// Told while the action only waits.
    pub slot: &'a dyn Slot,
    /// What the user asked for.
    pub options: Options,
}

/// What the user asked for, mostly by annotations.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether hooks are left out.
    pub disable_hooks: bool,
    /// Whether objects that are someone else's are taken.
    pub adopt: bool,
    /// The record's description, instead of Helm's.
    pub description: Option<String>,
    /// How many revisions are kept; 0: all.
    pub max_history: usize,
    /// How long one hook may take; absent: as long as it takes.
    pub hook_timeout: Option<Duration>,
    /// Whether Helm itself made a revision of this release, so that hooks that nobody claims may be its.
    pub unclaimed_hooks: bool,
    /// Which way objects are written.
    pub apply: Policy,
    /// What the last attempt with the same inputs was refused.
    pub refused: Option<Refusal>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            disable_hooks: false,
            adopt: false,
            description: None,
            max_history: 10,
            hook_timeout: Some(HOOK_TIMEOUT),
            unclaimed_hooks: false,
            apply: Policy::default(),
            refused: None,
        }
    }
}

impl Environment<'_> {
    fn hook_run<'a>(&'a self, journal: &'a dyn Journal) -> HookRun<'a> {
        HookRun {
            decoration: self.decoration,
            timeout: self.options.hook_timeout,
            unclaimed: self.options.unclaimed_hooks,
            slot: self.slot,
            journal,
        }
    }
}

/// Writes the phases of hooks into the release's record.
struct Records<'a> {
    storage: &'a Storage,
}

impl Journal for Records<'_> {
    fn record<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.storage.update(release, None).await.map(|_| ())?) })
    }
}

/// What is known of live objects without asking: the watches' cache, or a map in tests.
pub trait LiveView: Send + Sync {
    /// What is known of an object as one of this release.
    fn look(&self, key: &ObjectKey, decoration: &Decoration) -> Look;
}

/// What is known of an object without asking. It may be out of date: whoever acts on it tells the server what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing, or that it is not this release's.
    Unknown,
    /// It was not there.
    Absent,
    /// It is this release's.
    Ours(Known),
}

/// A live object that is known to be a release's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Which object, in which state.
    pub proven: Proven,
    /// Our mark; absent while the object is being deleted.
    pub mark: Option<Mark>,
    /// Whether its own annotation says that it outlives the release.
    pub kept: bool,
}

impl Look {
    /// What a deletion may rely on.
    pub(crate) fn deletable(self) -> Option<Proven> {
        match self {
            Look::Ours(known) if !known.kept => Some(known.proven),
            _ => None,
        }
    }
}

impl LiveView for std::collections::HashMap<ObjectKey, Look> {
    fn look(&self, key: &ObjectKey, _: &Decoration) -> Look {
        self.get(key).cloned().unwrap_or(Look::Unknown)
    }
}

/// The newest revision of a release that exists.
#[derive(Clone, Debug)]
pub struct Current {
    /// The newest revision.
    pub version: u32,
    /// Whether an action was under way when it was written; then its number is used again.
    pub pending: bool,
    /// Every revision, oldest first.
    pub versions: Vec<u32>,
    /// The revision that is deployed, if any: older than `version` after a failure.
    pub deployed: Option<u32>,
    /// The deployed revision; if none is, the last that was: what runs is nearest to it.
    pub last_good: Option<u32>,
    /// The objects that may exist: those of the newest and of the deployed revision.
    pub inventory: Marks,
    /// The deployed revision's record, if it is at hand.
    pub packed: Option<Packed>,
    /// When revision 1 was made, if known.
    pub first_deployed: Option<Timestamp>,
    /// How far the newest revision's action came, if it is pending.
    pub unfinished: Option<Unfinished>,
    /// Whether Helm itself made one of the revisions.
    pub taken_over: bool,
}

/// How far an action came that did not end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// The digest of what it was made from.
    pub inputs: String,
    /// Whether the hooks before its objects are done.
    pub hooks_done: bool,
}

/// A release after an action.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The revision.
    pub version: u32,
    /// Its record, as written.
    pub written: Written,
    /// Its marks.
    pub marks: Marks,
    /// Every object that was applied.
    pub applied: Vec<Applied>,
    /// Revisions that were dropped from the history.
    pub dropped: Vec<u32>,
    /// When revision 1 was made.
    pub first_deployed: Option<Timestamp>,
    /// The notes.
    pub notes: String,
}

/// Why an action failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Objects.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Records.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// Hooks.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// The stored manifest.
    #[error("cannot read the stored manifest")]
    Manifest(#[from] ObjectError),
    /// The stored record.
    #[error("cannot read the stored release")]
    Record(#[from] crate::release::Error),
}

impl Error {
    /// Whether the error says nothing about the chart: the server was not there, or not able.
    pub fn is_transient(&self) -> bool {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<crate::kube::Error>() {
                return error.nature() == Nature::Transient;
            }
            next = error.source();
        }
        false
    }

    /// Whether an object is someone else's.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Error::Apply(ApplyError::Foreign(_)) | Error::Hook(HookError::Foreign { .. }))
    }
}

/// An action that failed after its record was written: the revision that says so.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct Failure {
    /// Why.
    #[source]
    pub cause: Error,
    /// The revision whose record was written; absent if nothing was.
    pub recorded: Option<Recorded>,
}

/// What a failed action left in the history.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The revision.
    pub version: u32,
    /// `failed`, or pending if the action is to be gone on with.
    pub status: Status,
    /// Every object that may exist now.
    pub marks: Marks,
    /// Revisions that were dropped from the history.
    pub dropped: Vec<u32>,
}

impl From<Error> for Failure {
    fn from(cause: Error) -> Failure {
        Failure { cause, recorded: None }
    }
}

/// The deployed revision's release: at hand, or read.
pub async fn read_release(env: &Environment<'_>, version: u32, packed: Option<&Packed>) -> Result<Release, Error> {
    match packed {
        Some(packed) => Ok(packed.unpack()?),
        None => Ok(env.storage.get(&env.decoration.namespace, &env.decoration.release, version).await?),
    }
}
