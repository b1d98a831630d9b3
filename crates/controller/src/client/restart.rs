//! Decides which requests are retried: those that the server turns away (429, 503, 504), and those that it forbids
//! while it starts. A server that has just started answers before it has loaded all roles and bindings.
//!
//! The first is what kube's `RetryPolicy::server_retry` does. Its jitter comes from a source that a simulation cannot
//! replace.

use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode, header};
use kube::client::Body;
use tokio::time::{Sleep, sleep};
use tower::BoxError;
use tower::retry::Policy;

use super::connections::is_watch;
use super::contact::{Contact, FirstSent};

/// The pause between two attempts while the server starts.
const PAUSE: Duration = Duration::from_millis(500);

/// The pause after the first attempt at a busy server, doubled after each further one.
const FIRST: Duration = Duration::from_millis(5);

/// The longest pause without jitter.
const LONGEST: Duration = Duration::from_secs(1000);

/// The longest pause of a watch. Its reader opens it again by itself, within 30 s, and meanwhile says why it sees nothing.
const LONGEST_OF_WATCH: Duration = Duration::from_secs(10);

/// How often a request to a busy server is retried.
const RETRIES: u32 = 15;

/// Retries requests at a server that is busy or starting. At any other time a 403 is final at once.
#[derive(Clone)]
pub(super) struct AfterRestart {
    contact: Contact,
    retries: u32,
}

impl AfterRestart {
    pub(super) fn of(contact: Contact) -> AfterRestart {
        AfterRestart { contact, retries: 0 }
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for AfterRestart {
    type Future = Sleep;

    fn retry(&mut self, request: &mut Request<Body>, answer: &mut Result<Response<B>, BoxError>) -> Option<Sleep> {
        let refusal = answer.as_ref().ok()?;
        match refusal.status() {
            StatusCode::FORBIDDEN => self.contact.may_be_starting().then(|| sleep(PAUSE)),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
                if self.retries < RETRIES =>
            {
                let pause = jittered(pause_after(self.retries)).max(asked(refusal.headers()));
                self.retries += 1;
                (pause <= LONGEST_OF_WATCH || !is_watch(request)).then(|| sleep(pause))
            }
            _ => None,
        }
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        let mut again = Request::new(request.body().try_clone()?);
        *again.method_mut() = request.method().clone();
        *again.uri_mut() = request.uri().clone();
        *again.version_mut() = request.version();
        *again.headers_mut() = request.headers().clone();
        *again.extensions_mut() = request.extensions().clone();
        again.extensions_mut().get_or_insert_with(FirstSent::now);
        Some(again)
    }
}

/// Returns the pause after this many retries, without jitter.
fn pause_after(retries: u32) -> Duration {
    FIRST.saturating_mul(2_u32.saturating_pow(retries)).min(LONGEST)
}

/// Lengthens a pause by up to twice its length, so that clients do not try in step.
fn jittered(pause: Duration) -> Duration {
    let share = (outside::random() >> 11) as f64 / (1_u64 << 53) as f64;
    pause + pause.mul_f64(2.0 * share)
}

/// Returns the pause that the server requests.
fn asked(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(header::RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::Instant;
    use tower::retry::RetryLayer;
    use tower::{Service, ServiceBuilder, ServiceExt as _};

    use super::*;
    use crate::client::contact::{Interrupted, START};
    use crate::client::resume::resuming;

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
        let mut client = ServiceBuilder::new().layer(retry).layer(resuming(contact)).service(server);
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

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_is_asked_again_after_growing_pauses_or_when_it_wants() {
        let (mut policy, request) = (AfterRestart::of(Contact::default()), &mut Request::new(Body::empty()));
        let mut pause = |code: u16, after: Option<&str>| {
            let mut answer = Response::builder().status(code).body(()).unwrap();
            answer.headers_mut().extend(after.map(|after| (header::RETRY_AFTER, after.parse().unwrap())));
            policy.retry(request, &mut Ok(answer)).map(|sleep| sleep.deadline() - Instant::now())
        };
        for (code, after) in [(500, None), (404, None), (409, Some("1"))] {
            assert_eq!(pause(code, after), None, "{code} is final");
        }
        assert_eq!(pause(429, Some("7")), Some(7 * SECOND));
        for retries in 1..RETRIES {
            let (least, found) = (pause_after(retries), pause(503, (retries == 2).then_some("soon")).unwrap());
            assert!(found >= least && found <= 3 * least, "{retries}: {found:?}");
        }
        assert_eq!(pause(429, Some("1")), None, "enough");
        assert_eq!(pause_after(60), LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_does_not_wait_long_for_a_busy_server_because_nobody_sees_that_it_waits() {
        let pauses = |uri: &str, after: &str| {
            let (mut policy, mut request) = (AfterRestart::of(Contact::default()), Request::new(Body::empty()));
            *request.uri_mut() = uri.parse().unwrap();
            let pause = || {
                let answer = Response::builder().status(503).header(header::RETRY_AFTER, after).body(()).unwrap();
                policy.retry(&mut request, &mut Ok(answer)).map(|sleep| sleep.deadline() - Instant::now())
            };
            std::iter::from_fn(pause).collect::<Vec<_>>()
        };
        let watch = "/api/v1/pods?watch=true&resourceVersion=7";
        assert_eq!((pauses(watch, "3600").len(), pauses("/api/v1/pods", "3600").len()), (0, RETRIES as usize));
        let all = pauses(watch, "0");
        assert!(all.len() >= 9 && all.iter().all(|pause| *pause <= 10 * SECOND), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_not_retried_after_all_watches_were_interrupted() {
        let (contact, count) = (Contact::default(), Arc::new(Mutex::new(0)));
        let (lost, sent) = (contact.clone(), count.clone());
        let server = tower::service_fn(move |_: Request<Body>| {
            *sent.lock().unwrap() += 1;
            let lost = lost.clone();
            tokio::spawn(async move {
                sleep(SECOND).await;
                lost.lose();
            });
            std::future::ready(Ok::<_, BoxError>(
                Response::builder().status(503).header(header::RETRY_AFTER, "2").body(()).unwrap(),
            ))
        });
        let retry = RetryLayer::new(AfterRestart::of(contact.clone()));
        let mut client = ServiceBuilder::new().layer(retry).layer(resuming(contact)).service(server);
        let request = Request::post("/api").body(Body::from(b"{}".to_vec())).unwrap();
        let error = client.ready().await.unwrap().call(request).await.map(drop).unwrap_err();
        assert!(error.is::<Interrupted>(), "{error}");
        assert_eq!(*count.lock().unwrap(), 1);
    }

    #[test]
    fn a_retried_request_is_the_same() {
        let mut request = Request::patch("/api?a=b").header("X-A", "b").body(Body::from(b"{}".to_vec())).unwrap();
        request.extensions_mut().insert(7_u8);
        let again = Policy::<_, Response<()>, _>::clone_request(&mut AfterRestart::of(Contact::default()), &request);
        let again = again.unwrap();
        assert_eq!(
            (again.method(), again.uri(), again.headers(), again.extensions().get::<u8>()),
            (request.method(), request.uri(), request.headers(), Some(&7))
        );
    }
}
