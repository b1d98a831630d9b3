//! A connection for one resource, which sends no write once the resource has gone to another shard.

use std::sync::Arc;

use futures::future::BoxFuture;
use outside::{Api, Call, Error, Pieces, Response};

use super::holdings::Holding;
use crate::lease::UnderWay;

/// Sends requests until the term is over, and from then on only reads. A write after that fails with [`Error::Moved`]
/// and is not sent.
pub(super) struct Within {
    pub(super) api: Arc<dyn Api>,
    pub(super) holding: Holding,
}

impl Within {
    fn begin(&self, call: &Call) -> Result<Option<UnderWay>, Error> {
        match call.method.is_safe() {
            true => Ok(None),
            false => self.holding.term.begin_write().map(Some).map_err(|_| Error::Moved),
        }
    }

    /// Waits for the answer to a call. A write is abandoned once its resource has gone to another shard: it may be
    /// waiting to be sent again.
    async fn answer<'a, T>(
        &'a self,
        call: Call,
        send: impl FnOnce(Call) -> BoxFuture<'a, Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(under_way) = self.begin(&call)? else { return send(call).await };
        let answer = tokio::select! {
            biased;
            () = self.holding.gone() => Err(Error::Moved),
            answer = send(call) => answer,
        };
        end(under_way, answer.as_ref().err());
        answer
    }
}

impl Api for Within {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        Box::pin(self.answer(call, |call| self.api.send(call)))
    }

    fn stream(&self, call: Call) -> BoxFuture<'_, Result<Pieces, Error>> {
        Box::pin(self.answer(call, |call| self.api.stream(call)))
    }
}

/// Counts a write as answered, unless its answer was lost or not awaited: then it may still arrive.
fn end(write: UnderWay, error: Option<&Error>) {
    match error {
        Some(Error::Transport(_) | Error::TimedOut { .. } | Error::Moved) => drop(write),
        _ => write.answered(),
    }
}
