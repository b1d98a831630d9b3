//! Why a hook failed, and what that means for its objects and its action.

use outside::{Error, Purpose};

use super::{INTERRUPTED, JournalError, MadeBy};
use crate::kube::live_state::ownership::NotOurs;
use crate::kube::objects::object::ObjectError;
use crate::kube::writes::reach::OutOfReach;
use crate::release::{DeletePolicy, Hook};

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum HookError {
    #[error("cannot run hook {path}")]
    Api {
        path: String,
        #[source]
        source: Error,
    },
    #[error("hook {path}: {refused}")]
    OutOfReach { path: String, refused: OutOfReach },
    #[error("cannot build an object for hook {path}")]
    Object {
        path: String,
        #[source]
        source: ObjectError,
    },
    #[error("cannot record hook {path}")]
    Record {
        path: String,
        #[source]
        source: JournalError,
    },
    #[error("hook {path} cannot replace {object}: {why}")]
    Foreign { path: String, object: String, why: NotOurs },
    /// The object names no owner, like the objects of Helm's hooks.
    #[error(
        "hook {path} cannot replace {object}: {}; if it is a hook's of this release, delete it, or annotate it with {annotations}",
        NotOurs::Unclaimed
    )]
    Unclaimed { path: String, object: String, annotations: String },
    /// A Job or Pod of the same name exists that no hook of this action made.
    #[error("hook {path} cannot create {object}: {why}")]
    Left {
        path: String,
        object: String,
        /// Who made it, and what removes it.
        why: &'static str,
    },
    /// The server refuses to delete what is in the place of one of its objects, such as the Job of an earlier run.
    #[error(
        "hook {path} cannot create {object}: the server refuses to delete the one in its place; delete that one, or change the role, policy or webhook that refuses it"
    )]
    Undeleted {
        path: String,
        object: Box<str>,
        #[source]
        source: Error,
    },
    #[error("hook {path} failed: {why}")]
    Failed {
        path: String,
        /// The object, and the message in its status.
        why: String,
    },
    /// The server did not answer until its timeout, so it may have succeeded.
    #[error("hook {path} is not known to have finished within {limit}: still waiting for {what}")]
    Unanswered {
        path: String,
        /// The timeout in Go's notation.
        limit: String,
        /// What it waited for, and why the last request failed.
        what: String,
        /// Whether the server, or a proxy before it, answered the last request, with an error.
        was_answered: bool,
    },
    #[error("hook {path} did not finish within {limit}: still waiting for {what}")]
    TimedOut {
        path: String,
        /// The timeout in Go's notation.
        limit: String,
        what: String,
    },
    /// What an earlier run left is still being deleted, for example because its node is lost.
    #[error(
        "hook {path} cannot begin: after {limit}, it still waits for {what}; find out what keeps that, such as a finalizer or a lost node"
    )]
    StillDeleting {
        path: String,
        /// The timeout in Go's notation.
        limit: String,
        what: String,
    },
    /// Its run was ended from outside ([`Slot::interruption`](super::Slot::interruption)).
    #[error("hook {path} was interrupted while waiting for {what}: {why}")]
    Interrupted { path: String, what: String, why: &'static str },
    /// All hooks have succeeded, but what would follow them is no longer wanted ([`Slot::interruption`](super::Slot::interruption)).
    #[error("interrupted once its hooks had succeeded: {why}")]
    Overtaken { why: &'static str },
    /// It did not end by itself, and no answer says that it was ended.
    #[error("{why}; it may still run, because its end was not answered")]
    Unended {
        /// Why it was to be ended.
        why: Box<HookError>,
        #[source]
        source: Box<HookError>,
    },
    /// Something else is to follow its revision, and no answer says that it was ended before that.
    #[error("hook {path} may still run, because its end was not answered")]
    MayRun {
        path: String,
        #[source]
        source: Box<HookError>,
    },
    /// Its delete policy removes an object once the hook has succeeded, and the server does not delete it.
    #[error("hook {path} has succeeded, but {object} cannot be deleted")]
    Uncleaned {
        path: String,
        object: String,
        /// Whether the server, or a proxy before it, answered the last request, or no answer could help.
        was_answered: bool,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl HookError {
    /// Returns whether its run was ended from outside, or what follows it.
    pub fn is_interruption(&self) -> bool {
        matches!(self, HookError::Interrupted { .. } | HookError::Overtaken { .. })
    }

    /// Returns whether the hook's outcome is unknown, because a request or a write of the record failed, or whether the hook
    /// has not begun. The next attempt finds out whether it is running or has succeeded, or begins it.
    pub(crate) fn is_unanswered(&self) -> bool {
        match self {
            HookError::Record { .. }
            | HookError::Unanswered { .. }
            | HookError::StillDeleting { .. }
            | HookError::Unended { .. }
            | HookError::MayRun { .. }
            | HookError::Uncleaned { .. } => true,
            error => outside::is_unanswered(error),
        }
    }

    /// Returns whether an outage is the cause, rather than a refusal.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            HookError::Unanswered { .. } | HookError::Uncleaned { was_answered: false, .. } => true,
            HookError::Unended { source, .. } | HookError::MayRun { source, .. } => source.is_outage(),
            error => outside::is_outage(error),
        }
    }

    /// Returns whether a hook may still run, because an outage left its end open.
    pub(crate) fn leaves_hook_running(&self) -> bool {
        self.is_outage() && !matches!(self, HookError::Record { .. })
    }

    /// Returns whether a hook of a revision that is given up may still run, because the server, or a proxy before it, answered
    /// its end with errors, or whether an object of a hook that succeeded is left because of such an answer. That may last for
    /// ever: the revision itself may have broken a webhook.
    pub(crate) fn is_refused_end(&self) -> bool {
        matches!(self, HookError::MayRun { .. } | HookError::Uncleaned { .. }) && self.reached_server()
    }

    /// Returns whether the server rejects the deletion of a succeeded hook's object for another reason than an outage.
    pub(crate) fn is_rejected_clean_up(&self) -> bool {
        matches!(self, HookError::Uncleaned { .. }) && outside::reached_server(self) && !outside::is_unanswered(self)
    }

    /// Returns whether the server, or a proxy before it, answered the last request that failed.
    pub(crate) fn reached_server(&self) -> bool {
        match self {
            HookError::Unanswered { was_answered, .. } | HookError::Uncleaned { was_answered, .. } => *was_answered,
            HookError::Unended { source, .. } | HookError::MayRun { source, .. } => source.reached_server(),
            error => outside::reached_server(error),
        }
    }

    /// Returns the message with that of its cause, which names the object. Without the server's message, which may quote
    /// values.
    pub(crate) fn with_object(&self) -> String {
        match self {
            HookError::MayRun { source, .. } => format!("{self}: {source}"),
            error => match outside::named(error) {
                Some(answer) => format!("{error} ({answer})"),
                None => error.to_string(),
            },
        }
    }

    /// Returns the error of an end that was not answered.
    pub(super) fn of_end(self, hook: &Hook) -> HookError {
        HookError::MayRun { path: hook.path.clone(), source: Box::new(self) }
    }

    /// Returns the error of deleting this object of a hook that succeeded.
    pub(super) fn of_clean_up(self, object: String) -> HookError {
        let path = match &self {
            HookError::Api { path, .. } | HookError::Unanswered { path, .. } => path.clone(),
            _ => return self,
        };
        // What is wrong whatever the server answers, such as a kind that it no longer serves, is no outage.
        let was_answered = self.reached_server() || !self.is_unanswered();
        let source: Box<dyn std::error::Error + Send + Sync> = match self {
            HookError::Api { source, .. } => Box::new(source),
            error => Box::new(error),
        };
        HookError::Uncleaned { path, object, was_answered, source }
    }

    /// Returns the error of deleting what is in the place of this object. One that cannot be read may not exist.
    pub(super) fn of_obstacle(self, object: String) -> HookError {
        match self {
            HookError::Api { path, source: source @ Error::Refused { purpose: Purpose::Write, .. } } => {
                HookError::Undeleted { path, object: object.into(), source }
            }
            error => error,
        }
    }

    /// Returns the error of a wait whose last request was refused, or not answered.
    pub(super) fn with_answer(self, is_refusal: bool) -> HookError {
        match self {
            HookError::Unanswered { path, limit, what, .. } => {
                HookError::Unanswered { path, limit, what, was_answered: is_refusal }
            }
            error => error,
        }
    }

    /// Returns whether an object is still being deleted, which may last for ever.
    pub(crate) fn is_slow_deletion(&self) -> bool {
        matches!(self, HookError::StillDeleting { .. })
    }

    /// Returns the error of a deletion that was waited for.
    pub(super) fn of_deletion(self) -> HookError {
        match self {
            HookError::TimedOut { path, limit, what } => HookError::StillDeleting { path, limit, what },
            error => error,
        }
    }

    /// Returns whether its Job or Pod ran and failed, or did not end in time.
    pub(super) fn is_verdict(&self) -> bool {
        matches!(self, HookError::Failed { .. } | HookError::TimedOut { .. })
    }

    /// Returns whether a deletion that failed in this way may succeed in the next attempt: the hook's failure could not be
    /// recorded before it, or it was not answered.
    pub(super) fn leaves_end_open(&self) -> bool {
        matches!(self, HookError::Record { .. }) || self.is_outage()
    }

    /// Returns whether its Job or Pod was left while it ran.
    pub(super) fn leaves_it_running(&self) -> bool {
        matches!(self, HookError::Interrupted { .. } | HookError::TimedOut { .. })
    }

    /// Returns the policies by which a hook's objects are deleted after this error. What still runs must not run in parallel
    /// with the next action, which may be an uninstall that creates no objects, or may give the Job another name: it is
    /// deleted immediately if the chart deletes it before each run. So is an object with a generated name that may still
    /// run, because the run of the next revision does not find it.
    pub(super) fn policies(&self, hook: &Hook) -> &'static [DeletePolicy] {
        let may_run = !matches!(self, HookError::Failed { .. });
        match self.leaves_it_running() || (may_run && hook.name.is_empty()) {
            true => INTERRUPTED,
            false => &[DeletePolicy::HookFailed],
        }
    }

    /// Returns whose objects are deleted after this error. What an earlier run left would fail each later revision as
    /// well.
    pub(super) fn whose(&self) -> MadeBy {
        if matches!(self, HookError::Left { .. }) { MadeBy::Operator } else { MadeBy::RecordedRun }
    }

    /// Returns whether its object cannot be created because the namespace is being deleted.
    pub(super) fn is_terminating(&self) -> bool {
        matches!(self, HookError::Api { source, .. } if source.is_terminating())
    }
}
