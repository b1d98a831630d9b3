//! Ends conversions that have timed out or whose clients are gone. Their threads cannot be interrupted, so they check
//! before each object and each try.

use tokio_util::sync::CancellationToken;

/// The conversion has timed out, or its client is gone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody waits for the answer any longer")]
pub(super) struct Abandoned;

impl Abandoned {
    /// Fails once the token is cancelled.
    pub(super) fn check(token: &CancellationToken) -> Result<(), Abandoned> {
        if token.is_cancelled() { Err(Abandoned) } else { Ok(()) }
    }
}
