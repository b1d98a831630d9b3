//! Limits until when this process may write. The election extends the term, and the client checks it before each write.
//!
//! Stopping the controllers is not enough: a process frozen past its renew deadline resumes mid-reconcile and could
//! send a prepared write before the election notices. Sending no further write is not enough either: a write in flight
//! may arrive after the next leader's first one.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Lost;

/// How long an abandoned write may still take to arrive.
const ON_THE_WAY: Duration = Duration::from_secs(1);

/// The time for which this process leads, or serves a resource. Writes are not limited before it leads, nor without
/// leader election.
#[derive(Clone, Debug, Default)]
pub struct Term(Arc<watch::Sender<State>>);

#[derive(Debug, Default)]
struct State {
    end: Option<Instant>,
    /// The path of the lease that is being released. That write is protected by the lease's resource version.
    released: String,
    /// The number of writes without a response.
    under_way: usize,
    /// When a write was last abandoned without a response.
    abandoned: Option<Instant>,
}

/// A write in flight. If it is dropped before [`answered`](UnderWay::answered), it counts as abandoned.
#[derive(Debug)]
pub struct UnderWay {
    term: Term,
    is_answered: bool,
}

impl Term {
    /// Allows writes until `end`.
    pub fn set_end(&self, end: Instant) {
        self.0.send_modify(|state| state.end = Some(end));
    }

    /// Ends the term now, unless it has ended before; returns when it ended.
    pub(super) fn end(&self) -> Instant {
        let mut ended = Instant::now();
        self.0.send_modify(|state| {
            ended = state.end.map_or(ended, |end| end.min(ended));
            state.end = Some(ended);
        });
        ended
    }

    /// Allows the write that releases the lease with this path.
    pub(super) fn except(&self, lease: String) {
        self.0.send_modify(|state| state.released = lease);
    }

    /// Allows all writes again, as before this process led.
    pub(super) fn lift(&self) {
        self.0.send_modify(|state| (state.end, state.released) = (None, String::new()));
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.borrow().is_over()
    }

    /// Fails once the term is over.
    #[cfg(test)]
    pub fn check(&self) -> Result<(), Lost> {
        if self.0.borrow().is_over() { Err(Lost) } else { Ok(()) }
    }

    /// Counts a write until it is answered. Returns `None` for a request that the term does not limit.
    ///
    /// # Errors
    /// The request writes, and the term is over.
    pub fn begin<B>(&self, request: &Request<B>) -> Result<Option<UnderWay>, Lost> {
        let is_release = {
            let state = self.0.borrow();
            !state.released.is_empty() && request.uri().path().ends_with(&state.released)
        };
        if request.method().is_safe() || is_release { Ok(None) } else { self.begin_write().map(Some) }
    }

    /// Counts a write until it is answered.
    ///
    /// # Errors
    /// The term is over.
    pub fn begin_write(&self) -> Result<UnderWay, Lost> {
        // Checked and counted at once, so that no write begins after the term has settled.
        let begins = self.0.send_if_modified(|state| {
            let begins = !state.is_over();
            state.under_way += usize::from(begins);
            begins
        });
        if begins { Ok(UnderWay { term: self.clone(), is_answered: false }) } else { Err(Lost) }
    }

    /// Returns whether no write is in flight.
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.0.borrow();
        state.under_way == 0 && state.abandoned.is_none_or(|at| Instant::now() >= at + ON_THE_WAY)
    }

    /// Waits until no write is in flight, until the deadline at most; returns whether none is.
    pub(crate) async fn settle_by(&self, deadline: Instant) -> bool {
        let mut state = self.0.subscribe();
        let settled = async {
            // This cannot fail: the sender, `self`, is alive.
            let ended = state.wait_for(|state| state.under_way == 0).await.ok().and_then(|state| state.abandoned);
            sleep_until(ended.map_or_else(Instant::now, |at| at + ON_THE_WAY)).await;
        };
        // The state decides, because after the deadline the timeout may be first although nothing is in flight.
        _ = timeout_at(deadline, settled).await;
        self.is_settled()
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}

impl UnderWay {
    /// Records that the server answered, or never received the request.
    pub fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let abandoned = (!self.is_answered).then(Instant::now);
        self.term.0.send_modify(|state| {
            state.under_way -= 1;
            state.abandoned = abandoned.or(state.abandoned);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock";

    fn request(method: &str, path: &str) -> Request<()> {
        Request::builder().method(method).uri(path).body(()).unwrap()
    }

    fn write(term: &Term) -> Result<Option<UnderWay>, Lost> {
        term.begin(&request("PATCH", "/api/v1/namespaces/ns/configmaps/a"))
    }

    #[tokio::test(start_paused = true)]
    async fn after_its_end_only_reads_and_the_release_of_the_lease_go_out() {
        let term = Term::default();
        assert!(write(&term).is_ok_and(|one| one.is_some()));
        term.set_end(Instant::now());
        assert!(write(&term).is_err());
        assert!(term.begin(&request("GET", "/api/v1/pods")).is_ok_and(|one| one.is_none()));
        assert!(term.begin(&request("PUT", LEASE)).is_err(), "there is nothing to renew");
        term.except(LEASE.into());
        assert!(term.begin(&request("PUT", LEASE)).is_ok_and(|one| one.is_none()));
        assert!(term.begin(&request("PUT", &format!("/k8s/clusters/c{LEASE}"))).is_ok_and(|one| one.is_none()));
        assert!(term.begin(&request("PUT", &format!("{LEASE}-2"))).is_err());
        term.lift();
        assert!(write(&term).is_ok_and(|one| one.is_some()), "no controller has started");
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_settled_once_every_write_is_answered_or_long_gone() {
        let (term, began) = (Term::default(), Instant::now());
        let within = |seconds: u32| Instant::now() + seconds * SECOND;
        assert!(term.settle_by(within(1)).await && began.elapsed() < SECOND / 100, "nothing is under way");
        let (one, other) = (write(&term).unwrap().unwrap(), write(&term).unwrap().unwrap());
        one.answered();
        assert!(!term.settle_by(within(5)).await, "one is not answered");
        let (waits, gave_up) = (term.clone(), Instant::now());
        let until = within(5);
        let waiting = tokio::spawn(async move { waits.settle_by(until).await });
        tokio::task::yield_now().await;
        drop(other);
        assert!(waiting.await.unwrap());
        assert!(gave_up.elapsed() >= ON_THE_WAY && gave_up.elapsed() < 2 * SECOND, "{:?}", gave_up.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_deadline_it_is_settled_if_nothing_is_in_flight() {
        let (term, deadline) = (Term::default(), Instant::now());
        tokio::time::advance(SECOND).await;
        assert!(term.settle_by(deadline).await);
        let one = write(&term).unwrap().unwrap();
        assert!(!term.settle_by(deadline).await, "it is not answered");
        drop(one);
        assert!(!term.settle_by(deadline).await, "it may still arrive");
        tokio::time::advance(ON_THE_WAY).await;
        assert!(term.settle_by(deadline).await);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_once() {
        let (term, began) = (Term::default(), Instant::now());
        term.set_end(began + 10 * SECOND);
        tokio::time::advance(SECOND).await;
        let ended = term.end();
        assert!(ended < began + 2 * SECOND && write(&term).is_err());
        tokio::time::advance(SECOND).await;
        assert_eq!(term.end(), ended);
    }
}
