//! Limits concurrent reconciles, per controller and per process. One extra permit is reserved for retries, so failing
//! resources never starve healthy ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use outside::sync::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::priority::Priority;

/// The process-wide limit per processor. Reconciles mostly wait for the API server.
const FOR_EACH_PROCESSOR: usize = 4;
/// Minimum of the process-wide limit.
const LEAST: usize = 16;

/// The process's limits. Waiting controllers get permits in the order of their requests.
pub struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    limit: AtomicUsize,
    /// The only permit for retries.
    retries: Arc<Semaphore>,
}

impl Default for ConcurrencyLimit {
    /// Creates limits of four per processor, and at least 16.
    fn default() -> ConcurrencyLimit {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        ConcurrencyLimit::new(LEAST.max(processors * FOR_EACH_PROCESSOR))
    }
}

impl ConcurrencyLimit {
    fn new(limit: usize) -> ConcurrencyLimit {
        let retries = Arc::new(Semaphore::new(1));
        ConcurrencyLimit { permits: Arc::new(Semaphore::new(limit)), limit: AtomicUsize::new(limit), retries }
    }

    /// Returns the permits of a controller with this many workers. Raises the process-wide limit to at least that.
    pub fn for_controller(&self, workers: usize) -> Permits {
        let workers = workers.max(1);
        let before = self.limit.fetch_max(workers, Ordering::SeqCst);
        self.permits.add_permits(workers.saturating_sub(before));
        let (own, all, retries) = (Arc::new(Semaphore::new(workers)), self.permits.clone(), self.retries.clone());
        Permits { limit: workers, own, all, retries }
    }
}

/// The permits of one controller.
#[derive(Clone)]
pub struct Permits {
    /// How many reconciles of the controller run concurrently.
    pub limit: usize,
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
    retries: Arc<Semaphore>,
}

impl Permits {
    /// Waits for a permit.
    pub async fn permit(&self, priority: Priority) -> Permit {
        let permit = Permit { workers: self.clone(), priority, held: Mutex::default() };
        permit.enter().await;
        permit
    }

    async fn acquire(&self, priority: Priority) -> Held {
        if priority == Priority::Retry {
            return (self.retries.clone().acquire_owned().await.ok(), None);
        }
        // The controller's own permit first, so that a reconcile that waits for the process's permit blocks no other
        // controller. No semaphore is ever closed.
        let own = self.own.clone().acquire_owned().await.ok();
        (own, self.all.clone().acquire_owned().await.ok())
    }
}

type Held = (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>);

/// A reconcile's permit, which it gives up while it waits for a hook.
pub struct Permit {
    workers: Permits,
    priority: Priority,
    held: Mutex<Held>,
}

impl Permit {
    /// Returns the priority of the permit's reconcile.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Gives up the permit for a while.
    pub fn leave(&self) {
        self.hold((None, None));
    }

    /// Waits until it gets the permit back.
    pub async fn enter(&self) {
        self.hold(self.workers.acquire(self.priority).await);
    }

    fn hold(&self, permits: Held) {
        *lock(&self.held) = permits;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn is_free(workers: &Permits) -> bool {
        tokio::time::timeout(Duration::from_secs(1), workers.permit(Priority::Normal)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_has_its_own_limit_and_all_share_the_processs() {
        let permits = ConcurrencyLimit::new(3);
        let (one, other) = (permits.for_controller(2), permits.for_controller(2));
        let (first, _second) = (one.permit(Priority::Normal).await, one.permit(Priority::Normal).await);
        assert!(!is_free(&one).await, "its own limit");
        let _third = other.permit(Priority::Normal).await;
        assert!(!is_free(&other).await, "the process's limit");
        first.leave();
        assert!(is_free(&other).await && is_free(&one).await, "a reconcile that waits for a hook needs no turn");
        first.enter().await;
        assert!(!is_free(&other).await && !is_free(&one).await);
        drop(first);
        assert!(is_free(&other).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_with_more_workers_raises_the_limit() {
        let permits = ConcurrencyLimit::new(1);
        let workers = permits.for_controller(2);
        let _both = (workers.permit(Priority::Normal).await, workers.permit(Priority::Normal).await);
        assert!(!is_free(&permits.for_controller(1)).await);
        assert!(is_free(&permits.for_controller(3)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn one_retry_runs_in_the_process_and_takes_no_turn_from_others() {
        let permits = ConcurrencyLimit::new(1);
        let (one, other) = (permits.for_controller(1), permits.for_controller(1));
        let retry = one.permit(Priority::Retry).await;
        assert!(is_free(&one).await && is_free(&other).await);
        let _busy = one.permit(Priority::Normal).await;
        let wait = async |of: &Permits| tokio::time::timeout(Duration::from_secs(1), of.permit(Priority::Retry)).await;
        assert!(wait(&one).await.is_err() && wait(&other).await.is_err());
        retry.leave();
        let next = wait(&other).await.unwrap();
        assert!(
            tokio::time::timeout(Duration::from_secs(1), retry.enter()).await.is_err(),
            "back from a hook, it waits"
        );
        drop(next);
        retry.enter().await;
        assert!(wait(&other).await.is_err());
    }

    #[test]
    fn a_controller_always_has_a_worker() {
        assert_eq!(ConcurrencyLimit::default().for_controller(0).own.available_permits(), 1);
    }
}
