//! Tests with candidates against an in-memory API server that can be cut off.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::json;

use super::*;

/// After how many seconds a candidate takes a silent leader's lease at the latest: it expires after 15, and the next try
/// follows within 2.2 times the retry period of 2.
const LATEST_TAKEOVER: u64 = 19;

/// An API server with one lease, and the candidates that get no response.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Lease>,
    version: u64,
    cut_off: Vec<String>,
    /// The status of every response, if all requests are refused.
    refuses: Option<u16>,
    /// The delay of each response.
    late: Duration,
    /// A callback for each write.
    at_write: Option<Box<dyn Fn() + Send>>,
}

impl Server {
    fn election(&self, identity: &str) -> Election {
        let (server, from) = (self.clone(), identity.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, from) = (server.clone(), from.clone());
            async move {
                let answer = server.answer(&from, request).await;
                let late = server.0.lock().unwrap().late;
                tokio::time::sleep(late).await;
                Ok::<_, std::convert::Infallible>(answer)
            }
        });
        let rules = (Timing::default(), Term::default());
        Election::new(Client::new(service, "default"), ("default", "lock"), identity.to_owned(), rules)
    }

    async fn answer(&self, from: &str, request: Request<Body>) -> Response<Body> {
        if self.0.lock().unwrap().cut_off.iter().any(|c| c == from) {
            std::future::pending::<()>().await;
        }
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let mut state = self.0.lock().unwrap();
        if let Some(code) = state.refuses {
            return failure(code, "no");
        }
        match (parts.method, state.lease.clone()) {
            (Method::GET, Some(lease)) => reply(StatusCode::OK, &json!(lease)),
            (Method::GET, None) => failure(404, "NotFound"),
            (Method::POST, Some(_)) => failure(409, "AlreadyExists"),
            (_, old) => {
                let mut lease: Lease = serde_json::from_slice(&body).unwrap();
                let (uid, version) = old.map(|old| (old.metadata.uid, old.metadata.resource_version)).unzip();
                // A replace creates a lease that is missing, whatever its version, unless it names a uid.
                let is_other = lease.metadata.uid.is_some() && lease.metadata.uid != uid.clone().flatten();
                if is_other || version.is_some_and(|version| lease.metadata.resource_version != version) {
                    return failure(409, "Conflict");
                }
                state.at_write.iter().for_each(|act| act());
                state.version += 1;
                lease.metadata.uid = uid.flatten().or_else(|| Some(format!("uid-{}", state.version)));
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
async fn a_leader_counts_from_the_write_that_made_it_one_however_late_the_answer() {
    let server = Server::default();
    let mut a = server.election("a");
    server.0.lock().unwrap().late = Duration::from_secs(4);
    // One read, then one write.
    assert_eq!(seconds(a.acquire()).await, 8);
    server.cut_off("a");
    let held = seconds(async {
        a.hold().await;
    });
    assert_eq!(held.await, 6);
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_with_the_renew_deadline_with_the_lease_or_at_its_release() {
    let server = Server::default();
    let term = Term::default();
    let mut a = Election { term: term.clone(), ..server.election("a") };
    assert_eq!(term.check(), Ok(()), "a candidate may review tokens");
    a.acquire().await;
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(term.check(), Ok(()));
    assert!(a.attempt(Duration::from_secs(1)).await);
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(term.check(), Ok(()), "it was renewed");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(term.check(), Err(Lost), "a frozen process need not have noticed");
    assert!(a.attempt(Duration::from_secs(1)).await);
    a.release().await;
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(term.check(), Err(Lost));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_notices_at_its_next_renewal() {
    let server = Server::default();
    let (mut a, b) = (server.election("a"), server.election("b"));
    a.acquire().await;
    let stolen = b.lease(None, decide::released(&Lease::default(), outside::now()));
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
async fn a_deleted_lease_is_its_holders_until_it_would_have_expired() {
    let server = Server::default();
    let (mut a, mut b) = (server.election("a"), server.election("b"));
    a.acquire().await;
    assert!(!b.attempt(Duration::from_secs(1)).await);
    server.0.lock().unwrap().lease = None;
    assert!(!b.attempt(Duration::from_secs(1)).await, "the leader has not noticed, and writes");
    tokio::select! {
        _ = a.hold() => unreachable!("the leader lost"),
        () = b.acquire() => unreachable!("two leaders"),
        () = tokio::time::sleep(Duration::from_secs(3600)) => {}
    }
    assert_eq!(server.holder(), "a");
    server.0.lock().unwrap().lease = None;
    let waited = seconds(b.acquire()).await;
    assert!((10..=LATEST_TAKEOVER).contains(&waited), "{waited}: the leader has ended, too");
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

#[tokio::test(start_paused = true)]
async fn a_candidate_is_ready_once_it_has_read_the_lease_and_says_why_it_cannot() {
    let (server, readiness) = (Server::default(), crate::runtime::readiness::Readiness::default());
    let mut second = server.election("b").required(readiness.require("lease", "not read yet"));
    for (code, said) in [
        (
            403,
            "lease: no; add this rule to the operator's role in the lease's namespace: {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, create, update]}",
        ),
        (500, "lease: no"),
    ] {
        server.0.lock().unwrap().refuses = Some(code);
        assert!(!second.attempt(Duration::from_secs(1)).await);
        assert_eq!(readiness.unmet(), [said]);
    }
    server.0.lock().unwrap().refuses = None;
    assert!(server.election("a").attempt(Duration::from_secs(1)).await);
    assert!(!second.attempt(Duration::from_secs(1)).await, "it follows");
    assert!(readiness.unmet().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_lease_says_what_its_holder_serves() {
    let server = Server::default();
    let mut election = server.election("a").serving(&["Shop.a.b", "Cart.a.b"].map(str::to_owned).into());
    election.acquire().await;
    let serves = |server: &Server| {
        let lease = server.0.lock().unwrap().lease.clone().unwrap();
        lease.metadata.annotations.unwrap_or_default().get(others::SERVES).cloned()
    };
    assert_eq!(serves(&server).as_deref(), Some("Cart.a.b,Shop.a.b"));
    election.release().await;
    assert_eq!(serves(&server).as_deref(), Some("Cart.a.b,Shop.a.b"));
}

fn write() -> Request<()> {
    Request::post("/api/v1/namespaces/ns/configmaps").body(()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_term_is_over_before_the_release_reaches_the_server() {
    let (server, term) = (Server::default(), Term::default());
    let mut a = Election { term: term.clone(), ..server.election("a") };
    a.acquire().await;
    assert_eq!(term.check(), Ok(()));
    let (seen, at_write) = (Arc::<Mutex<Vec<bool>>>::default(), term.clone());
    let log = seen.clone();
    server.0.lock().unwrap().at_write = Some(Box::new(move || log.lock().unwrap().push(at_write.check().is_err())));
    a.release().await;
    assert_eq!((server.holder().as_str(), &*seen.lock().unwrap()), ("", &vec![true]));
}

#[tokio::test(start_paused = true)]
async fn a_write_under_way_delays_the_release_and_prevents_it_if_it_hangs() {
    let (server, term) = (Server::default(), Term::default());
    let mut a = Election { term: term.clone(), ..server.election("a") };
    a.acquire().await;
    let under_way = term.begin(&write()).unwrap().unwrap();
    let release = async {
        a.release().await;
        server.holder()
    };
    let answer = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(server.holder(), "a", "the write may still arrive");
        under_way.answered();
    };
    assert_eq!(futures::future::join(release, answer).await.0, "");
    let term = Term::default();
    let mut b = Election { term: term.clone(), ..server.election("b") };
    b.acquire().await;
    let _hangs = term.begin(&write()).unwrap();
    assert!(seconds(b.release()).await <= 2);
    assert_eq!(server.holder(), "b", "it expires");
}

#[tokio::test(start_paused = true)]
async fn the_stop_of_the_controllers_and_the_writes_in_flight_delay_the_release_until_one_deadline() {
    let after = |milliseconds| tokio::time::sleep(Duration::from_millis(milliseconds));
    // When the server answers; how long the stop takes, and whether it abandons the write; and when the release ends.
    for (behaviour, answers, (stop, abandons), holder, ends) in [
        ("answered before the stop", 200, (0, true), "", 200),
        ("answered during the stop", 900, (1_000, false), "", 1_300),
        ("answered after the stop", 1_200, (0, false), "", 1_200),
        ("abandoned by the stop", 60_000, (0, true), "", 1_300),
        ("abandoned by a slow stop", 60_000, (1_000, true), "a", 1_500),
        ("on a blocked thread", 60_000, (1_000, false), "a", 1_500),
    ] {
        let (server, term) = (Server::default(), Term::default());
        let mut a = Election { term: term.clone(), ..server.election("a") };
        a.acquire().await;
        let in_flight = std::cell::Cell::new(term.begin(&write()).unwrap());
        let asked = Instant::now();
        let end = async {
            a.end_term().await;
            after(stop).await;
            if abandons {
                drop(in_flight.take());
            }
            a.release().await;
            asked.elapsed().as_millis()
        };
        let answer = async {
            after(answers).await;
            in_flight.take().into_iter().for_each(UnderWay::answered);
        };
        let (took, ()) = futures::future::join(end, answer).await;
        assert_eq!(server.holder(), holder, "{behaviour}");
        assert!((ends..ends + 20).contains(&took), "{behaviour}: {took} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_may_be_taken_again_even_if_it_is_deleted() {
    let (server, term) = (Server::default(), Term::default());
    let mut a = Election { term: term.clone(), ..server.election("a") };
    a.acquire().await;
    a.give_back().await;
    assert_eq!(server.holder(), "");
    assert!(term.begin(&write()).unwrap().is_some(), "the lease may be created");
    server.0.lock().unwrap().lease = None;
    a.acquire().await;
    let _hangs = term.begin(&write()).unwrap();
    a.give_back().await;
    assert_eq!(server.holder(), "a", "it expires");
    assert!(term.begin(&write()).is_ok());
}

/// Records what the lease proves.
#[derive(Default)]
struct Proofs(Mutex<Vec<&'static str>>);

impl Witness for Proofs {
    fn confirmed(&self) {
        self.0.lock().unwrap().push("confirmed");
    }

    fn refuted(&self) {
        self.0.lock().unwrap().push("refuted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_older_than_what_was_written_shows_that_the_server_was_restored() {
    let (server, proofs) = (Server::default(), Arc::new(Proofs::default()));
    let mut election = server.election("a").witnessed_by(proofs.clone());
    election.acquire().await;
    let backup = server.0.lock().unwrap().lease.clone();
    for is_missing in [false, true] {
        // Two renewals are stored, the one after meets a restored server, and the next is stored there.
        let restore = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            server.0.lock().unwrap().lease = backup.clone().filter(|_| !is_missing);
            tokio::time::sleep(Duration::from_secs(4)).await;
        };
        proofs.0.lock().unwrap().clear();
        tokio::select! { biased; () = restore => {}, lost = election.hold() => panic!("{lost}") }
        let expected = ["confirmed", "confirmed", "refuted", "confirmed"];
        assert_eq!(*proofs.0.lock().unwrap(), expected, "missing: {is_missing}");
        assert_eq!(server.holder(), "a");
    }
}

/// Returns a process that has the shard's name.
fn shard(server: &Server) -> Election {
    let labels = [("ring".to_owned(), "memcached".to_owned())];
    server.election("pod-1").of_shard(labels.into())
}

impl Server {
    /// Changes the lease as the sharder does.
    fn change(&self, change: impl FnOnce(&mut Lease)) {
        let mut state = self.0.lock().unwrap();
        state.version += 1;
        let version = state.version.to_string();
        let lease = state.lease.as_mut().unwrap();
        change(lease);
        lease.metadata.resource_version = Some(version);
    }

    /// Adds what a person or another controller may add to a lease.
    fn add_others(&self) {
        self.change(|lease| {
            let metadata = &mut lease.metadata;
            metadata.labels.get_or_insert_default().insert("state".into(), "ready".into());
            metadata.annotations.get_or_insert_default().insert("note".into(), "theirs".into());
            metadata.finalizers = Some(vec!["example.com/theirs".into()]);
            let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "pod-1", "uid": "owner"}]);
            metadata.owner_references = serde_json::from_value(owner).unwrap();
        });
    }

    /// Returns what is left of it: annotation, finalizer, uid of the owner.
    fn others(&self) -> [Option<String>; 3] {
        let metadata = self.0.lock().unwrap().lease.as_ref().unwrap().metadata.clone();
        let owner = metadata.owner_references.and_then(|owners| Some(owners.first()?.uid.clone()));
        let finalizer = metadata.finalizers.and_then(|finalizers| finalizers.first().cloned());
        [metadata.annotations.and_then(|annotations| annotations.get("note").cloned()), finalizer, owner]
    }

    fn labels(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let labels = state.lease.as_ref().unwrap().metadata.labels.clone().unwrap_or_default();
        labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_acquires_its_own_lease_at_once_and_keeps_what_others_added() {
    let server = Server::default();
    let mut own = shard(&server);
    assert_eq!(seconds(own.acquire()).await, 0);
    assert_eq!((server.holder(), server.labels()), ("pod-1".into(), vec!["ring=memcached".into()]));
    server.add_others();
    let added = server.others();
    assert!(added.iter().all(Option::is_some), "{added:?}");
    assert!(tokio::time::timeout(Duration::from_secs(3600), own.hold()).await.is_err());
    assert_eq!(
        (server.labels(), server.others()),
        (vec!["ring=memcached".into(), "state=ready".into()], added.clone())
    );
    own.release().await;
    assert_eq!((server.holder(), server.labels().len(), server.others()), (String::new(), 2, added));
}

#[tokio::test(start_paused = true)]
async fn a_leader_and_the_next_one_keep_what_others_added_to_the_lease() {
    let server = Server::default();
    let mut a = server.election("a").serving(&["Shop.a.b".to_owned()].into());
    a.acquire().await;
    server.add_others();
    let added = server.others();
    assert!(tokio::time::timeout(Duration::from_secs(3600), a.hold()).await.is_err());
    assert_eq!((server.holder(), server.others()), ("a".into(), added.clone()));
    a.release().await;
    server.election("b").acquire().await;
    assert_eq!((server.holder(), server.labels(), server.others()), ("b".into(), vec!["state=ready".into()], added));
    let annotations = server.0.lock().unwrap().lease.clone().unwrap().metadata.annotations.unwrap();
    assert!(!annotations.contains_key(others::SERVES), "it serves nothing");
}

#[tokio::test(start_paused = true)]
async fn a_shard_whose_lease_the_sharder_takes_stops_at_its_next_renewal() {
    let server = Server::default();
    let mut own = shard(&server);
    own.acquire().await;
    server.change(|lease| {
        let spec = lease.spec.as_mut().unwrap();
        (spec.holder_identity, spec.lease_duration_seconds) = (Some("shardlease-controller".into()), Some(30));
    });
    // One renewal fails, the next try reads why.
    assert!(seconds(async { _ = own.hold().await }).await <= 4);
    assert!(own.term.check().is_err());
    let mut again = shard(&server);
    assert!(seconds(again.acquire()).await >= 30, "the sharder moves the resources meanwhile");
}

/// The sharder immediately reassigns the resources of a shard without a lease.
#[tokio::test(start_paused = true)]
async fn a_shard_whose_lease_is_deleted_stops_and_the_next_process_of_its_name_waits_for_moves() {
    let server = Server::default();
    let mut own = shard(&server);
    own.acquire().await;
    server.0.lock().unwrap().lease = None;
    let stopped = tokio::time::timeout(Duration::from_secs(4), own.hold()).await;
    assert!(stopped.is_ok(), "a renewal must not create the lease again");
    assert!(own.term.check().is_err());
    assert_eq!((server.holder(), server.labels()), (String::new(), vec!["ring=memcached".into()]));
    let mut again = shard(&server);
    again.acquire().await;
    assert!(again.took_over());
}

#[tokio::test(start_paused = true)]
async fn two_processes_with_the_name_of_one_shard_never_serve_at_once() {
    let server = Server::default();
    let (mut first, mut second) = (shard(&server), shard(&server));
    first.acquire().await;
    let began = Instant::now();
    tokio::select! {
        _ = first.hold() => unreachable!("the first lost"),
        () = second.acquire() => unreachable!("both serve"),
        () = tokio::time::sleep(Duration::from_secs(3600)) => {}
    }
    // The first ends without a release.
    let waited = seconds(second.acquire()).await;
    assert!((13..=LATEST_TAKEOVER).contains(&waited) && began.elapsed() > Duration::from_secs(3600), "{waited}");
    assert!(tokio::time::timeout(Duration::from_secs(60), second.hold()).await.is_err());
    first.hold().await;
    assert!(first.term.check().is_err() && second.term.check().is_ok());
    assert!(second.took_over() && !first.took_over());
}
