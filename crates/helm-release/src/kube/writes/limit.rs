//! Limits how many objects an action writes at a time. Each response contains a whole object, whose size others decide.

use tokio::sync::Semaphore;

/// Maximum number of objects that one action writes at a time.
pub(crate) const MAX_WRITES: usize = 16;

/// The limit for a group of objects that are written concurrently.
pub(crate) struct WriteLimit(Semaphore);

impl WriteLimit {
    pub(crate) fn new() -> WriteLimit {
        WriteLimit(Semaphore::new(MAX_WRITES))
    }

    /// Awaits a write as soon as fewer than [`MAX_WRITES`] others are under way. Waiting writes begin in order.
    pub(crate) async fn within<F: Future>(&self, write: F) -> F::Output {
        // The semaphore is never closed.
        let _permit = self.0.acquire().await;
        write.await
    }
}
