//! Records faults and successes for the next attempt, logs them, and publishes what is new.

use std::time::Duration;

use controller::report::Outcome;
use controller::runtime::key::ResourceKey;
use helm_release::action::{self, Action};
use jiff::Timestamp;
use tokio::time::Instant;

use super::other_operator;
use crate::reconcile::decide::last_failure::LastFailure;
use crate::reconcile::decide::memory::ResourceMemory;
use crate::reconcile::decide::state::{Objects, Observed};
use crate::reconcile::failure::{Failed, Unanswered};
use crate::reconcile::learned::NextStep;
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::status::{Fault, GIVEN_UP, RETRIES_EXCEEDED, condition};
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

impl StepContext<'_> {
    /// Counts a finished action by its error.
    pub(crate) fn count_action(&self, action: Action, began: Instant, error: Option<&action::Error>) {
        let result = match error {
            None => "success",
            Some(error) if error.is_interruption() || error.is_replaced() => "interrupted",
            Some(error) if error.is_unanswered() => "unanswered",
            Some(_) => "failed",
        };
        self.shared.counts.acted(&self.shared.settings.controller, action, result, began.elapsed());
    }

    /// Reports that someone else is working on the release. Retries when they finish, or when their time is up.
    pub(crate) fn leave(&self, primary: &Primary) -> NextStep {
        let (release, now) = (self.release(), outside::now());
        let Some((release, until)) = release.as_ref().and_then(|r| Some((r, r.in_flight(&primary.owner(), now)?)))
        else {
            return NextStep::Again;
        };
        let fault = in_flight(primary, release, until);
        let at = Instant::now() + Duration::try_from(until.duration_since(now)).unwrap_or_default();
        let news = self.shared.memory.change(self.key, |memory| {
            let news = memory.failure.as_ref().is_none_or(|f| *f.failed.fault() != fault);
            // No inputs have failed, so nothing is held.
            memory.failure = Some(Box::new(LastFailure::waiting(fault.clone(), String::new(), at)));
            news
        });
        if news {
            tracing::info!(resource = %self.key, reason = fault.reason.as_str(), message = fault.message, "Leaving the release alone");
            self.shared.publish(primary, Outcome::normal(fault.reason.as_str(), "Reconcile", fault.message));
        }
        NextStep::At(at)
    }

    /// Records a failure. The same inputs wait longer each time; other inputs are tried immediately. If the resource is
    /// gone, its failure is only logged, because it must not count for a new resource of that name.
    pub(crate) fn fail(&self, primary: &Primary, failed: &Failed) {
        let (inputs, fault) = (self.attempt(primary), failed.fault());
        let retries = self.shared.settings.retries;
        let now = Instant::now();
        let noted = self.change_memory_of(primary, |memory| {
            let news = memory.fail(failed, inputs.clone(), now, retries);
            let exhausted = memory.is_exhausted(&inputs);
            (news, exhausted, memory.held_until(&inputs, now).filter(|_| !exhausted))
        });
        let Some((news, exhausted, next)) = noted else { return log_fault(self.key, fault, None) };
        log_fault(self.key, fault, next.map(|at| at - now));
        if news {
            self.publish_fault(primary, fault);
        }
        if exhausted {
            tracing::error!(resource = %self.key, "Giving up until something changes");
            let note = format!("{}; {GIVEN_UP}", fault.message);
            self.shared.publish(primary, Outcome::warning(RETRIES_EXCEEDED, "Reconcile", note));
        }
    }

    /// Records a failed repair, which delays only repairs.
    pub(crate) fn fail_repair(&self, primary: &Primary, fault: &Fault) {
        let noted = fault.clone();
        let news = self.change_memory_of(primary, |h| h.drift.fail(noted, Instant::now()));
        log_fault(self.key, fault, None);
        if news == Some(true) {
            self.publish_fault(primary, fault);
        }
    }

    /// Changes what is remembered of this resource; returns `None` if the resource is gone.
    pub(crate) fn change_memory_of<T>(
        &self,
        primary: &Primary,
        change: impl FnOnce(&mut ResourceMemory) -> T,
    ) -> Option<T> {
        let is_there = || self.shared.cache.has_primary(self.key, primary.uid());
        self.shared.memory.change_if(is_there, self.key, change)
    }

    /// Logs and publishes a new fault.
    pub(crate) fn report_fault(&self, primary: &Primary, fault: &Fault) {
        log_fault(self.key, fault, None);
        self.publish_fault(primary, fault);
    }

    fn publish_fault(&self, primary: &Primary, fault: &Fault) {
        self.shared.publish(primary, Outcome::warning(fault.reason.as_str(), "Reconcile", fault.message.clone()));
    }

    /// Publishes one warning that names the first objects that a step has left, unless the last one named the same: an
    /// uninstall that waits for objects finds them again and again.
    pub(crate) fn publish_left(&self, primary: &Primary) {
        let Some(left) = self.left.take() else { return };
        let named = Box::<str>::from(&*left);
        let before = self.change_memory_of(primary, |memory| memory.release.left.replace(named)).flatten();
        if before.as_deref() == Some(&*left) {
            return;
        }
        let note = format!(
            "left {left}: only Helm's annotations name the release there, which prove nothing outside its namespace or for a cluster-scoped resource; delete yourself what nobody needs"
        );
        self.shared.publish(primary, Outcome::warning("ObjectLeft", "Delete", note));
    }

    /// Clears a failed repair, because nothing is left to do. A drift loop, however, ends only once it has been quiet
    /// long enough.
    pub(crate) fn clear_drift(&self, primary: &Primary) {
        if !primary.deleting && !primary.annotations.leaves_alone() {
            self.shared.memory.change(self.key, |memory| memory.drift.clear(self.decided));
        }
    }

    /// Clears a failed repair while something else has to wait, if no drift is left. Otherwise, only ends a drift loop
    /// that has been quiet long enough. Drift is unknown until the objects are listed.
    pub(crate) fn clear_ended_drift(&self, observed: &Observed) {
        let is_intact = matches!(observed.objects, Objects::Intact | Objects::Unconfirmed) && !observed.listing;
        self.shared.memory.change(self.key, |memory| match is_intact {
            true => memory.drift.clear(self.decided),
            false => memory.drift.clear_ended_loop(self.decided),
        });
    }

    /// Clears the report that someone else is working on the release, once they are done. No step clears it while the
    /// resource is left alone.
    pub(crate) fn clear_ended_work(&self, primary: &Primary) {
        let until = self.release().and_then(|release| release.in_flight(&primary.owner(), outside::now()));
        if until.is_none() {
            self.shared.memory.change(self.key, |memory| memory.end_work_of_others());
        }
    }

    /// Clears the failure, because something succeeded.
    pub(crate) fn succeed(&self) {
        self.shared.memory.change(self.key, |memory| memory.succeed());
    }
}

/// Logs a fault, and when the next attempt follows if nothing changes.
fn log_fault(key: &ResourceKey, fault: &Fault, next: Option<Duration>) {
    let next = next.map(in_words);
    tracing::error!(resource = %key, reason = fault.reason.as_str(), error = fault.message, next_try_in = next, "Cannot reconcile");
}

/// Formats `500ms`, or `2m8s` without fractions.
fn in_words(wait: Duration) -> String {
    let unit = if wait < Duration::from_secs(1) { Duration::from_millis(1) } else { Duration::from_secs(1) };
    golibs::time::Duration::from(wait).truncate(unit.into()).to_string()
}

/// Describes someone else's unfinished action. The time is shown in seconds.
fn in_flight(primary: &Primary, release: &ReleaseRecords, until: Timestamp) -> Fault {
    let (version, status) = release.newest().map(|(v, r)| (v, r.status.as_str())).unwrap_or_default();
    let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    if let Some(writer) = release.written_by_competitor() {
        return other_operator::at_work(primary, (version, status), writer, &until);
    }
    let message = match release.newest().and_then(|(_, newest)| newest.marks.as_deref()) {
        Some(marks) => format!(
            "revision {version} of release {:?} is {status} for another resource, a {}, which this one is to take over \
             from: the operator waits until that action ends, or until {until}",
            primary.name(),
            marks.owner_type
        ),
        None => format!(
            "revision {version} of release {:?} is {status} and was not written by this operator: a person's helm is running; \
             the operator waits until it ends, or until {until}",
            primary.name()
        ),
    };
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::ReleaseInFlight, message }
}

pub(crate) fn invalid_annotation(why: &str) -> Fault {
    let message = why.to_owned();
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::InvalidAnnotation, message }
}

/// Describes that the server refuses to list or watch the records in this namespace.
pub(crate) fn unwatched_records(namespace: &str) -> Unanswered {
    let rule = "{apiGroups: [\"\"], resources: [secrets], verbs: [get, list, watch, create, patch, delete]}";
    let message = format!(
        "cannot watch the release's records: the server refuses to list or watch Secrets in namespace {namespace:?}, so nothing is changed until it \
         allows it; add this rule to the operator's role: {rule}"
    );
    Unanswered::with_reason(Reason::RecordsForbidden, message)
}

pub(crate) fn foreign(primary: &Primary) -> Fault {
    let (name, namespace) = (primary.name(), primary.namespace());
    let message = format!(
        "release {name:?} in namespace {namespace:?} belongs to someone else; `helm status -n {namespace} {name}` shows it. Uninstall it, give this \
         resource another name, or set the annotation helm.sdk.operatorframework.io/adopt to \"true\" to take the release over: that needs `adopt: released` in watches.yaml \
         for a release that Helm made, and `adopt: any` for another resource's. What another resource took over from this one is not taken back"
    );
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::ReleaseConflict, message }
}

/// Describes a release that another resource took over, according to the records in the release's own namespace, which
/// stay when the records move.
pub(crate) fn taken_over(primary: &Primary) -> Fault {
    let fault = foreign(primary);
    let (name, namespace) = (primary.name(), primary.namespace());
    let message = format!(
        "{}. Once it is uninstalled, delete the Secrets sh.helm.release.v1.{name}.v* that are left in namespace {namespace:?}: they still say that it was taken over",
        fault.message
    );
    Fault { message, ..fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_the_next_attempt_is_short_to_read() {
        for (wait, expected) in [(0.4999, "499ms"), (1.9, "1s"), (128.4, "2m8s"), (300.0, "5m0s")] {
            assert_eq!(in_words(Duration::from_secs_f64(wait)), expected);
        }
    }
}
