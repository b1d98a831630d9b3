//! The workers: each takes the next resource from the queue and reconciles it; a panic costs one resource one wait.

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

/// Works on what is queued until the process ends, then lets what runs finish.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    shutdown: &CancellationToken,
    workers: usize,
) -> Result<(), native::Error> {
    let places = Arc::new(Semaphore::new(workers.max(1)));
    shared.metrics.controller(&shared.settings.controller, workers);
    let mut running = JoinSet::new();
    loop {
        while running.try_join_next().is_some() {}
        let next = async {
            // The key first: a place that is held while there is nothing to do would be missing to a hook that comes back for its own.
            let key = shared.queue.next().await;
            // Closed only by dropping it.
            (places.clone().acquire_owned().await, key)
        };
        let (place, key) = tokio::select! {
            () = shutdown.cancelled() => break,
            next = next => next,
        };
        let place = Place { all: places.clone(), held: Mutex::new(place.ok()) };
        running.spawn(work_on(Running { shared: shared.clone(), key }, place));
    }
    while running.join_next().await.is_some() {}
    Ok(())
}

/// A key that is worked on, however that ends.
struct Running {
    shared: Arc<Shared>,
    key: ResourceKey,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.queue.done(&self.key);
    }
}

async fn work_on(running: Running, place: Place) {
    let Running { shared, key } = &running;
    let timer = shared.metrics.reconcile(&shared.settings.controller);
    let result = match caught(Box::pin(work::reconcile(shared, key, &place))).await {
        Some(result) => result,
        None => panicked(shared, key).await,
    };
    timer.finish(result);
    // Before the key is free again: whoever takes it next needs a place.
    drop(place);
}

/// What a future comes to; nothing if it panicked. Locks are taken as they were left, and no change is left half done.
async fn caught<T>(work: BoxFuture<'_, T>) -> Option<T> {
    AssertUnwindSafe(work).catch_unwind().await.ok()
}

/// A bug must cost one resource some time, and the others nothing.
async fn panicked(shared: &Shared, key: &ResourceKey) -> ReconcileResult {
    shared.metrics.reconcile_panicked(&shared.settings.controller);
    tracing::error!(resource = %key, "A reconcile panicked: this is a bug; the resource is tried again later");
    shared.queue.push_after(key.clone(), backoff::LONGEST);
    caught(Box::pin(work::after_panic(shared, key))).await.unwrap_or(ReconcileResult::Error)
}

/// A place among the workers.
struct Place {
    all: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Place {
    fn put(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}

impl Slot for Place {
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
