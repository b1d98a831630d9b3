//! Ends conversions whose answers nobody waits for any longer. They run on threads, which cannot be interrupted, so they
//! ask between objects and between tries.

use tokio_util::sync::CancellationToken;

/// Nobody waits for the answer any longer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody waits for the answer any longer")]
pub(super) struct Abandoned;

impl Abandoned {
    /// Fails once the token is cancelled.
    pub(super) fn check(token: &CancellationToken) -> Result<(), Abandoned> {
        if token.is_cancelled() { Err(Abandoned) } else { Ok(()) }
    }
}
