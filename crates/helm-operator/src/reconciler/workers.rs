//! The workers: each reconciles the next resource in the queue. A panic delays only its own resource.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use helm_release::kube::Slot;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::primary::ResourceKey;
use super::shared::Shared;
use super::work;
use crate::metrics::ReconcileResult;
use crate::{backoff, native};

/// Reconciles queued resources until the process ends, then lets running reconciles finish.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    shutdown: &CancellationToken,
    workers: usize,
) -> Result<(), native::Error> {
    let permits = Arc::new(Semaphore::new(workers.max(1)));
    shared.metrics.controller(&shared.settings.controller, workers);
    let mut running = JoinSet::new();
    loop {
        while running.try_join_next().is_some() {}
        let next = async {
            // The key first: a permit held while idle would be missing to a reconcile that returns from waiting for a hook.
            let key = shared.queue.next().await;
            // The semaphore is never closed.
            (permits.clone().acquire_owned().await, key)
        };
        let (permit, key) = tokio::select! {
            () = shutdown.cancelled() => break,
            next = next => next,
        };
        let permit = Permit { all: permits.clone(), held: Mutex::new(permit.ok()) };
        running.spawn(work_on(Running { shared: shared.clone(), key }, permit));
    }
    while running.join_next().await.is_some() {}
    Ok(())
}

/// Ends the work on a key when dropped.
struct Running {
    shared: Arc<Shared>,
    key: ResourceKey,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.queue.done(&self.key);
    }
}

async fn work_on(running: Running, permit: Permit) {
    let Running { shared, key } = &running;
    let timer = shared.metrics.reconcile(&shared.settings.controller);
    let result = match caught(Box::pin(work::reconcile(shared, key, &permit))).await {
        Some(result) => result,
        None => panicked(shared, key).await,
    };
    timer.finish(result);
    // Released before the key is: the next worker on this key needs a permit.
    drop(permit);
}

/// The future's output; `None` if it panicked. Locks survive a panic, and no change is left half done.
async fn caught<T>(work: BoxFuture<'_, T>) -> Option<T> {
    AssertUnwindSafe(work).catch_unwind().await.ok()
}

/// Delays the resource whose reconcile panicked; the others are unaffected.
async fn panicked(shared: &Shared, key: &ResourceKey) -> ReconcileResult {
    shared.metrics.reconcile_panicked(&shared.settings.controller);
    tracing::error!(resource = %key, "A reconcile panicked, which is a bug; the resource will be retried");
    shared.queue.push_after(key.clone(), backoff::LONGEST);
    caught(Box::pin(work::after_panic(shared, key))).await.unwrap_or(ReconcileResult::Error)
}

/// One of the permits to work.
struct Permit {
    all: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Permit {
    fn put(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}

impl Slot for Permit {
    fn leave(&self) {
        self.put(None);
    }

    fn enter(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let permit = self.all.clone().acquire_owned().await.ok();
            self.put(permit);
        })
    }
}
