//! What an action works with: clients, the release's identity, the user's options, and the record that it writes to.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::{Account, Error, LiveView, Refusal};
use crate::kube::{
    Adopt, Applier, CrdPolicy, Decoration, HookError, HookRun, IgnoreRule, Journal, JournalError, ObjectRule, Patience,
    Policy, Reach, Slot,
};
use crate::release::{Packed, Release};
use crate::storage::{self, Before, Marks, Rejected, Sealed, Storage, Stored};

/// The default of [`Options::hook_timeout`]: long enough for a migration.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(3600);

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
    /// Whether to go on beside a hook of an interrupted action if the server answers its end with errors
    /// ([`Error::is_refused_end`]). Default: false.
    pub leave_unended: bool,
    /// Whether to go on beside an object that a hook's policy deletes once it has succeeded, if the server answers its
    /// deletion with errors ([`Error::is_refused_end`]). Default: false.
    pub leave_succeeded: bool,
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
    /// and objects with [`RECREATE_ANNOTATION`](crate::kube::RECREATE_ANNOTATION). Default: none.
    pub recreate: Arc<[ObjectRule]>,
    /// What the release may contain in addition to objects in its own namespace. Default: everything.
    pub reach: Arc<Reach>,
    /// Fields that the release leaves to others. Default: none.
    pub ignore: Arc<[IgnoreRule]>,
    /// The object that the server rejected in the last attempt with the same inputs, if any. It is tried first, as a
    /// dry run.
    pub refused: Option<Refusal>,
    /// The release's state before the upgrade, which the marks record if the upgrade takes a permit. Default: none.
    pub before: Option<Before>,
    /// Whether the test hooks run after an install or upgrade ([`test()`](super::test())). Default: false.
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
            leave_unended: false,
            leave_succeeded: false,
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
    pub(super) fn hook_run<'a>(&'a self, journal: &'a dyn Journal) -> HookRun<'a> {
        HookRun {
            reach: &self.options.reach,
            decoration: &self.decoration,
            timeout: self.options.hook_timeout,
            unclaimed: self.options.adopt.max(self.options.unclaimed_hooks),
            slot: self.slot,
            journal,
            patience: Patience::UntilInterrupted,
            leaves_succeeded: self.options.leave_succeeded,
        }
    }

    /// Returns whether the action goes on although this error kept a hook from being ended.
    pub(super) fn leaves_hook(&self, error: &HookError) -> bool {
        self.options.leave_unended && error.is_refused_end()
    }

    /// Reports that the action goes on while a hook may still run. Returns which hook, and why it was not ended.
    pub(super) fn report_left(&self, error: &HookError) -> String {
        let what = error.with_object();
        self.hook_run(&()).report_left(&what);
        what
    }
}

/// Decides whether an action goes on after an attempt to end hooks. Returns what the attempt returned, or `None` if a hook
/// may still run and the action goes on beside it: because hooks are disabled, which is the remedy if no answer says that
/// it has ended, or because [`Options::leave_unended`] says so.
///
/// # Errors
/// Any other error of the attempt.
pub fn leave_unended<T>(env: &Environment<'_>, ended: Result<T, impl Into<Error>>) -> Result<Option<T>, Error> {
    match ended.map_err(Into::into) {
        Err(error) if env.options.disable_hooks && error.leaves_hook_running() => {
            tracing::warn!(release = env.decoration.release, %error, "cannot end a hook that may still run");
            Ok(None)
        }
        Err(Error::Hook(error)) if env.leaves_hook(&error) => {
            env.report_left(&error);
            Ok(None)
        }
        ended => ended.map(Some),
    }
}

/// Writes hook phases to the release record, keeping its marks.
pub(super) struct Records<'a> {
    pub(super) storage: &'a Storage,
    pub(super) marks: &'a Marks,
}

impl Journal for Records<'_> {
    fn record<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.storage.update(release, self.marks).await.map(|_| ())?) })
    }

    fn is_gone(&self, error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
        error.downcast_ref().is_some_and(storage::Error::is_missing)
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
