//! Installs, upgrades, rolls back, uninstalls and repairs releases. Counterpart: Helm's `pkg/action`.
//!
//! # Flow
//! [`install()`], [`upgrade()`] and [`rollback()`] run the same steps:
//!
//! 1. **Check ownership.** Objects that the release does not own yet are read; any conflict ends the action before the
//!    first write. After an attempt that did not succeed, live Jobs with a TTL show whether they ran as the candidate
//!    has them, if the records do not.
//! 2. **Write ahead.** The revision's record is written as `pending-…` with its whole manifest and with the inventory:
//!    every object that may exist once the action ends, old ones included.
//! 3. **Run pre hooks** and record each of them.
//! 4. **Apply** in install order, and in an ordered release one round after the other: between two rounds, the marks of
//!    what was applied are recorded, and the action waits without a worker until that is ready. Objects whose digest and
//!    ownership mark are unchanged are skipped without a request. If the server rejects a change of an immutable field,
//!    Jobs and objects in [`Options::recreate`] are deleted and recreated, unless that would lose data. The record first
//!    notes each unfinished Job with a TTL.
//! 5. **Prune** objects of the previous revision that the candidate no longer contains, in uninstall order, except those
//!    that its hooks have just made. The record first notes each unfinished Job with a TTL. Definitions that the chart
//!    still ships, in its `crds` folder or as hooks, leave the release instead.
//! 6. **Run post hooks** and record them.
//! 7. **Complete.** The record becomes `deployed`, with what the caller's [`Account`] says of the action, the previous one
//!    `superseded`, and revisions beyond the history limit are deleted.
//!
//! [`test()`] runs the test hooks of a deployed revision, which stays deployed whatever their outcome. If somebody
//! replaces the revision meanwhile, its tests end without a result. Tests that a dead process started are ended by the
//! next revision, and before an uninstall by the caller ([`end_tests()`]).
//!
//! An uninstall runs in parts that the caller repeats until each is done: [`run_pre_delete`], [`begin_deletion`] if the
//! resource stays, the [`later_rounds`] of an ordered release, [`delete_objects`], [`run_post_delete`], then
//! [`Storage::delete_all`]. If the resource stays, it may stop in between: [`call_off`] before anything is deleted,
//! [`withdraw_deletion`] if that is only recorded, and [`end_delete_hooks`] before a revision that creates anew what is
//! gone.
//!
//! # Guarantees
//! - Every object in the cluster is in a record: nothing is created before its revision is recorded, except definitions
//!   from `crds/`.
//! - Only objects whose own metadata proves that they belong to the release are changed or deleted, unless
//!   [`Options::adopt`] is set.
//! - Every step is idempotent, and an action that is continued does not repeat a hook that succeeded.
//!
//! # Failures, retries and cancellation
//! Actions retry lost races (an object that changed between reading and writing) a few times, and hooks retry requests
//! until their timeout. The caller retries everything else: call the action again with the [`Current`] that
//! [`RecordedFailure`] or the storage describes.
//! - After an error caused by the candidate, the revision is `failed`; the next attempt makes a new revision.
//! - After any other error ([`Error::is_unanswered`]), the revision stays pending; the next attempt continues it under
//!   the same number. With other inputs, or as another action, the next attempt gives it up and makes a new revision
//!   ([`give_up()`]): what its hooks started is deleted as after an interruption, and it is marked failed.
//! - If [`Slot::interruption`] ends a hook, the hook and the revision have failed.
//! - Dropping the future, or a crash, has the same effect as a request without an answer. With the same inputs, the
//!   next attempt of a chart with hooks continues from the recorded manifest, including its random values, and waits
//!   for hooks that still run.

mod account;
mod admit;
mod deploy;
mod failure;
mod give_up;
mod handover;
mod import;
mod inspect;
mod install;
mod keys;
mod last;
mod name;
mod order;
mod orphans;
mod remains;
mod repair;
mod resume;
mod rollback;
mod start_over;
mod test;
#[cfg(test)]
mod tests;
mod uninstall;
mod upgrade;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use helm::reads::Unread;
use jiff::Timestamp;

use crate::kube::{
    self, Adopt, Applied, Applier, ApplyError, CrdPolicy, Decoration, Duplicate, Found, HookError, HookRun, IgnoreRule,
    Journal, JournalError, Live, Mark, Object, ObjectError, ObjectKey, ObjectRule, Patience, Policy, Proven, Reach,
    Slot, Tie, recorded_objects,
};
use crate::release::{ChartDocument, Fields, Hook, Info, Packed, Release, Status};
use crate::storage::{self, Before, Known, Marks, Rejected, Sealed, Storage, Stored, Written};
use resume::not_run;

pub use account::{Account, Made};
pub use admit::{Admission, Admitted, admit};
pub use failure::{Refusal, Unpruned};
pub use give_up::{GivenUp, end_tests, give_up};
pub use import::{Begun, Evidence, Imported, Sought, import, imported_inventory, with_unsuccessful_before};
pub use inspect::inspect;
pub use install::{install, replace_crds};
pub use keys::deduplicated;
pub use name::Action;
pub use order::{GroupError, Health};
pub use orphans::{claimed, orphans};
pub use remains::expect_jobs_of_former;
pub use repair::{Repaired, Unbound, check_takeover, reapply, record_ownership, repair, take_ownership, unbind};
pub use rollback::{rollback, rollback_to};
pub use start_over::{expect_jobs_again, expect_no_jobs};
pub use test::{Tested, test};
pub use uninstall::{
    CallOff, POST_DELETE_TRIES, PostDelete, Uninstalling, abandon, begin_deletion, begin_with_hooks, call_off,
    delete_each, delete_objects, end_delete_hooks, give_back, hand_over, inventory_of, later_rounds, run_post_delete,
    run_pre_delete, withdraw_deletion,
};
pub use upgrade::upgrade;

use resume::has_delete_hooks;

/// The default of [`Options::hook_timeout`]: long enough for a migration.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(3600);

/// The apply method that records name, so that a manual `helm upgrade` or `helm rollback` uses three-way merges: its
/// server-side apply would conflict with our field manager. See docs/decisions/0008-helm-by-hand.md.
pub(crate) const HELM_APPLY_METHOD: &str = "csa";

/// The desired release: the chart rendered with the user's values.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The chart, as the record keeps it.
    pub chart: Arc<ChartDocument>,
    /// The user's values, without the chart's defaults.
    pub config: serde_json::Value,
    /// The rendered manifest, as the record keeps it.
    pub manifest: String,
    /// The manifest's objects, in install order. In an ordered release, each has its turn.
    pub objects: Vec<Object>,
    /// The chart's hooks.
    pub hooks: Vec<Hook>,
    /// The rendered NOTES.txt.
    pub notes: String,
    /// The definitions in the chart's `crds` folder: created on install only, never updated or deleted.
    pub crds: Vec<Object>,
    /// Objects that the chart renders more than once; `objects` holds only the last of each.
    pub duplicates: Vec<Duplicate>,
    /// Values that no template reads, as far as can be determined.
    pub unread: Vec<Unread>,
    /// The digest of everything it was rendered from. An interrupted action is continued only by a candidate with the
    /// same digest.
    pub inputs: String,
}

impl Candidate {
    /// Returns how its objects name their owner, as its [`Marks`] will record it.
    pub fn tie(&self) -> Tie {
        Marks { delete_hooks: has_delete_hooks(&self.hooks), ..Marks::default() }.tie()
    }

    /// Converts a recorded revision to a candidate that equals its original render, except that no action applies its
    /// `crds` again. `inputs` is its digest, and `marks` are its own.
    ///
    /// # Errors
    /// The stored manifest cannot be parsed.
    pub fn recorded(release: Sealed<Release>, inputs: &str, marks: &Marks) -> Result<Candidate, Error> {
        let release = release.into_inner();
        let mut objects = recorded_objects(&release.manifest, &release.namespace)?;
        marks.give_turns(&mut objects, &release.namespace);
        Ok(Candidate {
            chart: release.chart,
            config: release.config,
            manifest: release.manifest,
            objects,
            hooks: release.hooks,
            notes: release.info.notes,
            crds: Vec::new(),
            duplicates: Vec::new(),
            unread: Vec::new(),
            inputs: inputs.to_owned(),
        })
    }
}

impl Candidate {
    /// Returns whether the chart ships this definition outside of its manifest, where no upgrade deletes it: in its `crds`
    /// folder, or as a hook. `namespace` is the release's.
    fn ships_apart(&self, key: &ObjectKey, namespace: &str) -> bool {
        let is_hook = |hook: &Hook| {
            hook.kind == "CustomResourceDefinition" && (&*hook.kind, &*hook.name) == (&*key.kind, &*key.name)
        };
        self.crds.iter().any(|object| object.has_key(key, namespace)) || self.hooks.iter().any(is_hook)
    }

    /// Returns the pending release with this revision number.
    pub(crate) fn as_release(&self, decoration: &Decoration, version: u32) -> Release {
        Release {
            name: decoration.release.clone(),
            namespace: decoration.namespace.clone(),
            version,
            info: Info::default(),
            chart: self.chart.clone(),
            config: self.config.clone(),
            manifest: self.manifest.clone(),
            hooks: not_run(&self.hooks),
            apply_method: HELM_APPLY_METHOD.into(),
            labels: BTreeMap::new(),
            record_uid: None,
            more: Fields::new(),
        }
    }
}

/// The tools of an action: clients, the release's identity, and options.
pub struct Environment<'a> {
    /// Applies and deletes objects.
    pub applier: &'a Applier,
    /// Reads and writes release records.
    pub storage: &'a Storage,
    /// The release's identity, and the metadata added to its objects.
    pub decoration: Decoration,
    /// The view of live objects that needs no request.
    pub live: &'a dyn LiveView,
    /// The caller's worker slot, released while hooks run.
    pub slot: &'a dyn Slot,
    /// Describes at the end what the action did.
    pub account: &'a dyn Account,
    /// The user's options.
    pub options: Options,
}

/// Options of an action, mostly set by annotations on the custom resource.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to skip hooks. Default: false.
    pub disable_hooks: bool,
    /// Which existing objects to take over, although the release does not own them. Default: [`Adopt::Never`].
    pub adopt: Adopt,
    /// The description of a successful revision. Default: Helm's, for example `Install complete`.
    pub description: Option<String>,
    /// Maximum number of revisions to keep; 0 keeps all. Default: 10, as in Helm.
    pub max_history: usize,
    /// How long one hook may run; `None` sets no limit. Default: [`HOOK_TIMEOUT`].
    pub hook_timeout: Option<Duration>,
    /// Which hook objects without an owner may be replaced, in addition to those that may be taken over, in a release
    /// with a revision that Helm made. Default: [`Adopt::Never`].
    pub unclaimed_hooks: Adopt,
    /// Whether objects are written by server-side apply, client-side, or either. Default: [`Policy::Auto`].
    pub apply: Policy,
    /// What to do with the definitions in the chart's `crds` folder. Default: [`CrdPolicy::Create`].
    pub crds: CrdPolicy,
    /// Objects to delete and recreate when the server rejects a change of their immutable fields, in addition to Jobs
    /// and objects with [`RECREATE_ANNOTATION`](kube::RECREATE_ANNOTATION). Default: none.
    pub recreate: Arc<[ObjectRule]>,
    /// What the release may contain in addition to objects in its own namespace. Default: everything.
    pub reach: Arc<Reach>,
    /// Fields that the release leaves to others. Default: none.
    pub ignore: Arc<[IgnoreRule]>,
    /// The object that the server rejected in the last attempt with the same inputs, if any. It is tried first, as a
    /// dry run.
    pub refused: Option<Refusal>,
    /// The release's state before an upgrade that takes an upgrade permit, for the marks. Default: none.
    pub before: Option<Before>,
    /// Whether the test hooks run after an install or upgrade ([`test()`]). Default: false.
    pub tests: bool,
    /// The revision that a rollback undoes because its tests failed, for the marks. Default: none.
    pub rejected: Option<Box<Rejected>>,
    /// Why the revision is made, for the marks. Default: empty.
    pub cause: Arc<str>,
    /// How long an ordered release may wait for a group that makes no progress; `None` sets no limit. Default: none.
    pub group_timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            disable_hooks: false,
            adopt: Adopt::Never,
            description: None,
            max_history: 10,
            hook_timeout: Some(HOOK_TIMEOUT),
            unclaimed_hooks: Adopt::Never,
            apply: Policy::default(),
            crds: CrdPolicy::default(),
            recreate: Arc::default(),
            reach: Arc::default(),
            ignore: Arc::default(),
            refused: None,
            before: None,
            tests: false,
            rejected: None,
            cause: Arc::default(),
            group_timeout: None,
        }
    }
}

impl Environment<'_> {
    fn hook_run<'a>(&'a self, journal: &'a dyn Journal) -> HookRun<'a> {
        HookRun {
            reach: &self.options.reach,
            decoration: &self.decoration,
            timeout: self.options.hook_timeout,
            unclaimed: self.options.adopt.max(self.options.unclaimed_hooks),
            slot: self.slot,
            journal,
            patience: Patience::UntilInterrupted,
        }
    }
}

/// Writes hook phases to the release record, keeping its marks.
struct Records<'a> {
    storage: &'a Storage,
    marks: &'a Marks,
}

impl Journal for Records<'_> {
    fn record<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.storage.update(release, self.marks).await.map(|_| ())?) })
    }
}

/// The facts about live objects that need no request: the cache that watches fill, or a map in tests.
pub trait LiveView: Send + Sync {
    /// Returns the cached state of an object of this release.
    fn cached(&self, key: &ObjectKey, decoration: &Decoration) -> Cached;

    /// Stores the responses to applies in the middle of an action, and makes sure that changes of these objects become
    /// known. Default: does nothing.
    fn applied<'a>(&'a self, _: &'a [Applied]) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }

    /// Records that the server accepted the deletion of the object with this uid, before the event arrives. Default:
    /// does nothing.
    fn deleted(&self, _: &ObjectKey, _uid: &str) {}

    /// Reports that an object of the release is not deleted, because only Helm's annotations name the release, outside its
    /// namespace. Default: nothing.
    fn left_unnamed(&self, _: &ObjectKey) {}

    /// Returns whether an object is ready, which was applied before. Default: unknown.
    fn health(&self, _: &ObjectKey) -> Health {
        Health::Unwatched
    }

    /// Returns an applier that reads the readiness of objects that the action's own account may not read. Default:
    /// none.
    fn reader(&self) -> Option<&Applier> {
        None
    }

    /// Returns the revision that a person wants the release to return to, as of now: trimming the history must not delete
    /// it. Default: none.
    fn wanted_revision(&self) -> Option<u32> {
        None
    }

    /// Stores the state of an object that the server has just returned; `None` if the object does not exist. Returns
    /// whether it is ready. Default: judges it by its own fields alone.
    fn answered(&self, key: &ObjectKey, live: Option<&Live>) -> Health {
        live.map_or(Health::Absent, |live| Health::by_itself(key, live))
    }
}

/// The cached state of an object. It may be outdated, so writes based on it carry preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cached {
    /// Nothing is known, or the object does not belong to this release.
    Unknown,
    /// The object did not exist.
    Absent,
    /// The object belongs to this release.
    Ours(CachedObject),
}

/// A live object that is known to belong to a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedObject {
    /// The uid and resource version that were checked.
    pub proven: Proven,
    /// Our ownership mark; absent while the object is being deleted, or if it has the label of a chart with another
    /// name: the next revision writes it.
    pub mark: Option<Mark>,
    /// Whether its annotation `helm.sh/resource-policy` keeps it when the release is uninstalled.
    pub kept: bool,
    /// Whether someone else set its number of replicas through the `scale` subresource.
    pub scaled: bool,
}

impl Cached {
    /// Returns the state that a deletion may rely on.
    pub(crate) fn deletable(self) -> Option<Proven> {
        match self {
            Cached::Ours(known) if !known.kept => Some(known.proven),
            _ => None,
        }
    }
}

impl From<Cached> for Found {
    /// Converts a cached state to what a write may assume without a read.
    fn from(cached: Cached) -> Found {
        match cached {
            Cached::Ours(live) => Found::Ours { proven: live.proven, scaled: live.scaled, kept: live.kept },
            Cached::Absent => Found::Absent,
            Cached::Unknown => Found::Unknown,
        }
    }
}

/// A view that knows nothing: actions read all objects that they need.
impl LiveView for () {
    fn cached(&self, _: &ObjectKey, _: &Decoration) -> Cached {
        Cached::Unknown
    }
}

impl LiveView for std::collections::HashMap<ObjectKey, Cached> {
    fn cached(&self, key: &ObjectKey, _: &Decoration) -> Cached {
        self.get(key).cloned().unwrap_or(Cached::Unknown)
    }
}

/// An existing release, as its records describe it.
#[derive(Clone, Debug)]
pub struct Current {
    /// The newest revision.
    pub version: u32,
    /// Whether the newest revision is pending.
    pub pending: bool,
    /// Earlier revisions that are still pending: somebody else's followed each of them. The hooks of one may still run.
    pub abandoned: Vec<u32>,
    /// The record of every revision, oldest first.
    pub records: Vec<Known>,
    /// The revision with status `deployed`, if any: older than `version` after a failure.
    pub deployed: Option<u32>,
    /// Older revisions with status `deployed`, which an interrupted action did not mark superseded.
    pub outdated: Vec<u32>,
    /// The deployed revision, or else the one that was deployed last: the closest to the running objects.
    pub last_good: Option<u32>,
    /// Whether the records prove that no revision was ever deployed.
    pub never_deployed: bool,
    /// Every object that may exist: those of the newest and of the deployed revision.
    pub inventory: Marks,
    /// The Jobs that finished and were deleted for an earlier resource of the release's name, as far as is known. If nothing
    /// else is left of its release, they run again.
    pub finished_for_former: Vec<ObjectKey>,
    /// The deployed revision's record, if it is in memory; read from storage otherwise.
    pub packed: Option<Stored<Packed>>,
    /// The deployed revision's own marks, if this operator recorded it.
    pub marks: Option<Arc<Marks>>,
    /// When revision 1 was deployed, if known.
    pub first_deployed: Option<Timestamp>,
    /// The inputs digest of the newest revision's interrupted action, if it is pending. Its record says how far it got.
    pub interrupted: Option<String>,
    /// Whether Helm itself made one of the revisions.
    pub taken_over: bool,
    /// Whether the release's override values are strings ([`Marks::string_overrides`]).
    pub string_overrides: bool,
}

impl Current {
    /// Returns the number of the next revision with these inputs: the interrupted revision's if the action continues
    /// it.
    pub fn next_version(&self, inputs: &str) -> u32 {
        let is_continued = self.pending && self.interrupted.as_deref() == Some(inputs);
        if is_continued { self.version } else { self.version + 1 }
    }

    /// Returns whether a revision since the last good one has been trimmed from the history, although it may have
    /// applied what is live.
    fn lacks_revisions(&self) -> bool {
        let is_known = |version: u32| self.records.iter().any(|known| known.version == version);
        !(self.last_good.unwrap_or(1)..=self.version).all(is_known)
    }

    /// Returns whether an object is the release's own, whoever made it: the deployed revision has it. If the record of that
    /// one is Helm's, any object that is listed may be its.
    fn has_settled(&self, key: &ObjectKey) -> bool {
        match &self.marks {
            Some(deployed) => deployed.find(key).is_some_and(|known| known.digest.is_some()),
            None => self.taken_over,
        }
    }

    /// Returns whether the tests of the deployed revision are due, as far as is known.
    fn has_tests_due(&self) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.tests == Some(storage::Tests::Due))
    }

    /// Returns the release as seen by an action that does not continue the interrupted one.
    fn giving_up(&self) -> Current {
        Current { interrupted: None, ..self.clone() }
    }

    /// Returns whether the candidate continues an interrupted action: it has the same inputs.
    fn is_continued_by(&self, candidate: &Candidate) -> bool {
        self.pending && self.interrupted.as_ref() == Some(&candidate.inputs)
    }
}

/// The result of a successful action.
#[derive(Clone, Debug)]
pub struct Completed {
    /// The new revision.
    pub version: u32,
    /// The record as written.
    pub written: Written,
    /// The marks as written: inputs digest, owner, inventory.
    pub marks: Marks,
    /// The objects that were applied; skipped ones are missing.
    pub applied: Vec<Applied>,
    /// The objects that were deleted because the revision no longer contains them.
    pub pruned: Vec<ObjectKey>,
    /// Revisions that were deployed and are now marked superseded, with their records' resource versions.
    pub superseded: Vec<(u32, u64)>,
    /// Revisions that were deleted from the history.
    pub dropped: Vec<Known>,
    /// When revision 1 was deployed.
    pub first_deployed: Option<Timestamp>,
    /// The rendered NOTES.txt.
    pub notes: String,
}

/// Why an action failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Storage(#[from] storage::Error),
    #[error(transparent)]
    Hook(#[from] HookError),
    /// A group of an ordered release did not become ready.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// An object that the revision drops cannot be deleted. Only this deletion is left to do before the post hooks.
    #[error(transparent)]
    Prune(Box<Unpruned>),
    #[error("cannot read the stored manifest")]
    Manifest(#[from] ObjectError),
    #[error("cannot read the stored release")]
    Record(#[from] crate::release::Error),
    #[error("the record of revision {version} was not written by this operator, or was changed since")]
    Unproven { version: u32 },
    /// An action that counted as unfinished has ended, although no answer said so, or because it cannot be continued. Nothing
    /// else was written.
    #[error("revision {version} has ended meanwhile")]
    Ended { version: u32 },
    /// Somebody has replaced the deployed revision, or rewritten its record, while its tests ran. Or an earlier run of them
    /// has recorded their outcome, although no answer said so.
    #[error("revision {version} was replaced while its tests ran")]
    Replaced { version: u32 },
}

impl Error {
    /// Returns whether the failure has another cause than the candidate: a request failed, was rejected because of an
    /// outage, or only read, a record could not be read or written, or an object that the candidate lacks cannot be deleted.
    /// The same action may succeed later. After any other failure, the same action fails again.
    pub fn is_unanswered(&self) -> bool {
        match self {
            Error::Apply(
                ApplyError::StillDeleting { .. }
                | ApplyError::Unrecorded { .. }
                | ApplyError::Taken(_)
                | ApplyError::Appeared(_),
            )
            | Error::Prune(_)
            | Error::Manifest(_)
            | Error::Record(_)
            | Error::Unproven { .. }
            | Error::Ended { .. }
            | Error::Replaced { .. } => true,
            Error::Storage(error) => !error.is_unrecordable(),
            Error::Group(error) => error.is_unanswered(),
            Error::Hook(error) => error.is_unanswered(),
            Error::Apply(_) => kube::is_unanswered(self),
        }
    }

    /// Returns whether contact with the API server is the cause, so that the same action may succeed once it is back.
    /// Narrower than [`is_unanswered`](Self::is_unanswered): a rejected record or read, or a finalizer that holds an
    /// object, may last for ever.
    pub fn is_outage(&self) -> bool {
        matches!(self, Error::Hook(HookError::Unanswered { .. })) || kube::is_outage(self)
    }

    /// Returns whether the API server answered the request that failed. Such an outage may last forever, because it may
    /// be a webhook's.
    pub fn reached_server(&self) -> bool {
        kube::reached_server(self)
    }

    /// Returns whether an object that is recreated is still being deleted, and only Kubernetes' own finalizers keep it. Even
    /// so, its deletion may never end: Kubernetes may be waiting for an object with another finalizer.
    pub fn is_slow_deletion(&self) -> bool {
        matches!(self, Error::Apply(error) if error.is_slow_deletion())
    }

    /// Returns whether the caller's slot ended the wait for a hook or a group.
    pub fn is_interruption(&self) -> bool {
        match self {
            Error::Hook(error) => error.is_interruption(),
            Error::Group(error) => error.is_interruption(),
            _ => false,
        }
    }

    /// Returns the revision that has ended meanwhile, so that the action started from an outdated state. Read its record,
    /// and decide again.
    pub fn ended(&self) -> Option<u32> {
        if let Error::Ended { version } = self { Some(*version) } else { None }
    }

    /// Returns whether somebody has replaced the revision whose tests ran, or whether its record has their outcome already.
    /// Read the records, and decide again.
    pub fn is_replaced(&self) -> bool {
        matches!(self, Error::Replaced { .. })
    }

    /// Returns whether the server refuses to delete an object that the revision drops. The same action only repeats that.
    pub fn is_refused_deletion(&self) -> bool {
        matches!(self, Error::Prune(_))
    }

    /// Returns whether a group of an ordered release failed, or did not become ready in time.
    pub fn is_group(&self) -> bool {
        matches!(self, Error::Group(_))
    }

    /// Returns whether a stored record exists but cannot be decoded, so that it must be repaired before it can be read
    /// again.
    pub fn is_undecodable(&self) -> bool {
        matches!(
            self,
            Error::Storage(storage::Error::Codec { .. } | storage::Error::Incomplete { .. }) | Error::Record(_)
        )
    }

    /// Returns whether the server does not serve the kind of an object to apply.
    pub fn is_unserved_kind(&self) -> bool {
        matches!(self, Error::Apply(ApplyError::Failed { source: kube::Error::NoKind { .. }, .. }))
    }

    /// Returns what the server rejected, as `Kind "name"` or as a hook's template, and the fields that it names.
    pub fn rejected(&self) -> Option<(&str, Vec<&str>)> {
        let (what, source) = match self {
            Error::Apply(ApplyError::Failed { verb: "apply", object, source }) => (object, source),
            Error::Apply(ApplyError::Guarded { object, source, .. }) => (object, source),
            Error::Hook(HookError::Api { path, source }) => (path, source),
            _ => return None,
        };
        Some((what, source.rejected_fields()))
    }

    /// Returns whether the release is recorded elsewhere, and another resource took it over from the owner.
    pub fn is_taken_over(&self) -> bool {
        matches!(self, Error::Storage(storage::Error::TakenOver { .. }))
    }

    /// Returns whether the server forbids looking for records in the release's namespace, where the operator keeps
    /// none.
    fn is_forbidden_list(&self) -> bool {
        matches!(self, Error::Storage(storage::Error::Forbidden { .. }))
    }

    /// Returns whether another process has just made the revision, before this one wrote anything.
    pub fn is_taken(&self) -> bool {
        matches!(self, Error::Storage(error) if error.is_taken())
    }

    /// Returns whether the release is larger, or nests deeper, than its record may.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Error::Storage(error) if error.is_unrecordable())
    }

    /// Returns whether the release may not contain one of its objects.
    pub fn is_out_of_reach(&self) -> bool {
        matches!(self, Error::Apply(ApplyError::OutOfReach(_)) | Error::Hook(HookError::OutOfReach { .. }))
    }

    /// Returns whether an existing object does not belong to this release.
    pub fn is_ownership_conflict(&self) -> bool {
        matches!(
            self,
            Error::Apply(ApplyError::Foreign(_) | ApplyError::Taken(_))
                | Error::Hook(HookError::Foreign { .. } | HookError::Unclaimed { .. })
        )
    }
}

/// A failed action, with the revision that records the failure.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct Failure {
    /// The cause.
    #[source]
    pub cause: Error,
    /// The recorded revision; `None` if the action failed before its record was written.
    pub recorded: Option<RecordedFailure>,
    /// The revision whose record someone deleted during the action. There is nothing to continue, so the next attempt
    /// starts over.
    pub lost: Option<u32>,
}

/// The trace of a failed action in the history.
#[derive(Clone, Debug)]
pub struct RecordedFailure {
    /// The revision.
    pub version: u32,
    /// `failed`, or pending if the next attempt continues it.
    pub status: Status,
    /// The record's resource version; 0 if the response to the write was lost.
    pub resource_version: u64,
    /// Marks with every object that may exist now.
    pub marks: Marks,
    /// Revisions that were deleted from the history.
    pub dropped: Vec<Known>,
}

impl From<Error> for Failure {
    fn from(cause: Error) -> Failure {
        Failure { cause, recorded: None, lost: None }
    }
}

/// Returns a revision's release if this operator recorded it: from `packed` if it is in memory, otherwise from storage.
///
/// # Errors
/// This operator did not record it, or the record cannot be read or decoded.
pub(crate) async fn read_sealed(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Stored<Packed>>,
) -> Result<Sealed<Release>, Error> {
    let release = match packed {
        Some(packed) => packed.unpack()?,
        None => env.storage.get(&env.decoration.namespace, &env.decoration.release, version).await?.release,
    };
    release.sealed().ok_or(Error::Unproven { version })
}
