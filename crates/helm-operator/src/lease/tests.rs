//! Candidates against an in-memory API server that can be cut off.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::json;

use super::*;

/// An API server with one lease, and the candidates that it does not answer.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Lease>,
    version: u64,
    cut_off: Vec<String>,
}

impl Server {
    fn election(&self, identity: &str) -> Election {
        let (server, from) = (self.clone(), identity.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, from) = (server.clone(), from.clone());
            async move { Ok::<_, std::convert::Infallible>(server.answer(&from, request).await) }
        });
        Election::new(Client::new(service, "default"), "default", "lock", identity.to_owned(), Timing::default())
    }

    async fn answer(&self, from: &str, request: Request<Body>) -> Response<Body> {
        if self.0.lock().unwrap().cut_off.iter().any(|c| c == from) {
            std::future::pending::<()>().await;
        }
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let mut state = self.0.lock().unwrap();
        match (parts.method, state.lease.clone()) {
            (Method::GET, Some(lease)) => reply(StatusCode::OK, &json!(lease)),
            (Method::GET, None) => failure(404, "NotFound"),
            (Method::POST, Some(_)) => failure(409, "AlreadyExists"),
            (_, old) => {
                let mut lease: Lease = serde_json::from_slice(&body).unwrap();
                if lease.metadata.resource_version != old.and_then(|o| o.metadata.resource_version) {
                    return failure(409, "Conflict");
                }
                state.version += 1;
                lease.metadata.resource_version = Some(state.version.to_string());
                state.lease = Some(lease.clone());
                reply(StatusCode::OK, &json!(lease))
            }
        }
    }

    fn cut_off(&self, identity: &str) {
        self.0.lock().unwrap().cut_off.push(identity.to_owned());
    }

    fn holder(&self) -> String {
        let state = self.0.lock().unwrap();
        state.lease.as_ref().and_then(|l| l.spec.as_ref()?.holder_identity.clone()).unwrap_or_default()
    }
}

fn reply(status: StatusCode, body: &serde_json::Value) -> Response<Body> {
    Response::builder().status(status).body(Body::from(body.to_string().into_bytes())).unwrap()
}

fn failure(code: u16, reason: &str) -> Response<Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code});
    reply(StatusCode::from_u16(code).unwrap(), &body)
}

async fn seconds(work: impl Future<Output = ()>) -> u64 {
    let start = Instant::now();
    work.await;
    start.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_at_once_and_keeps_leading() {
    let server = Server::default();
    let mut a = server.election("a");
    assert_eq!(seconds(a.acquire()).await, 0);
    assert!(tokio::time::timeout(Duration::from_secs(3600), a.hold()).await.is_err());
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_second_candidate_waits_while_the_first_renews() {
    let server = Server::default();
    let (mut a, mut b) = (server.election("a"), server.election("b"));
    a.acquire().await;
    tokio::select! {
        _ = a.hold() => unreachable!("the leader lost"),
        () = b.acquire() => unreachable!("two leaders"),
        () = tokio::time::sleep(Duration::from_secs(3600)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_gives_up_before_another_takes_over() {
    let server = Server::default();
    let (mut a, mut b) = (server.election("a"), server.election("b"));
    a.acquire().await;
    let mut waiting = tokio::spawn(async move {
        b.acquire().await;
        Instant::now()
    });
    tokio::select! {
        _ = a.hold() => unreachable!("the leader lost"),
        _ = &mut waiting => unreachable!("two leaders"),
        () = tokio::time::sleep(Duration::from_secs(60)) => {}
    }
    server.cut_off("a");
    a.hold().await;
    let gave_up = Instant::now();
    let took_over = waiting.await.unwrap();
    assert!(took_over > gave_up + Duration::from_secs(2), "{:?}", took_over - gave_up);
    assert_eq!(server.holder(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_notices_at_its_next_renewal() {
    let server = Server::default();
    let (mut a, b) = (server.election("a"), server.election("b"));
    a.acquire().await;
    let stolen = b.lease(None, decide::released(&Lease::default(), now()));
    let stolen = Lease {
        spec: stolen.spec.map(|s| LeaseSpec {
            holder_identity: Some("b".into()),
            lease_duration_seconds: Some(15),
            ..s
        }),
        ..stolen
    };
    {
        let mut state = server.0.lock().unwrap();
        state.version += 1;
        state.lease = Some(Lease {
            metadata: ObjectMeta { resource_version: Some(state.version.to_string()), ..stolen.metadata },
            ..stolen
        });
    }
    assert!(
        seconds(async {
            let _ = a.hold().await;
        })
        .await
            <= 4
    );
    assert_eq!(server.holder(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_acquired_at_the_next_try() {
    let server = Server::default();
    let (mut a, mut b) = (server.election("a"), server.election("b"));
    a.acquire().await;
    let waiting = tokio::spawn(async move { b.acquire().await });
    tokio::task::yield_now().await;
    a.release().await;
    assert_eq!(server.holder(), "");
    assert!(seconds(async { waiting.await.unwrap() }).await <= 5);
    assert_eq!(server.holder(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_does_not_lead_releases_nothing() {
    let server = Server::default();
    let (mut a, mut b) = (server.election("a"), server.election("b"));
    a.acquire().await;
    assert!(!b.attempt(Duration::from_secs(1)).await);
    b.release().await;
    assert_eq!(server.holder(), "a");
}

#[test]
fn two_identities_are_never_the_same() {
    assert_ne!(identity(Some("pod")), identity(Some("pod")));
    assert!(identity(Some("pod")).starts_with("pod_"));
}
