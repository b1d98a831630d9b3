//! Limits how many objects of an action are written at a time. Each answer is a whole object, whose size others decide.

use tokio::sync::Semaphore;

/// Maximum number of objects that one action writes at a time.
pub(crate) const MAX_WRITES: usize = 16;

/// The limit for a group of objects that are written side by side.
pub(crate) struct WriteLimit(Semaphore);

impl WriteLimit {
    pub(crate) fn new() -> WriteLimit {
        WriteLimit(Semaphore::new(MAX_WRITES))
    }

    /// Awaits a write once fewer than [`MAX_WRITES`] others are under way. Those that wait begin in order.
    pub(crate) async fn within<F: Future>(&self, write: F) -> F::Output {
        // Nobody closes the semaphore.
        let _permit = self.0.acquire().await;
        write.await
    }
}
