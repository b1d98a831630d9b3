//! Failures of a reconcile: their reasons, messages and retries.

use std::time::Duration;

use crate::report::{Reason, chain};

/// The longest wait before another attempt to give up a resource. It is short, because no shard serves the resource
/// meanwhile.
const LONGEST_DRAIN: Duration = Duration::from_secs(30);

/// The reason why a reconcile failed.
pub(super) enum Failure<E> {
    Reconciler(E),
    /// The finalizers could not be written.
    Finalizer(kube::Error),
    /// The server accepted this finalizer, and stored the resource without it.
    FinalizerDropped(String),
    /// The cleanup for this finalizer is done. The server accepted its removal, and stored the resource with it.
    FinalizerKept(String),
    /// The resource could not be given up to another shard.
    Drain(kube::Error),
    /// The server accepted that the resource is given up, and stored it with the labels that request it.
    DrainUndone,
    /// The server refuses a watch, so the cache may be outdated; the text names what the cache lacks.
    WatchRefused(String),
    /// The resource does not fit its type; the text names the field.
    Undecodable(String),
    /// An object that the resource owns does not fit its type; the text names both, and the field.
    OwnedUndecodable(String),
    /// The reconcile took longer than allowed.
    Timeout(Duration),
    Panicked,
}

impl<E: Reason + 'static> Failure<E> {
    /// Returns the stable reason for logs, events and metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Failure::Reconciler(error) => error.reason(),
            Failure::Finalizer(_) | Failure::FinalizerDropped(_) | Failure::FinalizerKept(_) => "FinalizerFailed",
            Failure::Drain(_) | Failure::DrainUndone => "DrainFailed",
            Failure::WatchRefused(_) => "WatchRefused",
            Failure::Undecodable(_) => "Undecodable",
            Failure::OwnedUndecodable(_) => "OwnedUndecodable",
            Failure::Timeout(_) => "Timeout",
            Failure::Panicked => "Panicked",
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Failure::Reconciler(error) => chain(error),
            Failure::Finalizer(error) => format!("cannot write the finalizer: {}", chain(error)),
            Failure::FinalizerDropped(name) => format!(
                "the API server stores the resource without the finalizer {name:?}, which a webhook may remove: \
                 nothing is done until the finalizer stays"
            ),
            Failure::FinalizerKept(name) => format!(
                "the API server accepts the removal of the finalizer {name:?} and stores the resource with it, which a \
                 webhook may cause: the cleanup is repeated until the finalizer goes"
            ),
            Failure::Drain(error) => format!("cannot give the resource up to another shard: {}", chain(error)),
            Failure::DrainUndone => {
                "cannot give the resource up to another shard: the API server accepts the removal of its labels and \
                 stores the resource with them, which a webhook may cause"
                    .to_owned()
            }
            Failure::WatchRefused(what) => format!(
                "cannot list and watch {what}, so what is cached may be outdated: nothing is done until it has been \
                 listed again"
            ),
            Failure::Undecodable(cause) => {
                format!("the resource does not fit its type and is left alone until it is corrected: {cause}")
            }
            Failure::OwnedUndecodable(what) => format!(
                "an object that the resource owns does not fit its type, so it would look as if it did not exist: \
                 nothing is done until it is corrected or deleted: {what}"
            ),
            Failure::Timeout(longest) => format!("the reconcile took longer than {longest:?} and was stopped"),
            Failure::Panicked => {
                "the reconciler panicked, which is a bug; the log has the message and place".to_owned()
            }
        }
    }

    /// Returns the longest wait for the next attempt, however long the backoff is.
    pub(super) fn longest_wait(&self) -> Duration {
        match self {
            Failure::Drain(_) | Failure::DrainUndone => LONGEST_DRAIN,
            _ => Duration::MAX,
        }
    }

    /// Returns whether only a change of the resource, or the list of a refused watch, can help. Both queue it.
    pub(super) fn is_terminal(&self) -> bool {
        match self {
            Failure::Reconciler(error) => error.is_terminal(),
            Failure::Undecodable(_) | Failure::WatchRefused(_) => true,
            Failure::Finalizer(_)
            | Failure::FinalizerDropped(_)
            | Failure::FinalizerKept(_)
            | Failure::Drain(_)
            | Failure::DrainUndone
            | Failure::OwnedUndecodable(_)
            | Failure::Timeout(_)
            | Failure::Panicked => false,
        }
    }
}
