//! A connection for what one decision leads to. It ends with the contact: a server that answers after that may have been
//! restored to a time before the decision.

use std::sync::Arc;

use futures::future::BoxFuture;
use outside::{Api, Call, Error, Pieces, Response};
use tokio::time::Instant;

use super::contact::Contact;

/// Sends requests until all watches were interrupted. Each later one fails with [`Error::Outdated`] and is not sent.
pub struct AsOf {
    /// The connection.
    pub api: Arc<dyn Api>,
    /// The contact with its server.
    pub contact: Contact,
    /// When what the requests rest on was decided.
    pub decided: Instant,
}

impl AsOf {
    fn check(&self) -> Result<(), Error> {
        if self.contact.was_lost_since(self.decided) { Err(Error::Outdated) } else { Ok(()) }
    }
}

impl Api for AsOf {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        Box::pin(async move {
            self.check()?;
            self.api.send(call).await
        })
    }

    fn stream(&self, call: Call) -> BoxFuture<'_, Result<Pieces, Error>> {
        Box::pin(async move {
            self.check()?;
            self.api.stream(call).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;
    use outside::MemoryApi;

    use super::super::contact::Ended;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_decided_before_all_watches_were_interrupted_is_not_sent() {
        let (server, contact) = (Arc::new(MemoryApi::new()), Contact::default());
        contact.answered("pods", StatusCode::OK, Duration::from_secs(290), 0);
        let as_of = || AsOf { api: server.clone(), contact: contact.clone(), decided: Instant::now() };
        let before = as_of();
        before.send(Call::get("/api")).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        contact.ended("pods", Ended::Broken);
        contact.answered("pods", StatusCode::OK, Duration::from_secs(290), 0);
        let answers = [before.send(Call::get("/api")).await.err(), before.stream(Call::get("/api")).await.err()];
        assert!(matches!(answers, [Some(Error::Outdated), Some(Error::Outdated)]), "{answers:?}");
        assert!(answers.iter().flatten().all(|error| error.is_unanswered() && !error.is_transient()));
        as_of().send(Call::get("/api")).await.unwrap();
        assert_eq!(server.log().len(), 2);
    }
}
