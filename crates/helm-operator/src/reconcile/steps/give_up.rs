//! Gives up what dead processes left unfinished: actions, uninstalls and tests, whose hooks would otherwise run on.

use helm_release::action::{self, Environment, GivenUp};
use helm_release::storage::Tests;

use super::remediate;
use crate::reconcile::decide::gate;
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

/// Gives up an action, another uninstall or tests that another process left unfinished, before the uninstall or the removal
/// of a failed install. Their hooks must neither run beside those of the uninstall nor outlive the record, unless its hooks
/// are disabled. What another resource has begun since then is left to it.
pub(super) async fn give_up_unfinished(
    context: &StepContext<'_>,
    primary: &Primary,
    env: &Environment<'_>,
) -> Result<(), action::Error> {
    action::leave_unended(env, end_tests(context, primary, env).await)?;
    let owner = primary.owner();
    for version in context.release().unwrap_or_default().left_pending(&owner) {
        action::leave_unended(env, give_up(context, primary, env, (version, "Interrupted by the uninstall")).await)?;
    }
    let release = context.release().unwrap_or_default();
    let own = release.base().filter(|(_, base)| base.is_marked_for(primary.uid())).map(|(version, _)| version);
    for version in release.left_uninstalling(&owner, own) {
        action::leave_unended(env, end_uninstall(context, env, version).await)?;
    }
    Ok(())
}

/// Ends the hooks of all uninstalls.
pub(super) async fn end_uninstalls(context: &StepContext<'_>, env: &Environment<'_>) -> Result<(), action::Error> {
    for version in context.release().unwrap_or_default().uninstalling() {
        end_uninstall(context, env, version).await?;
    }
    Ok(())
}

/// Ends the hooks of the uninstall that this revision records.
pub(super) async fn end_uninstall(
    context: &StepContext<'_>,
    env: &Environment<'_>,
    version: u32,
) -> Result<(), action::Error> {
    remediate::cache_marks(context, version, action::end_left_uninstall(env, version).await?);
    Ok(())
}

/// Gives up our pending revisions and uninstalls that a revision of another writer has followed. An upgrade itself gives
/// up pending revisions.
pub(super) async fn give_up_followed(
    context: &StepContext<'_>,
    primary: &Primary,
    env: &Environment<'_>,
) -> Result<(), action::Error> {
    for version in context.release().unwrap_or_default().abandoned() {
        give_up(context, primary, env, (version, action::FOLLOWED)).await?;
    }
    end_uninstalls(context, env).await
}

/// Gives up a pending revision, for the reason that its record then shows.
async fn give_up(
    context: &StepContext<'_>,
    primary: &Primary,
    env: &Environment<'_>,
    (version, why): (u32, &str),
) -> Result<(), action::Error> {
    match action::give_up(env, version, why).await {
        Ok(GivenUp::Failed(written) | GivenUp::Left(written, _)) => {
            context.shared.cache.change_release(context.key, |release| release.given_up(version, &written));
            Ok(())
        }
        Ok(GivenUp::Ended) => {
            context.read_end(primary, version).await?;
            Ok(())
        }
        Ok(GivenUp::Unproven) => Ok(()),
        // The record has just been deleted.
        Err(action::Error::Storage(error)) if error.is_missing() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Ends the tests of the deployed revision, if they are due and may have begun.
async fn end_tests(context: &StepContext<'_>, primary: &Primary, env: &Environment<'_>) -> Result<(), action::Error> {
    let release = context.release().unwrap_or_default();
    let tested = gate::tests(&release).filter(|tests| *tests == Tests::Due).and(release.newest());
    let Some((version, _)) = tested.filter(|(_, newest)| newest.is_marked_for(primary.uid())) else { return Ok(()) };
    remediate::cache_marks(context, version, action::end_tests(env, version).await?);
    Ok(())
}
