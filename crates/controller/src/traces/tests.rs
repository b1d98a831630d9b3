//! Tests with small HTTP servers as the API server and the collector.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use kube::Config;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue as Attribute};
use opentelemetry_proto::tonic::trace::v1::Span;
use outside::Call;
use prost::Message as _;
use tracing::Instrument as _;
use tracing::field::Empty;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;
use crate::client;
use crate::lease::Term;
use crate::metrics::Metrics;

/// A request: its head in lower case, and its body.
type Request = (String, Vec<u8>);

/// Starts a server that answers each request with this status. Returns its address and what arrives.
fn server(status: u16) -> (Uri, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (sender, arrived) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut answer, sender) = (stream.unwrap(), sender.clone());
            let mut reader = BufReader::new(answer.try_clone().unwrap());
            thread::spawn(move || {
                while let Some(request) = request(&mut reader) {
                    // The test may have ended.
                    _ = sender.send(request);
                    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 2");
                    write!(answer, "{head}\r\n\r\n{{}}").unwrap();
                }
            });
        }
    });
    (address, arrived)
}

fn request(reader: &mut BufReader<std::net::TcpStream>) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|count| *count > 0)?;
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn traces_to(address: &Uri) -> Traces {
    let endpoint = format!("{address}v1/traces").parse().unwrap();
    Traces::new(&Settings { endpoint, ca_file: None }, "shop-operator").unwrap()
}

fn client_of(address: Uri) -> kube::Client {
    client::connect(Config::new(address), "shop-operator", &Metrics::default(), &Term::default()).unwrap().client
}

/// Writes an object as a reconcile does.
async fn reconcile(client: &kube::Client) {
    let span = tracing::error_span!(target: SPANS, "reconcile", otel.name = "reconcile Shop", otel.status_code = Empty);
    let call = Call::post("/api/v1/namespaces/ns/configmaps?fieldManager=shop", b"{}".to_vec());
    outside::Api::send(client, call).instrument(span).await.unwrap_err();
}

fn attribute<'s>(attributes: &'s [Attribute], name: &str) -> &'s str {
    match attributes.iter().find(|attribute| attribute.key == name).and_then(|one| one.value.as_ref()) {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => text,
        other => panic!("{name}: {other:?}"),
    }
}

#[tokio::test]
async fn a_request_is_a_child_of_its_reconcile_and_the_api_server_learns_which() {
    let ((api, asked), (collector, sent)) = (server(409), server(200));
    let traces = traces_to(&collector);
    {
        let _guard = tracing::subscriber::set_default(Registry::default().with(traces.layer()));
        reconcile(&client_of(api)).await;
    }
    tokio::task::spawn_blocking(|| traces.finish()).await.unwrap();
    let (head, body) = sent.try_recv().unwrap();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    let resource = &ExportTraceServiceRequest::decode(&*body).unwrap().resource_spans[0];
    let service = attribute(&resource.resource.as_ref().unwrap().attributes, "service.name");
    assert_eq!(service, "shop-operator");
    let spans: Vec<&Span> = resource.scope_spans.iter().flat_map(|scope| &scope.spans).collect();
    let named = |name: &str| *spans.iter().find(|span| span.name == name).unwrap();
    let (reconcile, request) = (named("reconcile Shop"), named("POST"));
    assert_eq!(request.parent_span_id, reconcile.span_id);
    assert_eq!(attribute(&request.attributes, "url.path"), "/api/v1/namespaces/ns/configmaps");
    assert_eq!(request.status.as_ref().unwrap().code, 2, "an error");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected = format!("\r\ntraceparent: 00-{}-{}-01\r\n", hex(&request.trace_id), hex(&request.span_id));
    let (head, _) = asked.try_recv().unwrap();
    assert!(head.contains(&expected), "{expected}: {head}");
}

#[tokio::test]
async fn without_traces_no_request_has_a_trace() {
    let (api, asked) = server(409);
    reconcile(&client_of(api)).await;
    assert!(!asked.try_recv().unwrap().0.contains("traceparent"));
}

#[tokio::test]
async fn a_collector_that_refuses_delays_no_reconcile_and_ends_nothing() {
    let ((api, asked), (collector, sent)) = (server(409), server(503));
    let traces = traces_to(&collector);
    {
        let _guard = tracing::subscriber::set_default(Registry::default().with(traces.layer()));
        let client = client_of(api);
        for _ in 0..3 {
            reconcile(&client).await;
        }
    }
    tokio::task::spawn_blocking(|| traces.finish()).await.unwrap();
    assert_eq!(asked.try_iter().count(), 3);
    assert!(sent.try_iter().count() > 0, "it was asked");
}

#[test]
fn an_address_without_a_host_is_refused() {
    for endpoint in ["/v1/traces", "collector"] {
        let settings = Settings { endpoint: endpoint.parse().unwrap(), ca_file: None };
        assert!(matches!(Traces::new(&settings, "shop"), Err(Error::Endpoint)), "{endpoint}");
    }
}
