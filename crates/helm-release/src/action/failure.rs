//! Records failed attempts and trims the history.

use super::deploy::{Attempt, Observations};
use super::{Current, Environment, Error, Failure, RecordedFailure, Records};
use crate::kube::{self, ApplyError};
use crate::release::{Release, Status};
use crate::storage::{self, Known, Marks, Stored};

/// An object that the server permanently rejected, for the next attempt with the same inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Kind and name.
    object: String,
    /// The server's message.
    message: String,
    /// Whether the server will reject the same object until something changes.
    is_final: bool,
}

impl Refusal {
    /// Returns whether the status means that the server rejects the object until something changes. An unserved kind is
    /// not final, because it may be served soon.
    pub fn is_final(&self) -> bool {
        self.is_final
    }
}

/// The server refuses to delete an object that a revision drops, or to change the metadata of one that is kept. The other
/// objects of the revision are applied.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {object}, which the release no longer contains: {refused}; {}", remedy(.verb))]
pub struct Unpruned {
    verb: &'static str,
    object: String,
    refused: kube::Error,
}

/// Returns the remedy if the server refuses this verb for an object that a revision drops.
fn remedy(verb: &str) -> &'static str {
    match verb {
        "delete" => {
            "grant the permission, lift the policy that refuses it, or annotate the object with helm.sh/resource-policy: keep"
        }
        _ => "grant the permission, or lift the policy that refuses it",
    }
}

impl Error {
    /// Returns the error of a deletion that a revision requests. The deleted object is not part of the revision, so a
    /// refusal is no fault of the revision's objects.
    pub(super) fn of_prune(self) -> Error {
        match self {
            Error::Apply(ApplyError::Failed { verb, object, source: refused }) if !refused.is_unanswered() => {
                Error::Prune(Box::new(Unpruned { verb, object, refused }))
            }
            error => error,
        }
    }

    /// Returns the object that the server permanently rejected, if that is the cause.
    pub fn refusal(&self) -> Option<Refusal> {
        if let Error::Apply(error) = self { Refusal::of(error) } else { None }
    }
}

impl Refusal {
    fn of(error: &ApplyError) -> Option<Refusal> {
        let (ApplyError::Failed { verb: "apply", object, source } | ApplyError::Guarded { object, source, .. }) = error
        else {
            return None;
        };
        if source.is_transient() {
            return None;
        }
        let is_final = matches!(source.code(), Some(400 | 403 | 405 | 415 | 422)) && !source.is_terminating();
        Some(Refusal { object: object.clone(), message: source.to_string(), is_final })
    }
}

/// Dry-runs the object that the server rejected last time. If it is rejected again and may not be recreated, the action
/// ends before its first write, so that retries do not switch the running objects back and forth.
pub(super) async fn check_refusal(attempt: &Attempt<'_>, observations: &Observations) -> Result<(), Error> {
    let env = attempt.env;
    let Some(refusal) = &env.options.refused else { return Ok(()) };
    let objects = attempt.candidate.objects.iter().zip(&attempt.keys);
    let refused = objects.filter(|(o, _)| format!("{} {:?}", o.kind, o.name) == refusal.object);
    let Some(target) = refused.filter_map(|(object, key)| attempt.target(object, key, observations)).next() else {
        return Ok(());
    };
    let options = attempt.write_options();
    let is_same = |error: &ApplyError| Refusal::of(error).as_ref() == Some(refusal);
    let answer = match env.applier.dry_run(target.object, &env.decoration).await {
        // An object that an apply never accepts may have been rejected client-side, for a different reason.
        Err(error) if !is_same(&error) && !kube::is_unanswered(&error) => {
            env.applier.dry_run_merge(target.object, &options).await
        }
        answer => answer,
    };
    match answer {
        Err(error) if is_same(&error) => Ok(env.applier.check_recreation(&target, error, &options).await?),
        // Whether the object is still rejected is unknown.
        Err(error) if kube::is_unanswered(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Records the failure of the attempt that made `release`. If a request was not answered, if the record cannot say that
/// the revision has failed, or if a hook that still runs cannot be ended, the revision stays pending, and the next attempt
/// continues it or gives it up.
pub(super) async fn record(attempt: &Attempt<'_>, mut release: Release, marks: Marks, cause: Error) -> Failure {
    let (env, what) = (attempt.env, attempt.kind.failed);
    let has_failed = !cause.is_unanswered() && end_hooks(env, &mut release, &marks).await;
    let status = if has_failed { Status::Failed } else { release.info.status };
    release.set_status(status, format!("{what} {:?} failed: {}", release.name, outside::chain(&cause)));
    let before = attempt.last_good_in_memory();
    let plan = attempt.account(&release, before.as_ref().map(Stored::facts), &marks);
    let written = env.storage.update_with(&release, &marks, plan).await;
    if let Err(error) = &written {
        tracing::warn!(release = release.name, %error, "cannot record a failed revision");
    }
    if written.as_ref().is_err_and(storage::Error::is_missing) {
        return Failure { cause, recorded: None, lost: Some(release.version) };
    }
    // What follows must give it up, because its record may say that its hooks run.
    let status = if written.is_err() { attempt.kind.pending } else { status };
    let (version, resource_version) = (release.version, written.map_or(0, |written| written.resource_version));
    let dropped = drop_old(env, attempt.current, &release).await;
    let recorded = RecordedFailure { version, status, resource_version, marks, dropped };
    Failure { cause, recorded: Some(recorded), lost: None }
}

/// Ends the hooks that still run: the action was continued, and failed before it waited for them again. Returns whether
/// none runs.
async fn end_hooks(env: &Environment<'_>, release: &mut Release, marks: &Marks) -> bool {
    if !release.has_unfinished_hooks() {
        return true;
    }
    let records = Records { storage: env.storage, marks };
    let ended = env.applier.abandon_hooks(release, &env.hook_run(&records)).await;
    ended
        .map_err(|error| tracing::warn!(release = release.name, %error, "cannot end the hooks of a failed revision"))
        .is_ok()
}

/// Returns the failure of an action that could not write the record of this revision.
pub(super) fn unwritten(error: storage::Error, version: u32) -> Failure {
    let lost = error.is_missing().then_some(version);
    Failure { lost, ..Error::Storage(error).into() }
}

/// Returns the failure of an action whose record may have been created, although no response confirms it. The revision
/// counts as recorded, so that an uninstall deletes it; a later attempt or a read finds out.
pub(super) fn unconfirmed(error: storage::Error, release: &Release, marks: &Marks) -> Failure {
    let (version, status, marks, dropped) = (release.version, release.info.status, marks.clone(), Vec::new());
    let recorded = RecordedFailure { version, status, resource_version: 0, marks, dropped };
    Failure { recorded: error.is_unanswered_write().then_some(recorded), ..Error::Storage(error).into() }
}

/// Returns the failure of an action that could not read the record that it continues.
pub(super) fn unread(error: Error, current: Option<&Current>) -> Failure {
    match (error, current) {
        (Error::Storage(error), Some(current)) => unwritten(error, current.version),
        (error, _) => error.into(),
    }
}

/// Deletes the oldest revisions beyond the limit, except deployed ones, the last good one, the one that this revision
/// returns to (the next attempt needs it), and the one that a person now wants to return to. Returns the deleted
/// revisions.
pub(super) async fn drop_old(env: &Environment<'_>, current: Option<&Current>, release: &Release) -> Vec<Known> {
    let Some(current) = current else { return Vec::new() };
    let mut dropped = Vec::new();
    let kept = [current.deployed, current.last_good, release.info.rolled_back_to(), env.live.wanted_revision()];
    let keep: Vec<Option<u32>> = current.outdated.iter().copied().map(Some).chain(kept).collect();
    let versions: Vec<u32> = current.records.iter().map(|known| known.version).collect();
    let surplus = surplus(&versions, release.version, &keep, env.options.max_history);
    for known in current.records.iter().filter(|known| surplus.contains(&known.version)) {
        let old = known.version;
        match env.storage.delete(&env.decoration.namespace, &env.decoration.release, *known).await {
            Ok(()) => dropped.push(*known),
            Err(error) => {
                tracing::warn!(release = env.decoration.release, revision = old, %error, "cannot delete an old revision")
            }
        }
    }
    dropped
}

/// Returns the oldest revisions to delete so that at most `max` remain, `version` included; 0 keeps all. Never returns
/// those in `keep`.
fn surplus(versions: &[u32], version: u32, keep: &[Option<u32>], max: usize) -> Vec<u32> {
    let older: Vec<u32> = versions.iter().copied().filter(|v| *v < version).collect();
    let surplus = if max == 0 { 0 } else { (older.len() + 1).saturating_sub(max) };
    older.into_iter().filter(|v| !keep.contains(&Some(*v))).take(surplus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_to_be_deleted_may_be_kept_instead() {
        for (verb, may_be_kept) in [("delete", true), ("release", false)] {
            let source = kube::Error::from_status(403, "Forbidden", "no");
            let error = Error::from(ApplyError::Failed { verb, object: "ConfigMap \"c\"".into(), source }).of_prune();
            assert!(error.is_refused_deletion());
            let text = error.to_string();
            let start = format!("cannot {verb} ConfigMap \"c\", which the release no longer contains: no; grant");
            assert!(text.starts_with(&start), "{text}");
            assert_eq!(text.contains("resource-policy: keep"), may_be_kept, "{text}");
        }
    }

    #[test]
    fn the_oldest_revisions_beyond_the_limit_are_deleted_except_good_ones() {
        let check = |versions: &[u32], version, keep: &[Option<u32>], max, expected: &[u32]| {
            assert_eq!(surplus(versions, version, keep, max), expected, "{versions:?} {version} {keep:?} {max}");
        };
        check(&[], 1, &[None], 3, &[]);
        check(&[1, 2], 3, &[Some(2)], 3, &[]);
        check(&[1, 2, 3], 4, &[Some(3)], 3, &[1]);
        check(&[1, 2, 3], 3, &[Some(2)], 3, &[]);
        check(&[1, 2, 3, 4], 5, &[Some(1), Some(1)], 3, &[2, 3]);
        check(&[1, 2, 3, 4], 5, &[None, Some(2)], 2, &[1, 3, 4]);
        check(&[1, 2, 3], 4, &[None], 0, &[]);
    }
}
