//! Why an action failed, and what that means for the caller: whether to repeat it, and whom to tell.

use super::{GroupError, LeftHook, Unpruned};
use crate::kube::{self, ApplyError, HookError, ObjectError};
use crate::{release, storage};

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
    Record(#[from] release::Error),
    #[error("the record of revision {version} was not written by this operator, or was changed since")]
    Unproven { version: u32 },
    /// An action that counted as unfinished has ended, although no answer said so, or because it cannot be continued. Nothing
    /// else was written.
    #[error("revision {version} has ended meanwhile")]
    Ended { version: u32 },
    /// The interrupted action that was to be continued has failed, and was given up beside its hook, which was not ended for
    /// too long ([`Options::leave_unended`](super::Options::leave_unended)).
    #[error("revision {version} was given up: {}", .hook.what)]
    Left { version: u32, hook: LeftHook },
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
                | ApplyError::BeingDeleted { .. }
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
            Error::Left { .. } => false,
            Error::Apply(_) => kube::is_unanswered(self),
        }
    }

    /// Returns whether contact with the API server is the cause, so that the same action may succeed once it is back.
    /// Narrower than [`is_unanswered`](Self::is_unanswered): a rejected record or read, or a finalizer that holds an
    /// object, may last for ever.
    pub fn is_outage(&self) -> bool {
        matches!(self, Error::Hook(error) if error.is_outage()) || kube::is_outage(self)
    }

    /// Returns whether a conversion webhook failed. Such an outage may last for ever, because the action itself may
    /// have broken the webhook.
    pub fn is_of_conversion(&self) -> bool {
        kube::is_of_conversion(self)
    }

    /// Returns whether the request that failed was answered, by the API server or by a proxy before it. Such an outage
    /// may last forever, because a webhook may be its cause, and only the message tells which of these it is.
    pub fn reached_server(&self) -> bool {
        match self {
            Error::Hook(error) => error.reached_server(),
            error => kube::reached_server(error),
        }
    }

    /// Returns whether an object that is recreated is still being deleted, and only Kubernetes' own finalizers keep it, or
    /// one that a hook replaces. Even so, its deletion may never end: Kubernetes may be waiting for an object with another
    /// finalizer.
    pub fn is_slow_deletion(&self) -> bool {
        match self {
            Error::Apply(error) => error.is_slow_deletion(),
            Error::Hook(error) => error.is_slow_deletion(),
            _ => false,
        }
    }

    /// Returns whether the caller's slot ended the wait for a hook or a group.
    pub fn is_interruption(&self) -> bool {
        match self {
            Error::Hook(error) => error.is_interruption(),
            Error::Group(error) => error.is_interruption(),
            _ => false,
        }
    }

    /// Returns whether a hook may still run, because an outage left its end open.
    pub(super) fn leaves_hook_running(&self) -> bool {
        matches!(self, Error::Hook(error) if error.leaves_hook_running())
    }

    /// Returns whether a hook of an interrupted action may still run, because the server, or a proxy before it, answered its
    /// end with errors. Nothing can follow that action before, and the cause may last for ever. Also whether an object of a
    /// hook that succeeded cannot be deleted because of such an answer, before which its action does not go on.
    pub fn is_refused_end(&self) -> bool {
        matches!(self, Error::Hook(error) if error.is_refused_end())
    }

    /// Returns whether an action was given up while a hook may still run, and that hook was interrupted rather than timed out.
    pub fn was_interrupted(&self) -> bool {
        matches!(self, Error::Left { hook, .. } if !hook.has_run_out)
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
    pub(super) fn is_forbidden_list(&self) -> bool {
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
