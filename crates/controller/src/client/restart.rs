//! Decides which requests are retried: those that the server turns away, as in kube's own client, and those that it
//! forbids while it starts. A server that has just started answers before it has loaded all roles and bindings.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use tokio::time::{Sleep, sleep};
use tower::BoxError;
use tower::retry::Policy;

use super::contact::Contact;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// kube's retry policy, which also retries forbidden requests while the server may be starting. At any other time a 403
/// is final at once.
#[derive(Clone)]
pub(super) struct AfterRestart {
    contact: Contact,
    busy: RetryPolicy,
}

impl AfterRestart {
    pub(super) fn of(contact: Contact) -> AfterRestart {
        AfterRestart { contact, busy: RetryPolicy::server_retry() }
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for AfterRestart {
    type Future = Sleep;

    fn retry(&mut self, request: &mut Request<Body>, answer: &mut Result<Response<B>, BoxError>) -> Option<Sleep> {
        match answer {
            Err(_) => None,
            Ok(refusal) if refusal.status() == StatusCode::FORBIDDEN => {
                self.contact.may_be_starting().then(|| sleep(PAUSE))
            }
            Ok(_) => self.busy.retry(request, answer),
        }
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        Policy::<_, Response<B>, _>::clone_request(&mut self.busy, request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::Instant;
    use tower::retry::RetryLayer;
    use tower::{Service, ServiceBuilder, ServiceExt as _};

    use super::*;
    use crate::client::contact::START;
    use crate::client::resume::Resuming;

    /// Sends three requests in a row to a server that is unreachable for the first `lost` requests, and then forbids
    /// everything until `allows`. Returns the responses and when they arrived.
    async fn answers(lost: usize, allows: Duration) -> Vec<(Option<u16>, Duration)> {
        let (began, count) = (Instant::now(), Arc::new(Mutex::new(0)));
        let server = tower::service_fn(move |_: Request<Body>| {
            let mut count = count.lock().unwrap();
            *count += 1;
            let code = if began.elapsed() < allows { 403 } else { 200 };
            let answer = Response::builder().status(code).body(()).unwrap();
            std::future::ready(if *count <= lost { Err(BoxError::from("refused")) } else { Ok(answer) })
        });
        let contact = Contact::default();
        let retry = RetryLayer::new(AfterRestart::of(contact.clone()));
        let mut client = ServiceBuilder::new().layer(retry).layer(Resuming::of(contact)).service(server);
        let mut answers = Vec::new();
        for _ in 0..3 {
            let request = Request::post("/api").body(Body::from(b"{}".to_vec())).unwrap();
            let answer = client.ready().await.unwrap().call(request).await;
            answers.push((answer.ok().map(|answer| answer.status().as_u16()), began.elapsed()));
        }
        answers
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_server_that_comes_back_may_refuse_while_it_starts() {
        let expected = [(None, Duration::ZERO), (Some(200), 2 * SECOND), (Some(200), 2 * SECOND)];
        assert_eq!(answers(1, 2 * SECOND).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_stays_forbidden_is_refused_in_the_end_and_at_once_from_then_on() {
        let expected = [(None, Duration::ZERO), (Some(403), START), (Some(403), START)];
        assert_eq!(answers(1, 60 * SECOND).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_of_a_server_that_was_always_there_is_final() {
        assert_eq!(answers(0, 60 * SECOND).await, [(Some(403), Duration::ZERO); 3]);
    }
}
