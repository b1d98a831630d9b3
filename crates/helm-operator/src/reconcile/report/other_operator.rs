//! Describes the problem when others make revisions of a resource's release, or remove its finalizer. Pure.

use crate::status::reason::Reason;
use crate::status::{Fault, condition};
use crate::view::competitor::Competitor;
use crate::view::finalizers::FINALIZER;
use crate::view::primary::Primary;

/// The remedy for two operators.
pub(crate) const REMEDY: &str = "stop one of them, or run both with --leader-elect and the same --leader-election-id";

/// The risk of removing our finalizer, and the remedy.
const STOP_REMOVING: &str = "and without it, a deletion of the resource leaves its release behind; stop what removes it: \
                             'kubectl get --show-managed-fields' names who wrote the resource last";

/// Describes another process's revision, which is replaced after a wait.
pub(crate) fn contested(primary: &Primary, revision: u32, competitor: &Competitor) -> Fault {
    let message = format!(
        "another operator also serves this resource: {} made revision {revision} of release {:?} with another chart, other values or an older \
         state of the resource; {REMEDY}. Until then this operator waits longer each time before it makes the next revision",
        competitor.writer,
        primary.name()
    );
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::OtherOperator, message }
}

/// Describes a revision made by an unknown writer, after several such revisions were replaced.
pub(crate) fn disputed(primary: &Primary, revision: u32) -> Fault {
    let message = format!(
        "revision {revision} of release {:?} was made with helm or by another operator, and such revisions come back each time this operator replaces \
         them; stop what makes them, or set the annotation helm.sdk.operatorframework.io/suspend to \"true\". Until then this operator waits longer each \
         time before it makes the next revision",
        primary.name()
    );
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::OtherOperator, message }
}

/// Describes the removal of our finalizer, after it was added again several times.
pub(crate) fn finalizer_removed() -> Fault {
    let message = format!(
        "something removes the finalizer {FINALIZER} each time this operator adds it, {STOP_REMOVING}. Until then this operator waits longer each \
         time before it adds the finalizer"
    );
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::ReconcileError, message }
}

/// Describes removals of our finalizer that are so rare that it is added again at once.
pub(crate) fn finalizer_removed_now_and_then() -> String {
    format!(
        "something keeps removing the finalizer {FINALIZER}, which this operator adds again each time, {STOP_REMOVING}"
    )
}

/// Describes another process's unfinished action, which is left alone.
pub(crate) fn at_work(primary: &Primary, (version, status): (u32, &str), writer: &str, until: &str) -> Fault {
    let message = format!(
        "another operator also serves this resource: {writer} is working on revision {version} of release {:?} ({status}); {REMEDY}. This operator \
         waits until the other is done, or until {until}",
        primary.name()
    );
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::OtherOperator, message }
}
