//! Ends the uninstall that an earlier attempt began after a failed upgrade, before the next revision: otherwise it
//! would upgrade a half-deleted release, without the hooks of an install. A return to a pinned revision stops it
//! instead.

use helm_release::action::{self, Action, CallOff};
use helm_release::release::Status;

use super::deploy::{follow_end, interrupted};
use super::unproven::is_unproven;
use super::{give_up, remediate, uninstall};
use crate::reconcile::failure::{Failed, Unanswered};
use crate::reconcile::learned::{Ended, NextStep};
use crate::reconcile::step_context::StepContext;
use crate::status::condition;
use crate::status::reason::Reason;
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;
use crate::watches::OnFailure;

/// Completes an uninstall that has begun, if there is one. Returns how the step ends then: the release is installed
/// again. An uninstall that has deleted nothing yet is called off instead if one of its hooks failed, or if the
/// resource or the watch no longer wants it.
///
/// # Errors
/// The uninstall waits for objects, or failed. It goes on with the next attempt.
pub(super) async fn end(context: &StepContext<'_>, primary: &Primary) -> Result<Option<Ended>, Failed> {
    let release = context.release().unwrap_or_default();
    let Some(version) = begun(context, primary, &release) else {
        end_left(context, primary).await?;
        return Ok(None);
    };
    let when = if is_wanted(context, primary, &release) { CallOff::IfFailed } else { CallOff::Always };
    let ended = match call_off(context, primary, version, when).await {
        Ok(Undone::CalledOff) => return Ok(None),
        Ok(Undone::Not) => remediate::uninstall_failed(context, primary).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(None) => Ok(Some(NextStep::Anew.into())),
        Ok(Some(awaited)) => {
            let message = format!("the release of a failed upgrade is being uninstalled: {awaited}");
            Err(Unanswered::with_reason(Reason::UninstallError, message).into())
        }
        Err(error) => follow_error(context, primary, version, &error).await.map(Some),
    }
}

/// Stops an uninstall that has begun, if there is one, because the release returns to the revision that a person pins it
/// to. Ends its hooks, and calls it off if it has deleted nothing yet. Otherwise its record says that it has begun until
/// the return is complete, so that it continues if the pin is removed. Returns how the step ends if the release cannot
/// return yet.
///
/// # Errors
/// The record cannot be read or written.
pub(super) async fn stop(context: &StepContext<'_>, primary: &Primary) -> Result<Option<Ended>, Failed> {
    let release = context.release().unwrap_or_default();
    let Some(version) = begun(context, primary, &release) else {
        end_left(context, primary).await?;
        return Ok(None);
    };
    let stopped = match call_off(context, primary, version, CallOff::Always).await {
        Ok(Undone::CalledOff) => Ok(()),
        Ok(Undone::Not) => uninstall::end_hooks(context, primary).await,
        Err(error) => Err(error),
    };
    match stopped {
        Ok(()) => Ok(None),
        Err(error) => follow_error(context, primary, version, &error).await.map(Some),
    }
}

/// Ends the hooks of uninstalls that nothing continues, before the next revision: they belong to an earlier resource of the
/// name, or another writer has made a revision since.
///
/// # Errors
/// A record cannot be read or written.
pub(super) async fn end_left(context: &StepContext<'_>, primary: &Primary) -> Result<(), Failed> {
    if context.release().unwrap_or_default().uninstalling().is_empty() {
        return Ok(());
    }
    let env = context.environment(primary, Action::Uninstall);
    let ended = give_up::end_uninstalls(context, &env).await;
    ended.map_err(|error| Failed::of_step(&error, condition::RELEASE_FAILED, Reason::UninstallError))
}

/// Returns how the step ends after this error of the uninstall of a revision.
async fn follow_error(
    context: &StepContext<'_>,
    primary: &Primary,
    version: u32,
    error: &action::Error,
) -> Result<Ended, Failed> {
    if is_unproven(error) {
        context.distrust(version);
        return Ok(NextStep::Anew.into());
    }
    if error.is_interruption() {
        return Ok(interrupted(context, primary, error).await.into());
    }
    match error.ended() {
        Some(version) => follow_end(context, primary, version).await,
        None => Err(Failed::of_step(error, condition::RELEASE_FAILED, Reason::UninstallError)),
    }
}

/// Whether an uninstall was called off.
enum Undone {
    CalledOff,
    /// It goes on.
    Not,
}

/// Returns the resource's revision whose uninstall has begun.
fn begun(context: &StepContext<'_>, primary: &Primary, release: &ReleaseRecords) -> Option<u32> {
    let (version, _) = release.begun_uninstall()?;
    context.vouches(release, version, primary).then_some(version)
}

/// Returns whether the attempt would begin the same uninstall again: that with the inputs of the failed upgrade.
fn is_wanted(context: &StepContext<'_>, primary: &Primary, release: &ReleaseRecords) -> bool {
    let is_same = release.newest().is_some_and(|(_, newest)| context.has_present_inputs(newest, primary));
    is_same && context.shared.settings.on_failure == OnFailure::Uninstall
}

async fn call_off(
    context: &StepContext<'_>,
    primary: &Primary,
    version: u32,
    when: CallOff,
) -> Result<Undone, action::Error> {
    let env = context.environment(primary, Action::Uninstall);
    let Some((written, marks)) = action::call_off(&env, version, when).await? else { return Ok(Undone::Not) };
    tracing::info!(resource = %context.key, revision = version, "Called off the uninstall after a failed upgrade");
    context
        .shared
        .cache
        .change_release(context.key, |release| release.put_written(version, Status::Deployed, written, marks));
    Ok(Undone::CalledOff)
}
