//! Tests of a site for people: who gets in, what is asked about them, and how every answer is protected.

use super::super::callers::{Called, Callers};
use super::super::{Page, Right, Site, Visit};
use super::*;

/// A site that shows what it was asked, and in which of two namespaces the caller may list shops.
struct Echo;

impl Site for Echo {
    fn answer<'s>(&'s self, visit: Visit<'s>) -> BoxFuture<'s, Result<Page, ApiError>> {
        Box::pin(async move {
            let right = |namespace| Right { verb: "list", group: "g.io", plural: "shops", namespace };
            let mut seen = Vec::new();
            for namespace in ["a", "b"] {
                if visit.rights.has(right(namespace)).await? {
                    seen.push(namespace);
                }
            }
            let body = format!("path={} query={} json={} seen={seen:?}", visit.path, visit.query, visit.as_json);
            Ok(Page { status: StatusCode::OK, content_type: "text/plain", body: body.into_bytes() })
        })
    }
}

async fn world(api: Arc<Reviewer>) -> World {
    let server = super::super::site("127.0.0.1:0", None, Arc::new(Echo), api).await.unwrap().unwrap();
    assert!(server.is_secure(), "tokens must not travel in the clear");
    let world = World { address: server.address, shutdown: CancellationToken::new() };
    tokio::spawn(server.serve(world.shutdown.clone()));
    world
}

const GOOD: &str = "Authorization: Bearer good\r\n";

fn assert_strict(answer: &str) {
    for header in [
        "content-security-policy: default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
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
    let callers = Callers::new(api.clone());
    let has = async || {
        let Called::Known(caller) = callers.identify(CLIENT, "good").await.unwrap() else { panic!() };
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

#[tokio::test]
async fn one_user_cannot_keep_others_waiting() {
    let callers = Callers::new(reviewer());
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(callers.identify(CLIENT, "good").await.unwrap());
    }
    assert!(held.iter().all(|called| matches!(called, Called::Known(_))));
    assert!(matches!(callers.identify(CLIENT, "good").await.unwrap(), Called::Busy));
    assert!(matches!(callers.identify(CLIENT, "weak").await.unwrap(), Called::Known(_)));
    held.pop();
    assert!(matches!(callers.identify(CLIENT, "good").await.unwrap(), Called::Known(_)));
}
