//! Until when this process may write: the election extends it, the client checks it before each write.
//!
//! To stop the controllers is not enough: a process that was frozen past its renew deadline wakes up in the middle of their work, and what is ready to
//! be sent goes out before the election notices.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::Lost;

/// The end of the time for which this process leads. Before it leads, and without leader election, nothing is limited.
#[derive(Clone, Debug, Default)]
pub(crate) struct Term(Arc<Mutex<Option<Instant>>>);

impl Term {
    /// Lets writes through until `end`.
    pub(crate) fn set_end(&self, end: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    /// Fails once the term is over.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        let end = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if end.is_some_and(|end| Instant::now() >= end) { Err(Lost) } else { Ok(()) }
    }
}
