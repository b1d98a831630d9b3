//! Determines the health of a deployed release: which objects are not ready and why, when to diagnose them, and whether
//! anything still makes progress. Pure.
//!
//! That nothing has changed within the limit is a verdict only once the server has confirmed it: a watch may be
//! interrupted. The time until contact with the server was last lost for long does not count.
//!
//! A diagnosis ([`crate::reconcile::report::diagnose`]) asks the server for what no watch reports: pods and events. A
//! ready release has no state here.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use helm_release::kube::{ObjectKey, Unready};
use tokio::time::Instant;

use super::quotations::{Cause, Quotations};
use crate::status::{Health, MAX_NAMED};

/// The wait before the first diagnosis, and the minimum between two.
pub(crate) const FIRST_DIAGNOSIS: Duration = Duration::from_secs(10);
/// The maximum wait between two diagnoses.
const RAREST_DIAGNOSIS: Duration = Duration::from_secs(300);

/// How long after its promised turn to retry a diagnosis, or a question to the server, that could not start. While another
/// one runs, that turn is only a guess, and may already be due.
const LATER: Duration = Duration::from_secs(1);

/// An object of the release that is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unhealthy {
    pub(crate) key: ObjectKey,
    pub(crate) api_version: std::sync::Arc<str>,
    /// Whether it exists and is not being deleted.
    pub(crate) is_live: bool,
    /// Whether the server deletes it once it has finished.
    pub(crate) expires: bool,
    pub(crate) unready: Unready,
}

impl Unhealthy {
    /// Returns whether a diagnosis may find more than the object's own status says.
    pub(crate) fn is_examinable(&self) -> bool {
        self.is_live && can_explain(&self.key.group, &self.key.kind)
    }
}

/// Returns whether a diagnosis of an object of this kind can find more than its own status says.
pub(crate) fn can_explain(group: &str, kind: &str) -> bool {
    let kinds: &[&str] = match group {
        "" => &["Pod", "PersistentVolumeClaim", "ReplicationController", "Service"],
        "apps" => &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
        "batch" => &["Job"],
        _ => &[],
    };
    kinds.contains(&kind)
}

/// The state of a release that is not ready.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// A digest of the release's state, in which a change is progress.
    progress: u64,
    /// When that state was first seen, or contact with the server was last lost for long.
    since: Instant,
    /// Whether the server has confirmed since then that nothing has changed within the limit.
    is_confirmed: bool,
    /// Whether the previous process saw no progress within the limit, and there has been none since.
    was_stalled: bool,
    /// Diagnoses since the last progress.
    diagnoses: u32,
    next_diagnosis: Instant,
    /// Whether a diagnosis can explain one of the objects.
    is_examinable: bool,
    /// The causes that the last diagnosis found, by object.
    causes: Vec<(ObjectKey, Cause)>,
    /// How much the message shows of the texts that it quotes.
    pub(crate) quotations: Quotations,
}

/// Digests the state of a release that is not ready. A changed digest is progress.
pub(crate) fn progress_of(revision: u32, unhealthy: &[Unhealthy]) -> u64 {
    let mut hasher = DefaultHasher::new();
    revision.hash(&mut hasher);
    for one in unhealthy {
        (&one.key, one.unready.failed, one.unready.progress).hash(&mut hasher);
    }
    hasher.finish()
}

impl Waiting {
    pub(crate) fn begin(progress: u64, now: Instant) -> Waiting {
        let next_diagnosis = now + FIRST_DIAGNOSIS;
        Waiting {
            progress,
            since: now,
            is_confirmed: false,
            was_stalled: false,
            diagnoses: 0,
            next_diagnosis,
            is_examinable: false,
            causes: Vec::new(),
            quotations: Quotations::default(),
        }
    }

    /// Returns the wait of a release that had already stalled when the previous process ended.
    pub(crate) fn stalled(self) -> Waiting {
        Waiting { was_stalled: true, ..self }
    }

    /// Compares the state with the previous one. An object that has just appeared gets the same time before its first
    /// diagnosis as any other.
    pub(crate) fn observe(&mut self, progress: u64, unhealthy: &[Unhealthy], now: Instant) {
        let is_examinable = unhealthy.iter().any(Unhealthy::is_examinable);
        if is_examinable && !self.is_examinable {
            self.next_diagnosis = self.next_diagnosis.max(now + FIRST_DIAGNOSIS);
        }
        self.is_examinable = is_examinable;
        if self.progress == progress {
            return;
        }
        (self.progress, self.since, self.diagnoses) = (progress, now, 0);
        (self.is_confirmed, self.was_stalled) = (false, false);
        self.next_diagnosis = self.next_diagnosis.min(now + FIRST_DIAGNOSIS);
    }

    pub(crate) fn is_diagnosis_due(&self, now: Instant) -> bool {
        self.is_examinable && self.next_diagnosis <= now
    }

    /// Stores the findings of a diagnosis, and doubles the wait for the next one.
    pub(crate) fn diagnosed(&mut self, causes: Vec<(ObjectKey, Cause)>, now: Instant) {
        self.causes = causes;
        self.next_diagnosis = now + FIRST_DIAGNOSIS.saturating_mul(1 << self.diagnoses.min(16)).min(RAREST_DIAGNOSIS);
        self.diagnoses = self.diagnoses.saturating_add(1);
    }

    /// Postpones a diagnosis that could not run, because its turn comes no earlier.
    pub(crate) fn postpone(&mut self, turn: Instant) {
        self.next_diagnosis = turn + LATER;
    }

    /// Returns when the limit began to count.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Restarts the limit, because changes in the meantime may be unknown. A verdict stands.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.since = now;
    }

    /// Returns whether no change within the limit is known, so that the server must confirm it.
    pub(crate) fn is_overdue(&self, limit: Duration, now: Instant) -> bool {
        !limit.is_zero() && !self.is_timed_out(limit) && now >= self.since + limit
    }

    /// Postpones the question to the server, because its turn comes no earlier.
    pub(crate) fn put_off(&mut self, limit: Duration, turn: Instant) {
        // A deadline that is over by the end of the reconcile would set no timer.
        let at = turn + LATER;
        self.since = at.checked_sub(limit).unwrap_or(at);
    }

    /// Records the server's answer.
    pub(crate) fn confirm(&mut self) {
        self.is_confirmed = true;
    }

    /// Returns the texts of other programs that the message quotes.
    pub(crate) fn quoted(&self, unhealthy: &[Unhealthy]) -> Vec<String> {
        let named = unhealthy.iter().take(MAX_NAMED);
        let quoted = named.flat_map(|one| {
            let cause = self.cause(&one.key).map(|cause| &*cause.quoted);
            [quotation(&one.unready), cause.unwrap_or_default()]
        });
        quoted.filter(|text| !text.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the health of a release with these unready objects, failed ones first. Zero sets no limit.
    pub(crate) fn health(&self, unhealthy: &[Unhealthy], limit: Duration) -> Health {
        let Some(first) = unhealthy.first() else { return Health::Ready };
        let parts: Vec<String> = unhealthy.iter().take(MAX_NAMED).map(|one| self.sentence(one)).collect();
        let mut message = parts.join("; ");
        if let more @ 1.. = unhealthy.len().saturating_sub(MAX_NAMED) {
            message.push_str(&format!("; {more} more objects are not ready"));
        }
        match () {
            () if first.unready.failed => Health::Failed(message),
            () if self.is_timed_out(limit) => Health::TimedOut(message),
            () => Health::Progressing(message),
        }
    }

    /// Returns whether there was no progress within the limit.
    fn is_timed_out(&self, limit: Duration) -> bool {
        !limit.is_zero() && (self.was_stalled || self.is_confirmed)
    }

    /// Returns when to reconcile again, for a diagnosis and for the limit. A past deadline has had its effect.
    pub(crate) fn next(&self, limit: Duration) -> [Option<Instant>; 2] {
        let deadline = (!limit.is_zero() && !self.is_timed_out(limit)).then(|| self.since + limit);
        [self.is_examinable.then_some(self.next_diagnosis), deadline]
    }

    /// Describes one object: `Deployment "web" is not ready: 0 of 1 replicas are available: pod "web-1": …`
    fn sentence(&self, one: &Unhealthy) -> String {
        let state = if one.unready.failed { "failed" } else { "is not ready" };
        let why = self.quotations.show(&one.unready.why, quotation(&one.unready));
        let why = why.trim_end_matches('.');
        match self.cause(&one.key) {
            Some(cause) => {
                format!("{} {state}: {why}: {}", one.key, self.quotations.show(&cause.text, &cause.quoted))
            }
            None => format!("{} {state}: {why}", one.key),
        }
    }

    fn cause(&self, key: &ObjectKey) -> Option<&Cause> {
        self.causes.iter().find(|(of, _)| of == key).map(|(_, cause)| cause)
    }
}

/// Returns the part of a reason that another program wrote; may be empty.
fn quotation(unready: &Unready) -> &str {
    if unready.quotes { &unready.why } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMIT: Duration = Duration::from_secs(600);

    fn key(name: &str) -> ObjectKey {
        ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: "ns".into(), name: name.into() }
    }

    fn unhealthy(name: &str, failed: bool, progress: u64) -> Unhealthy {
        let unready = Unready { failed, why: "0 of 1 replicas are available.".into(), quotes: false, progress };
        Unhealthy { key: key(name), api_version: "apps/v1".into(), is_live: true, expires: false, unready }
    }

    fn live() -> Unhealthy {
        unhealthy("web", false, 1)
    }

    /// Returns an object that does not exist.
    fn gone() -> Unhealthy {
        Unhealthy { is_live: false, ..live() }
    }

    #[tokio::test(start_paused = true)]
    async fn looks_become_rarer_while_nothing_moves() {
        let begin = Instant::now();
        let mut waiting = Waiting::begin(1, begin);
        let mut now = begin;
        for seconds in [10, 10, 20, 40, 80, 160, 300, 300] {
            waiting.observe(1, &[live()], now);
            assert!(!waiting.is_diagnosis_due(now + (seconds - 1) * SECOND));
            now += seconds * SECOND;
            assert!(waiting.is_diagnosis_due(now), "after {seconds} s");
            waiting.diagnosed(Vec::new(), now);
        }
        waiting.observe(2, &[live()], now);
        assert_eq!(waiting.next(Duration::ZERO), [Some(now + FIRST_DIAGNOSIS), None], "something moved");
        waiting.postpone(now);
        assert_eq!(waiting.next(Duration::ZERO)[0], Some(now + SECOND), "another diagnosis runs");
        waiting.observe(2, &[gone()], now);
        assert_eq!(waiting.next(Duration::ZERO), [None, None], "a diagnosis would find nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_was_gone_has_time_before_the_first_look() {
        let begin = Instant::now();
        let mut waiting = Waiting::begin(1, begin);
        waiting.observe(1, &[gone()], begin);
        let back = begin + 60 * SECOND;
        waiting.observe(2, &[live()], back);
        assert!(!waiting.is_diagnosis_due(back + 9 * SECOND) && waiting.is_diagnosis_due(back + FIRST_DIAGNOSIS));
        waiting.observe(3, &[live()], back + 9 * SECOND);
        assert!(waiting.is_diagnosis_due(back + FIRST_DIAGNOSIS), "progress postpones no look");
    }

    #[tokio::test(start_paused = true)]
    async fn only_progress_extends_the_limit() {
        let begin = Instant::now();
        let mut waiting = Waiting::begin(1, begin);
        assert_eq!(waiting.next(LIMIT), [None, Some(begin + LIMIT)]);
        waiting.observe(1, &[gone()], begin + 300 * SECOND);
        assert!(!waiting.is_overdue(LIMIT, begin + 599 * SECOND) && waiting.is_overdue(LIMIT, begin + LIMIT));
        waiting.observe(2, &[gone()], begin + LIMIT);
        assert!(!waiting.is_overdue(LIMIT, begin + 2 * LIMIT - SECOND) && waiting.is_overdue(LIMIT, begin + 2 * LIMIT));
        assert!(!waiting.is_overdue(Duration::ZERO, begin + 100 * LIMIT), "no limit");
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_is_over_once_the_server_has_confirmed_it_and_begins_anew_when_contact_is_lost() {
        let begin = Instant::now();
        let mut waiting = Waiting::begin(1, begin);
        waiting.restart(begin + 599 * SECOND);
        let (again, over) = (begin + 600 * SECOND, begin + 1199 * SECOND);
        assert!(!waiting.is_overdue(LIMIT, again) && waiting.is_overdue(LIMIT, over), "the time until then is unknown");
        assert_eq!((waiting.next(LIMIT), waiting.is_timed_out(LIMIT)), ([None, Some(over)], false));
        waiting.confirm();
        assert!(!waiting.is_overdue(LIMIT, over) && waiting.is_timed_out(LIMIT), "it is asked once");
        waiting.restart(over);
        assert_eq!((waiting.next(LIMIT), waiting.is_timed_out(LIMIT)), ([None, None], true), "a verdict stands");
        waiting.observe(2, &[gone()], over);
        assert_eq!((waiting.next(LIMIT), waiting.is_timed_out(LIMIT)), ([None, Some(over + LIMIT)], false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_has_no_turn_is_put_off_without_the_limit() {
        let begin = Instant::now();
        let mut waiting = Waiting::begin(1, begin);
        tokio::time::advance(LIMIT).await;
        let turn = begin + LIMIT + 30 * SECOND;
        waiting.put_off(LIMIT, turn);
        assert!(!waiting.is_overdue(LIMIT, turn) && waiting.is_overdue(LIMIT, turn + SECOND));
        assert_eq!(waiting.next(LIMIT), [None, Some(turn + SECOND)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_neither_clears_a_stall_nor_causes_one() {
        let begin = Instant::now();
        assert!(!Waiting::begin(1, begin).is_timed_out(LIMIT));
        let mut waiting = Waiting::begin(1, begin).stalled();
        assert!(waiting.is_timed_out(LIMIT) && !waiting.is_overdue(LIMIT, begin + LIMIT));
        assert_eq!(waiting.next(LIMIT), [None, None]);
        waiting.observe(2, &[gone()], begin + SECOND);
        assert!(!waiting.is_timed_out(LIMIT));
    }

    #[test]
    fn a_change_of_any_object_or_of_the_revision_is_progress() {
        let base = progress_of(1, &[unhealthy("a", false, 1), unhealthy("b", false, 1)]);
        assert_eq!(base, progress_of(1, &[unhealthy("a", false, 1), unhealthy("b", false, 1)]));
        for other in [
            progress_of(2, &[unhealthy("a", false, 1), unhealthy("b", false, 1)]),
            progress_of(1, &[unhealthy("a", false, 1), unhealthy("b", false, 2)]),
            progress_of(1, &[unhealthy("a", false, 1)]),
            progress_of(1, &[unhealthy("a", true, 1), unhealthy("b", false, 1)]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_names_three_objects_with_their_causes() {
        let begin = Instant::now();
        let mut waiting = Waiting::begin(1, begin);
        assert_eq!(waiting.health(&[], LIMIT), Health::Ready);
        waiting.diagnosed(
            vec![(key("b"), Cause { text: "pod \"b-1\" is unschedulable".into(), ..Cause::default() })],
            begin,
        );
        let all: Vec<Unhealthy> = ["a", "b", "c", "d", "e"].map(|name| unhealthy(name, false, 1)).into();
        let text = "Deployment \"a\" is not ready: 0 of 1 replicas are available; \
            Deployment \"b\" is not ready: 0 of 1 replicas are available: pod \"b-1\" is unschedulable; \
            Deployment \"c\" is not ready: 0 of 1 replicas are available; 2 more objects are not ready";
        assert_eq!(waiting.health(&all, LIMIT), Health::Progressing(text.into()));
        waiting.confirm();
        assert_eq!(waiting.health(&all, LIMIT), Health::TimedOut(text.into()));
        let failed = Health::Failed("Deployment \"f\" failed: 0 of 1 replicas are available".into());
        let health = waiting.health(&[unhealthy("f", true, 1)], LIMIT);
        assert_eq!(health, failed, "a failure says more than a limit");
    }
}
