//! A connection for one resource, which sends no write once the resource has gone to another shard.

use std::sync::Arc;

use futures::future::BoxFuture;
use outside::{Api, Call, Error, Pieces, Response};

use crate::lease::{Term, UnderWay};

/// Sends requests until the term is over, and from then on only reads. A write after that fails with [`Error::Moved`]
/// and is not sent.
pub(super) struct Within {
    pub(super) api: Arc<dyn Api>,
    pub(super) term: Term,
}

impl Within {
    fn begin(&self, call: &Call) -> Result<Option<UnderWay>, Error> {
        match call.method.is_safe() {
            true => Ok(None),
            false => self.term.begin_write().map(Some).map_err(|_| Error::Moved),
        }
    }
}

impl Api for Within {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        Box::pin(async move {
            let under_way = self.begin(&call)?;
            let answer = self.api.send(call).await;
            under_way.into_iter().for_each(|one| end(one, answer.as_ref().err()));
            answer
        })
    }

    fn stream(&self, call: Call) -> BoxFuture<'_, Result<Pieces, Error>> {
        Box::pin(async move {
            let under_way = self.begin(&call)?;
            let answer = self.api.stream(call).await;
            under_way.into_iter().for_each(|one| end(one, answer.as_ref().err()));
            answer
        })
    }
}

/// Counts a write as answered, unless its answer was lost: then it may still arrive.
fn end(write: UnderWay, error: Option<&Error>) {
    match error {
        Some(Error::Transport(_) | Error::TimedOut { .. }) => drop(write),
        _ => write.answered(),
    }
}
