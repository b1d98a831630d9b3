//! Connections and clients for the requests that follow from one decision. They end when contact is lost: a server that
//! answers later may have been restored to a time before the decision.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::Request;
use kube::Client;
use kube::client::Body;
use outside::{Api, Call, Error, Pieces, Response};
use tokio::time::Instant;
use tower::{BoxError, service_fn};

use super::contact::{Contact, Interrupted, is_write};

/// Sends requests until all watches were interrupted. Each later one fails with [`Error::Outdated`] and is not sent.
pub struct AsOf {
    /// The connection.
    pub api: Arc<dyn Api>,
    /// The contact with its server.
    pub contact: Contact,
    /// When the decision behind these requests was made.
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

/// Returns a client for a decision that is made now. Once all watches were interrupted, its writes fail and are not
/// sent.
pub(crate) fn as_of_now(client: &Client, contact: &Contact) -> Client {
    let (inner, contact, decided) = (client.clone(), contact.clone(), Instant::now());
    let guarded = service_fn(move |request: Request<Body>| {
        let (inner, is_late) = (inner.clone(), is_write(&request) && contact.was_lost_since(decided));
        async move { if is_late { Err(BoxError::from(Interrupted)) } else { Ok(inner.send(request).await?) } }
    });
    Client::new(guarded, client.default_namespace())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::DeleteParams;
    use outside::MemoryApi;

    use super::super::contact::Ended;
    use super::*;
    use crate::testing::{Requests, client};

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

    #[tokio::test(start_paused = true)]
    async fn a_client_writes_nothing_that_was_decided_before_all_watches_were_interrupted() {
        let (server, asked, contact) = (Arc::new(MemoryApi::new()), Requests::default(), Contact::default());
        server.serve("v1", "ConfigMap", "configmaps");
        let client = client(&server, &asked);
        let maps = || kube::Api::<ConfigMap>::namespaced(as_of_now(&client, &contact), "ns");
        contact.answered("pods", StatusCode::OK, Duration::from_secs(290), 0);
        let before = maps();
        tokio::time::advance(Duration::from_secs(1)).await;
        contact.lose();
        assert!(before.get_opt("a").await.unwrap().is_none(), "a read harms nothing");
        let error = before.delete("a", &DeleteParams::default()).await.unwrap_err();
        assert!(matches!(&error, kube::Error::Service(cause) if cause.is::<Interrupted>()), "{error:?}");
        let answer = maps().delete("a", &DeleteParams::default()).await;
        assert!(matches!(&answer, Err(kube::Error::Api(status)) if status.code == 404), "{answer:?}");
        let asked = std::mem::take(&mut *outside::sync::lock(&asked));
        assert_eq!(asked.len(), 2, "{asked:?}");
    }
}
