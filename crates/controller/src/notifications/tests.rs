//! Tests with a small HTTP server as the sink.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use outside::MemoryApi;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::*;
use crate::client::CertificatesError;
use crate::events::Events;
use crate::metrics::Format;
use crate::report::Outcome;

/// How long a test waits for what must happen.
const LIMIT: Duration = Duration::from_secs(20);

/// A request to the sink: its headers in lower case, and its body.
type Request = (String, String);

/// A sink that answers with these statuses, one per request, then with 204.
struct Server {
    port: u16,
    requests: UnboundedReceiver<Request>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(port: u16, statuses: &[u16]) -> Server {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = unbounded_channel();
        let statuses = Arc::new(Mutex::new(VecDeque::from(statuses.to_vec())));
        let task = tokio::spawn(async move {
            // Connections end with the server.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, sender.clone(), statuses.clone()));
            }
        });
        Server { port, requests, task }
    }

    async fn next(&mut self) -> Request {
        timeout(LIMIT, self.requests.recv()).await.expect("a request within the limit").unwrap()
    }

    /// Ends the server with its connections.
    async fn stop(self) -> u16 {
        self.task.abort();
        let _ = self.task.await;
        self.port
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    sender: UnboundedSender<Request>,
    statuses: Arc<Mutex<VecDeque<u16>>>,
) {
    let mut read = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut read).await.is_ok_and(|count| count == 0) {
                return;
            }
        };
        let head = String::from_utf8(read.drain(..end).collect()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
        while read.len() < length {
            stream.read_buf(&mut read).await.unwrap();
        }
        let body = String::from_utf8(read.drain(..length).collect()).unwrap();
        let status = statuses.lock().unwrap().pop_front().unwrap_or(204);
        let answer = format!("HTTP/1.1 {status} Answer\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
        sender.send((head, body)).unwrap();
    }
}

fn settings(port: u16) -> Settings {
    Settings {
        type_prefix: "my.domain.".into(),
        ..Settings::to(format!("http://127.0.0.1:{port}/hooks/t0ken").parse().unwrap())
    }
}

fn events(settings: &Settings, metrics: &Metrics) -> Events {
    let notifications = Notifications::new(settings, "my-operator", metrics).unwrap();
    let events = Events::new(Arc::new(MemoryApi::new()), "web-controller", Some("a-pod"));
    events.heard_by(Arc::new(notifications))
}

fn publish(events: &Events, name: &str, message: &str) {
    let on = ObjectReference {
        api_version: Some("my.domain/v1".into()),
        kind: Some("Web".into()),
        namespace: Some("ns".into()),
        name: Some(name.into()),
        uid: Some("a-uid".into()),
        ..ObjectReference::default()
    };
    events.publish(on, Outcome::warning("InstallFailed", "Install", message));
}

fn count(metrics: &Metrics, result: &str) -> u64 {
    let text = metrics.encode(Format::Classic);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("controller_cloudevents_total{{result=\"{result}\"}} ")));
    line.unwrap_or("0").parse().unwrap()
}

async fn counted(metrics: &Metrics, result: &str, expected: u64) {
    let reached = async {
        while count(metrics, result) < expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, reached).await.unwrap_or_else(|_| panic!("{result}: {}", count(metrics, result)));
    assert_eq!(count(metrics, result), expected, "{result}");
}

fn body(request: &Request) -> Value {
    serde_json::from_str(&request.1).unwrap()
}

#[tokio::test]
async fn an_event_arrives_as_a_structured_cloudevent_with_the_signature_of_its_body() {
    let mut server = Server::start(0, &[]).await;
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "s3cret-key\n").unwrap();
    let settings = Settings { secret_file: Some(key.path().to_owned()), ..settings(server.port) };
    let metrics = Metrics::default();
    let started = tokio::time::Instant::now();
    publish(&events(&settings, &metrics), "a", "no quota");
    let request = server.next().await;
    assert!(started.elapsed() < Duration::from_secs(2));
    let mut event = body(&request);
    assert_eq!(event["id"].as_str().unwrap().len(), 32);
    assert!(event["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    (event["id"], event["time"]) = (Value::Null, Value::Null);
    let object = json!({"apiVersion": "my.domain/v1", "kind": "Web", "namespace": "ns", "name": "a", "uid": "a-uid"});
    let expected = json!({
        "specversion": "1.0", "id": null, "time": null, "source": "/controller", "type": "my.domain.InstallFailed",
        "subject": "Web/ns/a", "datacontenttype": "application/json",
        "data": {
            "type": "Warning", "reason": "InstallFailed", "action": "Install", "message": "no quota", "object": object,
            "controller": "web-controller", "instance": "a-pod",
        },
    });
    assert_eq!(event, expected);
    assert!(request.0.starts_with("post /hooks/t0ken http/1.1"), "{}", request.0);
    assert!(request.0.contains("content-type: application/cloudevents+json; charset=utf-8\r\n"), "{}", request.0);
    assert!(request.0.contains("user-agent: my-operator/"), "{}", request.0);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"s3cret-key");
    let tag: String =
        ring::hmac::sign(&key, request.1.as_bytes()).as_ref().iter().map(|b| format!("{b:02x}")).collect();
    assert!(request.0.contains(&format!("x-signature: sha256={tag}\r\n")), "{}", request.0);
    assert!(!format!("{request:?}").contains("s3cret"));
    counted(&metrics, "delivered", 1).await;
}

#[tokio::test]
async fn in_binary_mode_the_attributes_are_headers() {
    let mut server = Server::start(0, &[]).await;
    let settings = Settings { mode: Mode::Binary, ..settings(server.port) };
    publish(&events(&settings, &Metrics::default()), "a", "no quota");
    let request = server.next().await;
    for line in [
        "ce-specversion: 1.0",
        "ce-source: /controller",
        "ce-type: my.domain.installfailed",
        "ce-subject: web/ns/a",
        "content-type: application/json",
    ] {
        assert!(request.0.contains(&format!("{line}\r\n")), "{line}: {}", request.0);
    }
    assert!(request.0.contains("ce-id: ") && request.0.contains("ce-time: ") && !request.0.contains("x-signature"));
    assert_eq!(body(&request)["message"], "no quota");
}

#[tokio::test]
async fn a_repeated_event_is_sent_once_and_another_text_is_another_event() {
    let mut server = Server::start(0, &[]).await;
    let events = events(&settings(server.port), &Metrics::default());
    for message in ["one", "one", "two", "one", "three"] {
        publish(&events, "a", message);
    }
    for expected in ["one", "two", "three"] {
        assert_eq!(body(&server.next().await)["data"]["message"], expected);
    }
    events.flush(LIMIT).await;
    assert!(server.requests.try_recv().is_err());
}

#[tokio::test]
async fn what_a_sink_misses_while_it_restarts_arrives_afterwards_in_order() {
    let mut server = Server::start(0, &[]).await;
    let metrics = Metrics::default();
    let events = events(&settings(server.port), &metrics);
    publish(&events, "a", "before");
    server.next().await;
    counted(&metrics, "delivered", 1).await;
    let port = server.stop().await;
    for message in ["one", "two", "three"] {
        publish(&events, "a", message);
    }
    counted(&metrics, "retried", 1).await;
    let mut server = Server::start(port, &[503, 429]).await;
    let attempts = [server.next().await, server.next().await, server.next().await];
    // The same event again has the same id, so that its receiver can tell.
    assert!(attempts.iter().all(|request| body(request) == body(&attempts[0])));
    assert_eq!(body(&attempts[0])["data"]["message"], "one");
    for expected in ["two", "three"] {
        assert_eq!(body(&server.next().await)["data"]["message"], expected);
    }
    counted(&metrics, "delivered", 4).await;
    assert_eq!((count(&metrics, "dropped"), count(&metrics, "refused")), (0, 0));
}

#[tokio::test]
async fn what_a_sink_refuses_is_not_sent_again_and_no_redirect_is_followed() {
    let mut server = Server::start(0, &[400, 302]).await;
    let metrics = Metrics::default();
    let events = events(&settings(server.port), &metrics);
    for message in ["one", "two", "three"] {
        publish(&events, "a", message);
    }
    for expected in ["one", "two", "three"] {
        assert_eq!(body(&server.next().await)["data"]["message"], expected);
    }
    counted(&metrics, "delivered", 1).await;
    assert_eq!(count(&metrics, "refused"), 2);
}

#[tokio::test]
async fn beyond_the_limit_new_events_are_dropped_and_counted() {
    let port = Server::start(0, &[]).await.stop().await;
    let metrics = Metrics::default();
    let events = events(&settings(port), &metrics);
    for number in 0..queue::MOST + 5 {
        publish(&events, "a", &format!("{number}"));
    }
    assert_eq!(count(&metrics, "dropped"), 5);
    // A repeated one that was dropped counts again.
    publish(&events, "a", &format!("{}", queue::MOST));
    assert_eq!(count(&metrics, "dropped"), 6);
    // The process ends although the sink does not come back.
    timeout(LIMIT, events.flush(Duration::from_secs(1))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_that_waits_too_long_is_dropped() {
    let metrics = Metrics::default();
    // Nothing listens on this port of this host.
    let events = events(&settings(1), &metrics);
    publish(&events, "a", "one");
    let dropped = async {
        while count(&metrics, "dropped") == 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(queue::MAX_AGE + Duration::from_secs(60), dropped).await.unwrap();
    assert!(count(&metrics, "retried") > 100);
}

#[tokio::test]
async fn a_sink_over_tls_needs_a_certificate_that_leads_to_the_given_ones() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let config = tokio_rustls::rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![made.cert.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, mut requests) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream, sender.clone(), Arc::default()));
            }
        }
    });
    let ca = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(trusting(port, ca.path()).err(), Some(Error::Certificates(CertificatesError::None(_)))));
    std::fs::write(ca.path(), made.cert.pem()).unwrap();
    let metrics = Metrics::default();
    let strange = events(&Settings::to(format!("https://localhost:{port}").parse().unwrap()), &metrics);
    publish(&strange, "a", "untrusted");
    counted(&metrics, "retried", 1).await;
    let trusting =
        Events::new(Arc::new(MemoryApi::new()), "a", None).heard_by(Arc::new(trusting(port, ca.path()).unwrap()));
    publish(&trusting, "a", "trusted");
    let request = timeout(LIMIT, requests.recv()).await.unwrap().unwrap();
    assert_eq!(body(&request)["data"]["message"], "trusted");
}

fn trusting(port: u16, ca: &std::path::Path) -> Result<Notifications, Error> {
    let sink = format!("https://localhost:{port}").parse().unwrap();
    let settings = Settings { ca_file: Some(ca.to_owned()), ..Settings::to(sink) };
    Notifications::new(&settings, "my-operator", &Metrics::default())
}
