//! Tests of a site for people: who gets in, what is asked about them, and how every answer is protected.

use std::sync::atomic::AtomicU64;

use super::super::callers::{Called, Callers, Use};
use super::super::live::Follower;
use super::super::site::Guarded;
use super::super::{Form, Page, Right, Senders, Site, Submitted, Visit};
use super::*;

/// A site that shows what it was asked, and in which of two namespaces the caller may list shops. Callers who may list
/// shops in the namespace `a` see its versions; others always see the same page.
#[derive(Default)]
struct Echo {
    generation: AtomicU64,
    version: AtomicU64,
}

impl Site for Echo {
    fn answer<'s>(&'s self, visit: Visit<'s>) -> BoxFuture<'s, Result<Page, ApiError>> {
        Box::pin(async move {
            let right = |namespace| Right { verb: "list", group: "g.io", plural: "shops", namespace };
            let mut seen = Vec::new();
            for namespace in ["a", "b"] {
                if visit.access.has(right(namespace)).await? {
                    seen.push(namespace);
                }
            }
            let body = format!("path={} query={} json={} seen={seen:?}", visit.path, visit.query, visit.as_json);
            Ok(Page { status: StatusCode::OK, content_type: "text/plain", body: body.into_bytes() })
        })
    }

    fn submit<'s>(&'s self, visit: Visit<'s>, form: Form<'s>) -> BoxFuture<'s, Result<Submitted, ApiError>> {
        Box::pin(async move {
            if form.body == "refuse" {
                let page = Page { status: StatusCode::CONFLICT, content_type: "text/plain", body: b"no".to_vec() };
                return Ok(Submitted::Refused(page));
            }
            form.api.send(Call::merge(format!("{}?{}", visit.path, form.user), form.body.as_bytes().to_vec())).await?;
            Ok(Submitted::Done(format!("{}?done", visit.path)))
        })
    }

    fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    fn version<'s>(&'s self, visit: Visit<'s>) -> BoxFuture<'s, Result<u64, ApiError>> {
        Box::pin(async move {
            let right = Right { verb: "list", group: "g.io", plural: "shops", namespace: "a" };
            Ok(if visit.access.has(right).await? { self.version.load(Relaxed) } else { 0 })
        })
    }
}

async fn world(api: Arc<Reviewer>) -> World {
    serving(api, Arc::new(Echo::default()), None).await
}

async fn serving(api: Arc<Reviewer>, site: Arc<Echo>, senders: Option<Senders>) -> World {
    let server = super::super::site("127.0.0.1:0", None, site, api, senders).await.unwrap().unwrap();
    assert!(server.is_secure(), "tokens must not travel in the clear");
    let world = World { address: server.address, shutdown: CancellationToken::new() };
    tokio::spawn(server.serve(world.shutdown.clone()));
    world
}

const GOOD: &str = "Authorization: Bearer good\r\n";

fn assert_strict(answer: &str) {
    for header in [
        "content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "x-frame-options: DENY",
    ] {
        assert!(answer.contains(&format!("\r\n{header}\r\n")), "{header} is missing: {answer}");
    }
    assert!(!answer.to_lowercase().contains("set-cookie"), "{answer}");
}

#[tokio::test]
async fn a_site_needs_a_token_and_says_how_to_send_one() {
    let api = reviewer();
    let world = world(api.clone()).await;
    for headers in ["", "Authorization: Basic good\r\n", "Authorization: Bearer \r\n", "Cookie: token=good\r\n"] {
        let answer = world.get("/", headers).await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("\r\nwww-authenticate: Bearer\r\n"), "{answer}");
        assert!(answer.contains("Authorization: Bearer $(kubectl create token"), "{answer}");
        assert_strict(&answer);
    }
    assert!(world.get("/?token=good", "").await.starts_with("HTTP/1.1 401"), "addresses are logged and shared");
    assert_eq!(api.calls.load(Relaxed), 0, "requests without a token must not reach the API server");
    let answer = world.get("/", "Authorization: Bearer bad\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 401") && !answer.contains("seen="), "{answer}");
    assert_strict(&answer);
}

#[tokio::test]
async fn a_caller_sees_what_their_own_rights_allow_and_a_second_look_asks_nothing() {
    let api = reviewer();
    *api.readers.lock().unwrap() = vec![("prometheus", "a"), ("nobody", "b")];
    api.allowed.lock().unwrap().clear();
    let world = world(api.clone()).await;
    let answer = world.get("/x?q=1", GOOD).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"path=/x query=q=1 json=false seen=["a"]"#));
    assert_strict(&answer);
    let attributes = json!({"verb": "list", "group": "g.io", "resource": "shops", "namespace": "a"});
    let expected = json!({"user": "prometheus", "groups": ["g"], "uid": "u", "resourceAttributes": attributes});
    assert_eq!(api.asked.lock().unwrap()[0], expected);
    assert_eq!(api.calls.load(Relaxed), 3, "who, and two rights");
    assert!(world.get("/x", GOOD).await.ends_with(r#"seen=["a"]"#));
    assert_eq!(api.calls.load(Relaxed), 3);
    let other = world.get("/x", "Authorization: Bearer weak\r\nAccept: application/json\r\n").await;
    assert!(other.ends_with(r#"json=true seen=["b"]"#), "one caller's rights are not another's: {other}");
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_taken_away_counts_no_longer_than_ten_seconds() {
    let api = reviewer();
    let callers = Arc::new(Callers::new(api.clone()));
    let has = async || {
        let Called::Known(caller) = callers.identify(CLIENT, "good", Use::View).await.unwrap() else { panic!() };
        caller.has(Right { verb: "get", group: "g", plural: "shops", namespace: "a" }).await.unwrap()
    };
    assert!(has().await);
    api.allowed.lock().unwrap().clear();
    tokio::time::advance(Duration::from_secs(9)).await;
    assert!(has().await);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!has().await);
}

#[tokio::test]
async fn a_failing_api_server_shows_no_one_anything() {
    let api = reviewer();
    let world = world(api.clone()).await;
    for part in ["tokenreviews", "subjectaccessreviews"] {
        *api.fails.lock().unwrap() = Some(part);
        let answer = world.get("/", GOOD).await;
        assert!(answer.starts_with("HTTP/1.1 500") && !answer.contains("seen="), "{answer}");
        assert_strict(&answer);
    }
    *api.fails.lock().unwrap() = None;
    assert!(world.get("/", GOOD).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_site_can_only_be_read() {
    let world = world(reviewer()).await;
    for (method, status) in [("POST", "405"), ("DELETE", "405"), ("OPTIONS", "405"), ("HEAD", "200")] {
        let mut stream = world.connect(&[]).await;
        let request = format!("{method} / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{GOOD}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && !answer.contains("seen="), "{answer}");
        assert_strict(&answer);
    }
}

/// What people sent to the API server, each with their token.
type Sent = Arc<Mutex<Vec<String>>>;

/// A connection that notes what is sent with a token.
struct Sender(Sent, String);

impl Api for Sender {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, ApiError>> {
        let body = String::from_utf8(call.body.unwrap().1).unwrap();
        self.0.lock().unwrap().push(format!("{} {} {} {body}", self.1, call.method, call.path));
        Box::pin(async { Ok(Response::default()) })
    }
}

/// Returns a site that takes forms, and what is sent through it.
async fn taking() -> (World, Arc<Reviewer>, Sent) {
    let (api, sent) = (reviewer(), Sent::default());
    let log = sent.clone();
    let senders: Senders = Arc::new(move |token| Ok(Arc::new(Sender(log.clone(), token.to_owned()))));
    (serving(api.clone(), Arc::new(Echo::default()), Some(senders)).await, api, sent)
}

impl World {
    async fn post(&self, path: &str, headers: &str, body: &str) -> String {
        let mut stream = self.connect(&[]).await;
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n";

#[tokio::test]
async fn a_form_is_sent_with_the_token_of_whoever_sends_it() {
    let (world, _, sent) = taking().await;
    let answer = world.post("/x", &format!("{GOOD}{FORM}"), "a=1").await;
    assert!(answer.starts_with("HTTP/1.1 303") && answer.contains("\r\nlocation: /x?done\r\n"), "{answer}");
    assert_strict(&answer);
    world.post("/x", &format!("Authorization: Bearer weak\r\n{FORM}"), "a=2").await;
    assert_eq!(*sent.lock().unwrap(), ["good PATCH /x?prometheus a=1", "weak PATCH /x?nobody a=2"]);
    let answer = world.post("/x", &format!("{GOOD}{FORM}"), "refuse").await;
    assert!(answer.starts_with("HTTP/1.1 409") && answer.ends_with("no"), "{answer}");
}

#[tokio::test]
async fn a_form_of_another_site_or_a_stranger_is_refused_before_anyone_is_asked() {
    let (world, api, sent) = taking().await;
    let foreign = FORM.replace("same-origin", "cross-site");
    let text = FORM.replace("x-www-form-urlencoded", "json");
    for (headers, status) in [
        (format!("{GOOD}{foreign}"), "403"),
        (format!("{GOOD}Content-Type: application/x-www-form-urlencoded\r\n"), "403"),
        (format!("{GOOD}{text}"), "415"),
        (FORM.to_owned(), "401"),
    ] {
        let answer = world.post("/x", &headers, "a=1").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {answer}");
        assert_strict(&answer);
    }
    assert_eq!(api.calls.load(Relaxed), 0);
    let unknown = world.post("/x", &format!("Authorization: Bearer bad\r\n{FORM}"), "a=1").await;
    assert!(unknown.starts_with("HTTP/1.1 401"), "{unknown}");
    let large = world.post("/x", &format!("{GOOD}{FORM}"), &"a".repeat(5 << 10)).await;
    assert!(large.starts_with("HTTP/1.1 413"), "{large}");
    assert!(sent.lock().unwrap().is_empty());
}

#[tokio::test]
async fn one_user_cannot_keep_others_waiting() {
    let callers = Arc::new(Callers::new(reviewer()));
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(callers.identify(CLIENT, "good", Use::View).await.unwrap());
    }
    assert!(held.iter().all(|called| matches!(called, Called::Known(_))));
    assert!(matches!(callers.identify(CLIENT, "good", Use::View).await.unwrap(), Called::Busy));
    assert!(matches!(callers.identify(CLIENT, "weak", Use::View).await.unwrap(), Called::Known(_)));
    held.pop();
    assert!(matches!(callers.identify(CLIENT, "good", Use::View).await.unwrap(), Called::Known(_)));
}

#[tokio::test]
async fn all_tokens_of_a_user_share_one_limit() {
    let api = reviewer();
    api.names_tokens.store(true, Relaxed);
    let callers = Arc::new(Callers::new(api));
    for (used, most) in [(Use::View, 4), (Use::Follow, 20)] {
        let mut held = Vec::new();
        for _ in 0..most {
            held.push(callers.identify(CLIENT, "good", used).await.unwrap());
        }
        assert!(held.iter().all(|called| matches!(called, Called::Known(_))));
        assert!(matches!(callers.identify(CLIENT, "renewed", used).await.unwrap(), Called::Busy), "{used:?}");
        assert!(matches!(callers.identify(CLIENT, "weak", used).await.unwrap(), Called::Known(_)), "{used:?}");
    }
}

const EVENTS: &str = "Accept: text/event-stream\r\n";

/// An open stream of events.
struct Events(TlsStream<TcpStream>, String);

impl Events {
    async fn open(world: &World, token: &str) -> Events {
        let mut stream = world.connect(&[]).await;
        let request = format!("GET /x HTTP/1.1\r\nHost: x\r\n{token}{EVENTS}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Events(stream, String::new())
    }

    /// Waits for the next event; returns its data.
    async fn next(&mut self) -> String {
        let mut part = [0; 4096];
        loop {
            if let Some((before, rest)) = self.1.split_once("\ndata: ").map(|(a, b)| (a.to_owned(), b.to_owned()))
                && let Some((data, rest)) = rest.split_once("\n\n")
            {
                assert!(!before.contains("HTTP/1.1") || before.contains("\r\ncontent-type: text/event-stream\r\n"));
                let data = data.to_owned();
                self.1 = rest.to_owned();
                return data;
            }
            let read = self.0.read(&mut part).await.unwrap();
            assert!(read > 0, "the stream ended: {}", self.1);
            self.1.push_str(&String::from_utf8_lossy(&part[..read]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_page_is_notified_of_changes_that_its_reader_may_see_until_its_minute_ends() {
    let (api, site) = (reviewer(), Arc::new(Echo::default()));
    *api.readers.lock().unwrap() = vec![("prometheus", "a")];
    api.allowed.lock().unwrap().clear();
    let guarded = Arc::new(Guarded::new(site.clone(), api.clone(), None));
    let open = async |token: &str| {
        let Called::Known(caller) = guarded.callers.identify(CLIENT, token, Use::Follow).await.unwrap() else {
            panic!()
        };
        Follower::new(guarded.clone(), caller, "/x".parse().unwrap())
    };
    let (began, mut reader, mut other) = (tokio::time::Instant::now(), open("good").await, open("weak").await);
    assert_eq!((reader.next().await, other.next().await), (Some(0), Some(0)));
    for version in 1..=3 {
        site.version.store(version, Relaxed);
        site.generation.fetch_add(1, Relaxed);
        let changed = tokio::time::Instant::now();
        assert_eq!(reader.next().await, Some(version));
        assert!(changed.elapsed() < Duration::from_secs(1));
    }
    let calls = api.calls.load(Relaxed);
    site.generation.fetch_add(1, Relaxed);
    let pause = Duration::from_secs(5);
    for silent in [&mut reader, &mut other] {
        let next = tokio::time::timeout(pause, silent.next()).await;
        assert!(next.is_err(), "nothing changed for them: {next:?}");
    }
    assert_eq!(api.calls.load(Relaxed), calls, "known rights are not asked for again");
    assert_eq!(reader.next().await, None);
    assert!(began.elapsed() < Duration::from_secs(62), "the token is reviewed again");
}

#[tokio::test]
async fn a_stream_needs_a_token_and_a_user_has_few_of_them() {
    let world = world(reviewer()).await;
    assert!(world.get("/", EVENTS).await.starts_with("HTTP/1.1 401"));
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut events = Events::open(&world, GOOD).await;
        events.next().await;
        open.push(events);
    }
    let answer = world.get("/", &format!("{GOOD}{EVENTS}")).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(world.get("/", GOOD).await.starts_with("HTTP/1.1 200"), "pages are still answered");
    drop(open);
}

#[tokio::test]
async fn an_answer_counts_until_it_is_read() {
    let callers = Arc::new(Callers::new(reviewer()));
    let identify = |used: Use| callers.identify(CLIENT, "good", used);
    let Called::Known(first) = identify(Use::View).await.unwrap() else { panic!() };
    let body = super::super::site::held(vec![0; 9], first);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(identify(Use::View).await.unwrap());
    }
    assert!(matches!(identify(Use::View).await.unwrap(), Called::Busy));
    assert!(matches!(identify(Use::Follow).await.unwrap(), Called::Known(_)));
    let read = http_body_util::BodyExt::collect(body).await.unwrap();
    assert_eq!(read.to_bytes().len(), 9);
    assert!(matches!(identify(Use::View).await.unwrap(), Called::Known(_)));
}
