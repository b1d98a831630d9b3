//! Makes the revision from which an uninstall runs the chart's hooks if this operator did not write the release's record.

use helm_release::action::{self, Candidate, Environment, Uninstalling};
use helm_release::release::Status;
use helm_release::storage::Stored;

use super::uninstall::uninstalling;
use super::uninstall_stop::{REPLACED, read_records, stopped_by};
use super::unproven::has_delete_hooks;
use super::unrecorded::add_found;
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;
use crate::view::release::Trust;

/// Adds the live objects that name the release as their owner to those of an unproven record. If the chart has hooks, makes
/// a revision with them, from whose record they run: the unproven one may be what a person wants to return to, and stays as
/// it is. Returns why the uninstall stops before that.
pub(super) async fn complete(
    context: &StepContext<'_>,
    primary: &Primary,
    env: &Environment<'_>,
    at: &mut Uninstalling,
    candidate: Option<&Candidate>,
) -> Result<Option<&'static str>, action::Error> {
    add_found(env, primary, &mut at.marks).await?;
    let candidate = candidate.filter(|candidate| has_delete_hooks(candidate));
    at.marks.delete_hooks = candidate.is_some();
    let Some(candidate) = candidate else { return Ok(None) };
    // As known at the same moment: whoever makes a revision from now on takes the number of ours.
    let (stopped, known) = (stopped_by(context, primary), newest(context));
    if stopped.is_some() {
        return Ok(stopped);
    }
    // An earlier attempt made one, whose answer was lost.
    if uninstalling(context).is_none_or(|now| now.version != at.version) {
        return Ok(Some(REPLACED));
    }
    match action::begin_with_hooks(env, at, candidate, known + 1).await {
        Err(error) if error.is_taken() => {
            read_records(context, primary).await?;
            // Without a look at it, the same would follow at once, without end.
            if newest(context) > known { Ok(Some(REPLACED)) } else { Err(error) }
        }
        begun => {
            begun?;
            cache_made(context, at);
            Ok(None)
        }
    }
}

/// Returns the number of the newest revision, or 0 without any.
fn newest(context: &StepContext<'_>) -> u32 {
    context.release().and_then(|release| Some(release.newest()?.0)).unwrap_or_default()
}

/// Stores the revision that an uninstall has made for the chart's hooks.
fn cache_made(context: &StepContext<'_>, at: &Uninstalling) {
    let trust = Trust::Written(at.packed.as_ref().map(Stored::content));
    context.shared.cache.change_release(context.key, |release| {
        let resource_version = at.resource_version.unwrap_or_default();
        release.put(at.version, (Status::Uninstalling, trust), resource_version, at.marks.clone());
        release.packed = at.packed.clone().map(|packed| (at.version, packed));
    });
}
