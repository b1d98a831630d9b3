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
//! [`test()`] runs the test hooks of a deployed revision, which stays deployed whatever their outcome. They run again only
//! once [`expect_tests_again`] has recorded it. If somebody replaces the revision meanwhile, its tests end without a
//! result. The next revision ends the tests that a dead process started; before an uninstall, the caller does
//! ([`end_tests()`]).
//!
//! An uninstall runs in parts that the caller repeats until each is done: [`run_pre_delete`], [`begin_deletion`] if the
//! resource stays, the [`later_rounds`] of an ordered release, [`delete_objects`], [`run_post_delete`], then
//! [`Storage::delete_all`]. If the resource stays, it may stop in between: [`call_off`] before anything is deleted,
//! [`withdraw_deletion`] if that is only recorded, and [`end_delete_hooks`] before a revision that creates anew what is
//! gone. Before the next revision, or another uninstall, [`end_left_uninstall`] ends the hooks of one that nothing
//! continues.
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
//! - After an error caused by the candidate, the revision is `failed`; the next attempt makes a new revision. If the
//!   record cannot be written, it stays pending, as after any other error.
//! - After any other error ([`Error::is_unanswered`]), the revision stays pending; the next attempt continues it under
//!   the same number. With other inputs, or as another action, the next attempt gives it up and makes a new revision
//!   ([`give_up()`]): what its hooks started is deleted as after an interruption, and it is marked failed.
//! - If [`Slot::interruption`] ends a hook, the hook and the revision have failed.
//! - Dropping the future, or a crash, has the same effect as a request without an answer. With the same inputs, the
//!   next attempt of a chart with hooks continues from the recorded manifest, including its random values, and waits
//!   for hooks that still run.
//!
//! [`Storage::delete_all`]: crate::storage::Storage::delete_all
//! [`Slot::interruption`]: crate::kube::Slot::interruption

mod account;
mod admit;
mod candidate;
mod compare;
mod current;
mod deletion;
mod deploy;
mod environment;
mod error;
mod failure;
mod give_up;
mod handover;
mod import;
mod inspect;
mod install;
mod keys;
mod last;
mod live_view;
mod moved;
mod name;
mod order;
mod orphans;
mod outcome;
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

pub use account::{Account, Made};
pub use admit::{Admission, Admitted, admit};
pub use candidate::Candidate;
pub use current::Current;
pub use deletion::{delete_each, delete_left_behind, delete_objects, later_rounds};
pub use environment::{Environment, HOOK_TIMEOUT, Options, leave_unended};
pub use error::Error;
pub use failure::{Refusal, Unpruned};
pub use give_up::{FOLLOWED, GivenUp, LeftHook, end_tests, give_up};
pub use import::{Begun, Evidence, Imported, Sought, end_hooks_elsewhere, import, with_unsuccessful_before};
pub use inspect::inspect;
pub use install::{install, replace_crds};
pub use keys::deduplicated;
pub use live_view::{Cached, CachedObject, LiveView};
pub use name::Action;
pub use order::{GroupError, Health};
pub use orphans::{claimed, orphans};
pub use outcome::{Completed, Failure, RecordedFailure};
pub use remains::expect_jobs_of_former;
pub use repair::{Repaired, Unbound, check_takeover, reapply, record_ownership, repair, take_ownership, unbind};
pub use rollback::{rollback, rollback_to};
pub use start_over::{expect_jobs_again, expect_no_jobs};
pub use test::{Tested, expect_tests_again, test};
pub use uninstall::{
    CallOff, POST_DELETE_TRIES, PostDelete, Uninstalling, abandon, begin_deletion, begin_with_hooks, call_off,
    end_delete_hooks, end_left_uninstall, give_back, hand_over, inventory_of, run_post_delete, run_pre_delete,
    withdraw_deletion,
};
pub use upgrade::upgrade;

use candidate::HELM_APPLY_METHOD;
use environment::{Records, read_sealed};
