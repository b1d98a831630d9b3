//! Runs the workers, each of which reconciles the next resource in the queue. A panic delays only its own resource.

use std::borrow::Cow;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::SPANS;
use super::backoff;
use super::concurrency::{Permit, Permits};
use super::key::ResourceKey;
use super::priority::Priority;
use super::queue::Queue;
use crate::metrics::{Metrics, ReconcileResult};

/// The work of a controller's workers.
pub trait Reconcile: Send + Sync + 'static {
    /// Returns the queue of resources to reconcile.
    fn queue(&self) -> &Queue<ResourceKey>;
    /// Returns the metrics that count the reconciles.
    fn metrics(&self) -> &Metrics;
    /// Returns the controller's name.
    fn controller(&self) -> &Arc<str>;
    /// Returns the kind of the resources, for the log.
    fn kind(&self) -> Cow<'_, str>;
    /// Waits until the next attempt of a failed resource may start. Default: immediately.
    fn rested(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
    /// Waits while what is known may be outdated. Default: returns at once.
    fn informed(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
    /// Reconciles a resource.
    fn reconcile(&self, key: &ResourceKey, permit: &Permit) -> impl Future<Output = ReconcileResult> + Send;
    /// Delays the resource whose reconcile panicked. Others are unaffected.
    fn panicked(&self, key: &ResourceKey) -> impl Future<Output = ReconcileResult> + Send;
}

/// Reconciles queued resources until the process ends, then lets running reconciles finish. Those that have not begun,
/// because what is known may be outdated, end at once.
pub async fn serve<W: Reconcile>(work: &Arc<W>, shutdown: &CancellationToken, workers: Permits) {
    work.metrics().controller(work.controller(), workers.limit);
    work.queue().count(work.metrics().queue(work.controller()));
    tokio::join!(attend(work, shutdown, &workers, Priority::Normal), attend(work, shutdown, &workers, Priority::Retry));
}

async fn next<W: Reconcile>(work: &W, workers: &Permits, priority: Priority) -> (Permit, ResourceKey) {
    if priority == Priority::Normal {
        // The key first: a permit held while idle would be missing to a reconcile that resumes after a hook.
        let key = work.queue().next().await;
        return (workers.permit(priority).await, key);
    }
    loop {
        work.queue().retry_waits().await;
        // The permit and the cooldown first: they may take long, and a key that is taken does not notice changes in the
        // meantime.
        let permit = workers.permit(priority).await;
        work.rested().await;
        if let Some(key) = work.queue().take_retry() {
            return (permit, key);
        }
    }
}

/// Reconciles the resources of a priority until the process ends, then lets running reconciles finish.
async fn attend<W: Reconcile>(work: &Arc<W>, shutdown: &CancellationToken, workers: &Permits, priority: Priority) {
    let mut running = JoinSet::new();
    loop {
        while running.try_join_next().is_some() {}
        let (permit, key) = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            next = next(&**work, workers, priority) => next,
        };
        // Shown at every log level.
        let kind = work.kind();
        let span = tracing::error_span!(
            target: SPANS,
            "reconcile",
            otel.name = format_args!("reconcile {kind}"),
            otel.status_code = Empty,
            kind = &*kind,
            resource = %key,
        );
        let begun = Running { work: work.clone(), key };
        running.spawn(work_on(begun, permit, shutdown.clone()).instrument(span));
    }
    while running.join_next().await.is_some() {}
}

/// Ends the work on a key when it is dropped.
struct Running<W: Reconcile> {
    work: Arc<W>,
    key: ResourceKey,
}

impl<W: Reconcile> Drop for Running<W> {
    fn drop(&mut self) {
        self.work.queue().done(&self.key);
    }
}

async fn work_on<W: Reconcile>(running: Running<W>, permit: Permit, shutdown: CancellationToken) {
    let Running { work, key } = &running;
    if shutdown.run_until_cancelled(work.informed()).await.is_none() {
        return;
    }
    let timer = work.metrics().reconcile(work.controller());
    let result = match caught(Box::pin(work.reconcile(key, &permit))).await {
        Some(result) => result,
        None => panicked(&**work, key).await,
    };
    if matches!(result, ReconcileResult::Error) {
        Span::current().record("otel.status_code", "ERROR");
    }
    timer.finish(result);
    // The permit ends before the work on the key does, because the next worker on this key needs one.
    drop(permit);
}

/// Returns the future's output; `None` if it panicked. Locks survive a panic, and no change is left half done.
async fn caught<T>(work: BoxFuture<'_, T>) -> Option<T> {
    AssertUnwindSafe(work).catch_unwind().await.ok()
}

async fn panicked<W: Reconcile>(work: &W, key: &ResourceKey) -> ReconcileResult {
    work.metrics().reconcile_panicked(work.controller());
    tracing::error!(resource = %key, "A reconcile panicked, which is a bug; the resource will be retried");
    work.queue().push_after(key.clone(), backoff::LONGEST);
    caught(Box::pin(work.panicked(key))).await.unwrap_or(ReconcileResult::Error)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use outside::{apart, sync};
    use tokio::sync::Semaphore;
    use tokio::task::{JoinHandle, yield_now};

    use super::super::concurrency::ConcurrencyLimit;
    use super::super::queue::Sizes;
    use super::*;

    /// Work that is informed once the semaphore has a permit, and reports the start and the end of each reconcile.
    struct Informed {
        queue: Queue<ResourceKey>,
        metrics: Metrics,
        controller: Arc<str>,
        informed: Semaphore,
        begun: Semaphore,
        reconciled: Semaphore,
        /// Until when the next reconcile waits for a thread, if it does.
        thread: Mutex<Option<mpsc::Receiver<()>>>,
    }

    impl Reconcile for Informed {
        fn queue(&self) -> &Queue<ResourceKey> {
            &self.queue
        }

        fn metrics(&self) -> &Metrics {
            &self.metrics
        }

        fn controller(&self) -> &Arc<str> {
            &self.controller
        }

        fn kind(&self) -> Cow<'_, str> {
            "Shop".into()
        }

        async fn informed(&self) {
            self.informed.acquire().await.unwrap().forget();
        }

        async fn reconcile(&self, _: &ResourceKey, _: &Permit) -> ReconcileResult {
            self.begun.add_permits(1);
            let thread = sync::lock(&self.thread).take();
            if let Some(thread) = thread {
                apart(move || thread.recv()).await;
            }
            self.reconciled.add_permits(1);
            ReconcileResult::Success
        }

        async fn panicked(&self, _: &ResourceKey) -> ReconcileResult {
            ReconcileResult::Error
        }
    }

    fn work() -> Arc<Informed> {
        let work = Arc::new(Informed {
            queue: Queue::new(),
            metrics: Metrics::default(),
            controller: "shop-controller".into(),
            informed: Semaphore::new(0),
            begun: Semaphore::new(0),
            reconciled: Semaphore::new(0),
            thread: Mutex::default(),
        });
        work.queue.open();
        work.queue.push(web());
        work
    }

    fn web() -> ResourceKey {
        ResourceKey::new("ns", "web")
    }

    fn serving(work: &Arc<Informed>, shutdown: &CancellationToken) -> JoinHandle<()> {
        let (work, shutdown) = (work.clone(), shutdown.clone());
        let workers = Arc::<ConcurrencyLimit>::default().for_controller(1);
        tokio::spawn(async move { serve(&work, &shutdown, workers).await })
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_reconciled_while_what_is_known_may_be_outdated() {
        let (work, shutdown) = (work(), CancellationToken::new());
        let serving = serving(&work, &shutdown);
        assert!(tokio::time::timeout(Duration::from_secs(60), work.reconciled.acquire()).await.is_err());
        work.informed.add_permits(1);
        drop(work.reconciled.acquire().await.unwrap());
        shutdown.cancel();
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_does_not_wait_until_what_is_known_is_current() {
        let (work, shutdown) = (work(), CancellationToken::new());
        let serving = serving(&work, &shutdown);
        tokio::time::sleep(Duration::from_secs(1)).await;
        shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(1), serving).await.unwrap().unwrap();
        assert_eq!(work.reconciled.available_permits(), 0);
    }

    /// Returns work whose reconcile waits for a thread, its workers, and what ends that thread when it is dropped.
    async fn waiting(shutdown: &CancellationToken) -> (Arc<Informed>, JoinHandle<()>, mpsc::Sender<()>) {
        let (work, (ends, thread)) = (work(), mpsc::channel());
        *sync::lock(&work.thread) = Some(thread);
        work.informed.add_permits(1);
        let serving = serving(&work, shutdown);
        work.begun.acquire().await.unwrap().forget();
        (work, serving, ends)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_a_reconcile_that_waits_for_a_thread() {
        let shutdown = CancellationToken::new();
        let (work, serving, ends) = waiting(&shutdown).await;
        shutdown.cancel();
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(!serving.is_finished());
        drop(ends);
        serving.await.unwrap();
        assert_eq!((work.reconciled.available_permits(), work.queue.sizes()), (1, Sizes::default()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_is_dropped_while_it_waits_for_a_thread_does_not_keep_its_key() {
        let shutdown = CancellationToken::new();
        let (work, lost, ends) = waiting(&shutdown).await;
        lost.abort();
        assert!(lost.await.unwrap_err().is_cancelled());
        while work.queue.sizes().running > 0 {
            yield_now().await;
        }
        assert_eq!((work.reconciled.available_permits(), work.queue.sizes()), (0, Sizes::default()));
        // The list of the next term queues it.
        work.queue.push(web());
        work.informed.add_permits(1);
        let serving = serving(&work, &shutdown);
        work.reconciled.acquire().await.unwrap().forget();
        drop(ends);
        shutdown.cancel();
        serving.await.unwrap();
        assert_eq!(work.reconciled.available_permits(), 0, "the first one does not go on");
    }
}
