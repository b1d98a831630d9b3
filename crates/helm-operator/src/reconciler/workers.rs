//! The workers: each reconciles the next resource in the queue. A panic delays only its own resource.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::primary::ResourceKey;
use super::shared::Shared;
use super::turns::{Turn, Workers};
use super::work;
use crate::metrics::ReconcileResult;
use crate::{backoff, native};

/// Reconciles queued resources until the process ends, then lets running reconciles finish.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    shutdown: &CancellationToken,
    workers: Workers,
) -> Result<(), native::Error> {
    shared.metrics.controller(&shared.settings.controller, workers.limit);
    shared.queue.count(shared.metrics.queue(&shared.settings.controller));
    let mut running = JoinSet::new();
    loop {
        while running.try_join_next().is_some() {}
        let next = async {
            // The key first: a turn held while idle would be missing to a reconcile that returns from waiting for a hook.
            let key = shared.queue.next().await;
            (workers.turn().await, key)
        };
        let (turn, key) = tokio::select! {
            () = shutdown.cancelled() => break,
            next = next => next,
        };
        running.spawn(work_on(Running { shared: shared.clone(), key }, turn));
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

async fn work_on(running: Running, turn: Turn) {
    let Running { shared, key } = &running;
    let timer = shared.metrics.reconcile(&shared.settings.controller);
    let result = match caught(Box::pin(work::reconcile(shared, key, &turn))).await {
        Some(result) => result,
        None => panicked(shared, key).await,
    };
    timer.finish(result);
    // Ends before the work on the key does: the next worker on this key needs a turn.
    drop(turn);
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
