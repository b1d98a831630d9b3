//! Tracks the contact with the server: requests that got no response, and watches whose streams were interrupted.
//!
//! Once every stream has been interrupted, the server that answers next may have been restored from a backup. One watch
//! may then have listed the restored objects while another still holds what it saw before. Until all watches have
//! resumed, nothing is decided and nothing is written.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::{Request, StatusCode};
use outside::sync::lock;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::lease::Witness;

/// A watch that ends no more than this before its own timeout is not taken for interrupted.
const SLACK: Duration = Duration::from_secs(1);

/// How long a write waits for interrupted watches before it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait for an interrupted watch. After that it may never resume, because nothing needs it any more.
const HELD: Duration = Duration::from_secs(60);

/// How long all watches may be interrupted before contact counts as lost for long. Connections are reset regularly, by
/// a balancer's maximum age or a restart of the server, and the watches, which share one, resume within seconds.
const LONG: Duration = Duration::from_secs(60);

/// How long after the last failed contact a refusal may mean that the server is starting: it answers before it has
/// loaded all roles and definitions.
pub(super) const START: Duration = Duration::from_secs(10);

/// The lease's entry among the interrupted watches.
const LEASE: &str = "the lease";

/// The APIs whose objects are questions, which change nothing.
const QUESTIONS: [&str; 2] = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];

/// A write that was decided on before or while a watch was interrupted. It was not sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("watches were interrupted, so this write may rest on outdated objects: it is decided again")]
pub(super) struct Interrupted;

/// When a request was first sent, on each retry of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstSent(Instant);

impl FirstSent {
    pub(super) fn now() -> FirstSent {
        FirstSent(Instant::now())
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The server ended it.
    Whole,
    /// The connection is lost.
    Broken,
    /// Its reader stopped, which does not count as an interruption.
    Unread,
}

/// The contact of a client with the server, shared with those who decide on what its watches saw. Cheap to clone.
#[derive(Clone, Default)]
pub struct Contact(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when all watches have resumed.
    resumed: Notify,
}

#[derive(Default)]
struct State {
    outages: u64,
    /// When a request last got no answer, or a stream last broke.
    failed: Option<Instant>,
    /// Each watch, by its selection, and in that order.
    watches: BTreeMap<String, Watched>,
    /// The watches that were interrupted and have not resumed, with the time of the interruption, by their selections.
    interrupted: HashMap<String, Instant>,
    /// Whether every stream was interrupted before all of them had resumed.
    is_lost: bool,
    /// When `is_lost` was last true.
    lost: Option<Instant>,
    /// When contact was lost, until a stream runs again. Unlike `is_lost`, it lasts as long as the outage.
    away: Option<Instant>,
    /// When a stream first ran again after the last long outage.
    back: Option<Instant>,
    /// Whether a watch has found since then that the server was restored.
    is_restored: bool,
    /// Whether this process holds a lease, which shows whether the server was restored.
    has_lease: bool,
}

/// When a watch last knew that the server has its version.
struct Watched {
    /// The number of outages until then.
    outages: u64,
    /// When its last stream ends if nothing interrupts it; `None` before the first one.
    until: Option<Instant>,
    /// The number of its running streams. It is two for a moment while a stream replaces another.
    streams: usize,
    /// Whether it must list again, because another watch found that the server was restored. The server knows this
    /// watch's version, but not what was written and read since.
    must_list: bool,
    /// Ends its last stream.
    end: CancellationToken,
}

impl Watched {
    /// Returns whether the server may have been restored since: it was away, or it ended the stream early. A balancer
    /// may lead to another server at once, so no request fails.
    fn is_doubtful(&self, outages: u64, now: Instant) -> bool {
        self.must_list || self.outages != outages || self.is_early(now)
    }

    /// Returns whether a stream that ends now was interrupted.
    fn is_early(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now + SLACK < until)
    }
}

impl Contact {
    /// Records a request that got no response.
    pub(super) fn failed(&self) {
        let mut state = lock(&self.0.state);
        let now = Instant::now();
        state.outages += 1;
        state.failed = Some(now);
        // A watch that is about to list again has no stream that could break.
        if state.has_no_stream() {
            if !state.watches.is_empty() {
                state.away.get_or_insert(now);
            }
            if state.interrupt_early(now) {
                state.lose(now);
            }
        }
    }

    /// Returns the number of requests that got no response.
    pub(super) fn outages(&self) -> u64 {
        lock(&self.0.state).outages
    }

    /// Returns whether the server may be starting, and may refuse for that reason alone.
    pub(super) fn may_be_starting(&self) -> bool {
        may_be_starting(lock(&self.0.state).failed)
    }

    /// Returns whether the server may no longer know the version from which a watch resumes. A new watch has just
    /// listed, so its version is known.
    pub(super) fn doubts(&self, selection: &str) -> bool {
        let mut state = lock(&self.0.state);
        let outages = state.outages;
        let new = || Watched { outages, until: None, streams: 0, must_list: false, end: CancellationToken::new() };
        state.watches.entry(selection.to_owned()).or_insert_with(new).is_doubtful(outages, Instant::now())
    }

    /// Records that the server does not know the version of a watch. If all watches were interrupted, it was restored,
    /// and each of them lists again.
    pub(super) fn refuted(&self, selection: &str) {
        let mut state = lock(&self.0.state);
        let state = &mut *state;
        if let Some(watch) = state.watches.get_mut(selection) {
            watch.must_list = false;
        }
        if !state.is_lost || std::mem::replace(&mut state.is_restored, true) {
            return;
        }
        state.list_again(|other| other != selection);
    }

    /// Lets a watch resume from its version: its server either knows that version, or cannot be asked to refuse it, as
    /// some aggregated API servers cannot.
    pub(super) fn resumes(&self, selection: &str) {
        if let Some(watch) = lock(&self.0.state).watches.get_mut(selection) {
            watch.must_list = false;
        }
    }

    /// Ends the wait for interrupted watches if there are none.
    fn resume(&self, mut state: MutexGuard<'_, State>) {
        if state.interrupted.is_empty() && std::mem::take(&mut state.is_lost) {
            state.is_restored = false;
            drop(state);
            self.0.resumed.notify_waiters();
        }
    }

    /// Returns whether a watch must list again, although the server may know its version.
    pub(super) fn must_list(&self, selection: &str) -> bool {
        lock(&self.0.state).watches.get(selection).is_some_and(|watch| watch.must_list)
    }

    /// Records the server's answer to a watch, or to the question before it. `outages` is their number before. After a
    /// success, its stream runs until [`ended`](Self::ended), and should end when the returned token is cancelled.
    pub(super) fn answered(
        &self,
        selection: &str,
        status: StatusCode,
        timeout: Duration,
        outages: u64,
    ) -> CancellationToken {
        let mut state = lock(&self.0.state);
        let end = CancellationToken::new();
        // It began before another watch found that the server was restored.
        let must_list = state.watches.get(selection).is_some_and(|watch| watch.must_list);
        if status.is_success() {
            let until = Some(Instant::now() + timeout);
            let streams = state.watches.get(selection).map_or(0, |watch| watch.streams) + 1;
            let watch = Watched { outages, until, streams, must_list, end: end.clone() };
            state.watches.insert(selection.to_owned(), watch);
            if must_list {
                end.cancel();
                return end;
            }
            if state.away.take().is_some_and(is_long) {
                state.back = Some(Instant::now());
            }
        }
        if state.interrupted.get(selection).is_some_and(|since| state.knows(status, *since)) {
            state.interrupted.remove(selection);
        }
        self.resume(state);
        end
    }

    /// Records the end of a watch's stream.
    pub(super) fn ended(&self, selection: &str, how: Ended) {
        let mut state = lock(&self.0.state);
        let now = Instant::now();
        let is_early = state.watches.get_mut(selection).is_some_and(|watch| {
            watch.streams = watch.streams.saturating_sub(1);
            watch.is_early(now)
        });
        if how != Ended::Unread && is_early {
            state.interrupted.insert(selection.to_owned(), now);
        }
        if how == Ended::Broken {
            state.failed = Some(now);
        }
        // While any stream lasts, the server is the same: the other watches lost their definition, or belong to an
        // aggregated server.
        if !state.interrupted.is_empty() && state.has_no_stream() {
            state.lose(now);
        }
    }

    /// Returns whether all watches were interrupted after this time, so that what was decided then may concern a server
    /// that has another state now.
    pub fn was_lost_since(&self, since: Instant) -> bool {
        lock(&self.0.state).lost.is_some_and(|lost| lost > since)
    }

    /// Returns whether contact was lost, and no watch ran, for a long time that has lasted until after `since` or still does.
    /// Changes may have been missed meanwhile, and whatever makes them may have been cut off as well.
    pub fn was_away_since(&self, since: Instant) -> bool {
        let state = lock(&self.0.state);
        state.away.is_some_and(is_long) || state.back.is_some_and(|at| at > since)
    }

    /// Interrupts all watches for a moment.
    #[cfg(test)]
    pub(crate) fn lose(&self) {
        let watch = |selection: &str| _ = self.answered(selection, StatusCode::OK, Duration::from_secs(290), 0);
        watch("all");
        let all: Vec<String> = lock(&self.0.state).watches.keys().cloned().collect();
        all.iter().for_each(|selection| self.ended(selection, Ended::Broken));
        all.iter().for_each(|selection| watch(selection));
    }

    /// Waits until every watch has resumed after all were interrupted.
    pub async fn resumed(&self) {
        loop {
            let resumed = self.0.resumed.notified();
            match self.held_until() {
                Some(until) => _ = timeout_at(until, resumed).await,
                None => return,
            }
        }
    }

    /// Admits a write, unless watches are interrupted, or were since it was first sent.
    ///
    /// # Errors
    /// Watches were interrupted for too long, so the write must be decided again.
    pub(super) async fn admit_write(&self, first: Option<FirstSent>) -> Result<(), Interrupted> {
        if self.held_until().is_some() {
            _ = timeout(PATIENCE, self.resumed()).await;
            return Err(Interrupted);
        }
        let is_late = first.is_some_and(|FirstSent(sent)| self.was_lost_since(sent));
        if is_late { Err(Interrupted) } else { Ok(()) }
    }

    /// Returns until when interrupted watches hold writes back, if none resumes; `None` if no write is held.
    fn held_until(&self) -> Option<Instant> {
        let mut state = lock(&self.0.state);
        let now = Instant::now();
        state.interrupted.retain(|_, since| now < *since + HELD);
        state.is_lost &= !state.interrupted.is_empty();
        state.is_restored &= state.is_lost;
        let last = state.interrupted.values().max().filter(|_| state.is_lost);
        last.map(|since| *since + HELD)
    }
}

impl Witness for Contact {
    fn confirmed(&self) {
        let mut state = lock(&self.0.state);
        state.has_lease = true;
        state.interrupted.remove(LEASE);
        self.resume(state);
    }

    /// Makes each watch list again. The server may know their versions by now, because it counts on from those of the
    /// backup.
    fn refuted(&self) {
        let mut state = lock(&self.0.state);
        state.list_again(|_| true);
        state.interrupted.remove(LEASE);
        if !state.interrupted.is_empty() {
            (state.is_lost, state.is_restored, state.lost) = (true, true, Some(Instant::now()));
        }
    }
}

impl State {
    fn has_no_stream(&self) -> bool {
        self.watches.values().all(|watch| watch.streams == 0)
    }

    /// Interrupts the watches whose last stream would still run; returns whether there are any.
    fn interrupt_early(&mut self, now: Instant) -> bool {
        let mut early = self.watches.iter().filter(|(_, watch)| watch.is_early(now)).peekable();
        let has_any = early.peek().is_some();
        early.for_each(|(selection, _)| _ = self.interrupted.entry(selection.clone()).or_insert(now));
        has_any
    }

    /// Records that nothing shows whether the server is still the same.
    fn lose(&mut self, now: Instant) {
        (self.is_lost, self.lost) = (true, Some(now));
        self.away.get_or_insert(now);
        if self.has_lease {
            self.interrupted.insert(LEASE.to_owned(), now);
        }
    }

    /// Makes these watches list again, and ends their streams. A watch without a stream may never get another, so
    /// writes do not wait for it.
    fn list_again(&mut self, is_meant: impl Fn(&str) -> bool) {
        let now = Instant::now();
        for (selection, watch) in self.watches.iter_mut().filter(|(selection, _)| is_meant(selection)) {
            watch.must_list = true;
            if watch.streams > 0 && !watch.end.is_cancelled() {
                watch.end.cancel();
                self.interrupted.insert(selection.clone(), now);
            }
        }
    }

    /// Returns whether an interrupted watch knows after this answer which state it sees.
    fn knows(&self, status: StatusCode, since: Instant) -> bool {
        match status {
            status if status.is_success() => true,
            // It must list first, or try again.
            StatusCode::GONE | StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => false,
            status if status.is_server_error() => false,
            // A refused watch sees nothing and says so, unless the server is only starting.
            StatusCode::FORBIDDEN => !may_be_starting(self.failed.max(Some(since))),
            _ => !may_be_starting(self.failed),
        }
    }
}

/// Returns whether contact that was lost at this time has been lost for long.
fn is_long(away: Instant) -> bool {
    away.elapsed() >= LONG
}

/// Returns whether a server that lost contact then may still be starting.
fn may_be_starting(lost: Option<Instant>) -> bool {
    lost.is_some_and(|lost| lost.elapsed() < START)
}

/// Returns whether a request may change an object.
pub(super) fn is_write<B>(request: &Request<B>) -> bool {
    let is_question = |path: &str| QUESTIONS.iter().any(|questions| path.contains(questions));
    !request.method().is_safe() && !is_question(request.uri().path())
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    const WHOLE: Duration = Duration::from_secs(290);
    const SECOND: Duration = Duration::from_secs(1);

    /// Returns a contact with running watches.
    fn watching(selections: &[&str]) -> Contact {
        let contact = Contact::default();
        selections.iter().for_each(|selection| drop(contact.answered(selection, StatusCode::OK, WHOLE, 0)));
        contact
    }

    /// Ends all streams.
    fn interrupt(contact: &Contact) {
        let all: Vec<String> = lock(&contact.0.state).watches.keys().cloned().collect();
        all.iter().for_each(|selection| contact.ended(selection, Ended::Whole));
    }

    #[test]
    fn a_question_is_no_write() {
        for (method, uri, expected) in [
            (Method::GET, "/api/v1/pods", false),
            (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews", false),
            (Method::POST, "/k8s/apis/authentication.k8s.io/v1/tokenreviews", false),
            (Method::POST, "/api/v1/namespaces/ns/secrets", true),
            (Method::PATCH, "/api/v1/namespaces/ns/secrets/a", true),
            (Method::DELETE, "/api/v1/namespaces/ns/secrets/a", true),
        ] {
            let request = Request::builder().method(&method).uri(uri).body(()).unwrap();
            assert_eq!(is_write(&request), expected, "{method} {uri}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn writes_pass_unless_all_watches_were_interrupted() {
        let began = Instant::now();
        for (what, after, passes) in [("at its end", WHOLE, true), ("early", WHOLE / 2, false)] {
            let contact = watching(&["pods", "secrets"]);
            assert_eq!(contact.admit_write(None).await, Ok(()));
            tokio::time::advance(after).await;
            interrupt(&contact);
            assert_eq!(contact.admit_write(None).await.is_ok(), passes, "{what}");
        }
        assert_eq!(began.elapsed(), WHOLE + WHOLE / 2 + PATIENCE, "only the held write waited");
    }

    #[tokio::test(start_paused = true)]
    async fn while_one_stream_lasts_nothing_waits() {
        for last in [Ended::Unread, Ended::Broken] {
            let contact = watching(&["metrics", "pods"]);
            contact.ended("metrics", Ended::Broken);
            contact.resumed().await;
            assert_eq!(contact.admit_write(None).await, Ok(()), "an aggregated server is away");
            contact.ended("pods", last);
            assert_eq!(contact.admit_write(None).await, Err(Interrupted), "{last:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_interrupts_watches_that_are_about_to_list_again() {
        for (watched, passes) in [(WHOLE / 2, false), (WHOLE, true)] {
            let contact = watching(&["pods", "secrets"]);
            tokio::time::advance(watched).await;
            contact.ended("pods", Ended::Unread);
            contact.failed();
            assert_eq!(contact.admit_write(None).await, Ok(()), "one stream lasts");
            contact.ended("secrets", Ended::Unread);
            assert_eq!(contact.admit_write(None).await, Ok(()), "the server has answered ever since");
            contact.failed();
            assert_eq!(contact.admit_write(None).await.is_ok(), passes, "{watched:?}");
            drop(contact.answered("secrets", StatusCode::TOO_MANY_REQUESTS, WHOLE, 0));
            assert_eq!(contact.admit_write(None).await.is_ok(), passes, "{watched:?}");
            for selection in ["pods", "secrets"] {
                drop(contact.answered(selection, StatusCode::OK, WHOLE, 0));
            }
            assert_eq!(contact.admit_write(None).await, Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_write_fails_once_all_watches_go_on_and_the_next_passes() {
        let contact = watching(&["pods", "secrets"]);
        interrupt(&contact);
        let (held, began) = (contact.clone(), Instant::now());
        let held = tokio::spawn(async move { (held.admit_write(None).await, began.elapsed()) });
        for (selection, status) in [
            ("pods", StatusCode::OK),
            ("secrets", StatusCode::TOO_MANY_REQUESTS),
            ("secrets", StatusCode::INTERNAL_SERVER_ERROR),
            ("secrets", StatusCode::GONE),
            ("secrets", StatusCode::OK),
        ] {
            assert!(timeout(SECOND, contact.resumed()).await.is_err(), "nothing is decided either");
            contact.answered(selection, status, WHOLE, 0);
        }
        contact.resumed().await;
        assert_eq!(held.await.unwrap(), (Err(Interrupted), 5 * SECOND));
        assert_eq!(contact.admit_write(None).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_decided_before_all_watches_were_interrupted_may_concern_another_server() {
        let (contact, before) = (watching(&["pods", "secrets"]), Instant::now());
        tokio::time::advance(SECOND).await;
        contact.ended("pods", Ended::Broken);
        assert!(!contact.was_lost_since(before), "a watch goes on");
        contact.ended("secrets", Ended::Broken);
        assert!(contact.was_lost_since(before) && !contact.was_lost_since(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn however_long_the_server_is_away_it_is_known_until_when() {
        let (contact, began) = (watching(&["pods", "secrets"]), Instant::now());
        tokio::time::advance(SECOND).await;
        contact.ended("pods", Ended::Broken);
        assert!(!contact.was_away_since(began), "a watch goes on");
        contact.ended("secrets", Ended::Broken);
        for _ in 0..3 {
            tokio::time::advance(WHOLE).await;
            contact.failed();
            assert!(contact.was_away_since(Instant::now()), "it still is");
        }
        contact.resumed().await;
        drop(contact.answered("pods", StatusCode::INTERNAL_SERVER_ERROR, WHOLE, 0));
        assert!(contact.was_away_since(Instant::now()), "an error is no stream");
        let before = Instant::now();
        tokio::time::advance(SECOND).await;
        drop(contact.answered("pods", StatusCode::OK, WHOLE, 0));
        assert!(contact.was_away_since(before) && !contact.was_away_since(Instant::now()));
        assert!(!Contact::default().was_away_since(before), "nothing is watched");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_reset_every_nine_minutes_is_not_away() {
        let (contact, began) = (Contact::default(), Instant::now());
        let watch = |selection: &str| drop(contact.answered(selection, StatusCode::OK, 3 * WHOLE, 0));
        ["pods", "secrets"].iter().for_each(|selection| watch(selection));
        for (seconds, is_away) in [(5, false), (5, false), (59, false), (60, true), (5, true)] {
            tokio::time::advance(540 * SECOND).await;
            contact.ended("pods", Ended::Broken);
            contact.ended("secrets", Ended::Broken);
            contact.failed();
            tokio::time::advance(seconds * SECOND).await;
            ["pods", "secrets"].iter().for_each(|selection| watch(selection));
            assert_eq!(contact.was_away_since(began), is_away, "{seconds} s");
            assert!(contact.was_lost_since(began) && !contact.was_away_since(Instant::now()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_watches_list_again_once_one_finds_that_the_server_was_restored() {
        let contact = watching(&["pods", "secrets", "services"]);
        contact.refuted("pods");
        assert!(!contact.must_list("secrets"), "the others go on, so a server behind this one was restored");
        for selection in ["pods", "secrets", "services"] {
            contact.ended(selection, Ended::Broken);
        }
        let resume = |selection| contact.answered(selection, StatusCode::OK, WHOLE, contact.outages());
        let end = resume("secrets");
        contact.refuted("pods");
        assert!(end.is_cancelled(), "it has resumed from a version that the server knows");
        contact.ended("secrets", Ended::Broken);
        contact.refuted("services");
        assert_eq!(["pods", "secrets", "services"].map(|selection| contact.must_list(selection)), [false, true, false]);
        assert!(contact.doubts("secrets"));
        for selection in ["pods", "services"] {
            resume(selection);
            assert_eq!(contact.admit_write(None).await, Err(Interrupted), "{selection}");
        }
        assert!(resume("secrets").is_cancelled(), "it was asked for before");
        contact.ended("secrets", Ended::Broken);
        contact.refuted("secrets");
        assert_eq!(contact.admit_write(None).await, Err(Interrupted));
        assert!(!resume("secrets").is_cancelled());
        assert_eq!(contact.admit_write(None).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_interruption_the_lease_says_whether_the_server_was_restored() {
        let contact = watching(&["pods", "secrets"]);
        Witness::confirmed(&contact);
        for is_restored in [false, true] {
            interrupt(&contact);
            let resume = |selection| contact.answered(selection, StatusCode::OK, WHOLE, contact.outages());
            let ends = ["pods", "secrets"].map(resume);
            assert!(timeout(SECOND, contact.resumed()).await.is_err(), "the server may know the versions by now");
            let before = Instant::now();
            tokio::time::advance(SECOND).await;
            if is_restored {
                Witness::refuted(&contact)
            } else {
                Witness::confirmed(&contact)
            }
            assert_eq!(ends.map(|end| end.is_cancelled()), [is_restored; 2]);
            assert_eq!(["pods", "secrets"].map(|selection| contact.must_list(selection)), [is_restored; 2]);
            assert_eq!(contact.was_lost_since(before), is_restored, "what was decided since counts, unless it was");
            for selection in ["pods", "secrets"].into_iter().filter(|_| is_restored) {
                assert!(timeout(SECOND, contact.resumed()).await.is_err(), "{selection}");
                contact.ended(selection, Ended::Broken);
                contact.refuted(selection);
                resume(selection);
            }
            assert_eq!(contact.admit_write(None).await, Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_refused_or_never_resumes_holds_writes_for_a_while_at_most() {
        let contact = watching(&["pods"]);
        interrupt(&contact);
        contact.answered("pods", StatusCode::NOT_FOUND, WHOLE, 0);
        assert_eq!(contact.admit_write(None).await, Ok(()), "its kind is gone, which the watch reports");

        let contact = watching(&["pods"]);
        interrupt(&contact);
        let began = Instant::now();
        while contact.admit_write(None).await.is_err() {}
        assert_eq!(began.elapsed(), HELD);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_restore_no_write_waits_for_a_watch_that_has_no_stream_or_is_refused() {
        let contact = watching(&["gone", "pods"]);
        contact.ended("gone", Ended::Unread);
        contact.ended("pods", Ended::Broken);
        Witness::refuted(&contact);
        contact.refuted("pods");
        contact.answered("pods", StatusCode::OK, WHOLE, contact.outages());
        assert_eq!(contact.admit_write(None).await, Ok(()), "it may never have a stream again");

        let contact = watching(&["pods"]);
        Witness::refuted(&contact);
        contact.ended("pods", Ended::Broken);
        tokio::time::advance(START).await;
        contact.answered("pods", StatusCode::NOT_FOUND, WHOLE, contact.outages());
        assert_eq!(contact.admit_write(None).await, Ok(()), "its kind is gone, which the watch reports");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_of_a_server_that_starts_holds_writes_until_it_has_loaded_its_roles() {
        let (refused, missing) = (StatusCode::FORBIDDEN, StatusCode::NOT_FOUND);
        for (what, ended, failed, refusal, held) in [
            ("its roles are not loaded", Ended::Whole, false, refused, true),
            ("nor are its definitions", Ended::Broken, false, missing, true),
            ("it was away", Ended::Whole, true, missing, true),
            ("it is the same server", Ended::Whole, false, missing, false),
        ] {
            let contact = watching(&["pods"]);
            let began = Instant::now();
            contact.ended("pods", ended);
            if failed {
                contact.failed();
            }
            contact.answered("pods", refusal, WHOLE, 0);
            assert_eq!(contact.admit_write(None).await.is_err(), held, "{what}");
            assert_eq!(began.elapsed(), if held { PATIENCE } else { Duration::ZERO }, "{what}");
            contact.answered("pods", refusal, WHOLE, 0);
            assert_eq!(contact.admit_write(None).await, Ok(()), "{what}: the refusal is meant");
        }
    }
}
