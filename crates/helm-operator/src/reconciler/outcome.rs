//! What went wrong or right: remembered for the next attempt, logged, and published where it is news.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::history::Failed;
use super::primary::Primary;
use super::release::Release;
use super::work::{Next, Work};
use crate::backoff::Retry;
use crate::report::Outcome;
use crate::status::{Fault, condition};

impl Work<'_> {
    /// Says that somebody else is at work on the release, and looks again when that is no longer respected, or when it ends.
    pub(super) fn leave(&self, primary: &Primary) -> Next {
        let (release, now) = (self.release(), Timestamp::now());
        let Some((release, until)) = release.as_ref().and_then(|r| Some((r, r.in_flight(now)?))) else {
            return Next::Look;
        };
        let fault = in_flight(primary, release, until);
        let at = Instant::now() + Duration::try_from(until.duration_since(now)).unwrap_or_default();
        let news = self.shared.cache.change_history(self.key, |history| {
            let news = history.failure.as_ref().is_none_or(|f| f.fault != fault);
            // No inputs have failed: what follows is not held.
            history.failure =
                Some(Failed { fault: fault.clone(), inputs: String::new(), retry: Retry { failures: 0, at } });
            news
        });
        if news {
            tracing::info!(resource = %self.key, reason = fault.reason, message = fault.message, "Left alone");
            self.shared.publish(primary, Outcome::normal(fault.reason, "Reconcile", fault.message));
        }
        Next::At(at)
    }

    /// Notes a failure: the same is tried again later and later, anything else at once.
    pub(super) fn fail(&self, primary: &Primary, fault: Fault) {
        let (inputs, noted) = (self.attempt(primary), fault.clone());
        let news = self.shared.cache.change_history(self.key, |h| h.fail(noted, inputs, Instant::now()));
        self.tell(primary, &fault, news);
    }

    /// The same for a repair: it holds nothing but repairs.
    pub(super) fn fail_repair(&self, primary: &Primary, fault: Fault) {
        let noted = fault.clone();
        let news = self.shared.cache.change_history(self.key, |h| h.drift.fail(noted, Instant::now()));
        self.tell(primary, &fault, news);
    }

    /// Logs a fault, and publishes it if it is news.
    pub(super) fn tell(&self, primary: &Primary, fault: &Fault, news: bool) {
        tracing::error!(resource = %self.key, reason = fault.reason, error = fault.message, "Cannot reconcile");
        if news {
            self.shared.publish(primary, Outcome::warning(fault.reason, "Reconcile", fault.message.clone()));
        }
    }

    /// Nothing is left to do, so nothing is wrong any more; only a fight counts as over when it was quiet for a while.
    pub(super) fn calm(&self, primary: &Primary) {
        if primary.deleting || primary.annotations.suspend() {
            return;
        }
        self.shared.cache.change_history(self.key, |history| {
            history.succeed();
            history.drift.calm(self.decided);
        });
    }

    /// Forgets the failure: something succeeded.
    pub(super) fn succeed(&self) {
        self.shared.cache.change_history(self.key, |history| history.succeed());
    }
}

/// Seconds are enough for people.
fn in_flight(primary: &Primary, release: &Release, until: Timestamp) -> Fault {
    let (version, status) = release.newest().map(|(v, r)| (v, r.status.as_str())).unwrap_or_default();
    let until = until.strftime("%Y-%m-%dT%H:%M:%SZ");
    let message = format!(
        "revision {version} of release {:?} is {status} and was not written by this operator: somebody's helm is at work; \
         it is left alone until it ends, or until {until}",
        primary.name()
    );
    Fault { condition: condition::IRRECONCILABLE, reason: "ReleaseInFlight", message }
}

pub(super) fn misannotated(primary: &Primary) -> Fault {
    let message = primary.annotations.fault().unwrap_or_default();
    Fault { condition: condition::IRRECONCILABLE, reason: "InvalidAnnotation", message }
}

pub(super) fn foreign(primary: &Primary) -> Fault {
    let message = format!(
        "release {:?} in namespace {:?} belongs to someone else; set the annotation helm.sdk.operatorframework.io/adopt to \"true\" to take it over",
        primary.name(),
        primary.namespace()
    );
    Fault { condition: condition::IRRECONCILABLE, reason: "ReleaseConflict", message }
}
