//! CloudEvents of a real operator: each event of a resource arrives at its sink once, soon, signed, and without secrets.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use test_cluster::TestCluster;

use crate::chart_kinds::define;
use crate::operator::{Operator, eventually};

/// A sink that takes everything.
struct Sink {
    url: String,
    /// The events, each with its signature and the seconds that it took to arrive.
    taken: Arc<Mutex<Vec<(Value, String, f64)>>>,
}

impl Sink {
    fn start() -> Sink {
        let taken: Arc<Mutex<Vec<_>>> = Arc::default();
        let all = taken.clone();
        let address = serve(move |head, body| {
            let body: Value = serde_json::from_slice(body).unwrap();
            let sent: Timestamp = body["time"].as_str().unwrap().parse().unwrap();
            let took = Timestamp::now().duration_since(sent).as_secs_f64();
            let signature = head.lines().find_map(|line| line.strip_prefix("x-signature: sha256="));
            all.lock().unwrap().push((body, signature.unwrap_or_default().to_owned(), took));
        });
        Sink { url: format!("{address}/hooks/t0ken"), taken }
    }

    /// Returns the reasons of the events so far.
    fn reasons(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap();
        taken.iter().map(|(event, ..)| event["data"]["reason"].as_str().unwrap().to_owned()).collect()
    }
}

/// Starts a server that takes everything. Passes on each request's head, in lower case, and its body. Returns its address.
pub(crate) fn serve(take: impl Fn(&str, &[u8]) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let take = Arc::new(take);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut answer, take) = (stream.unwrap(), take.clone());
            let mut reader = BufReader::new(answer.try_clone().unwrap());
            thread::spawn(move || {
                while let Some((head, body)) = request(&mut reader) {
                    take(&head, &body);
                    answer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                }
            });
        }
    });
    address
}

/// Reads a request.
fn request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
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

#[test]
fn each_event_of_a_resource_arrives_once_soon_signed_and_without_secrets() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define(cluster);
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("templates")).unwrap();
    fs::write(folder.path().join("Chart.yaml"), "apiVersion: v2\nname: told\nversion: 0.1.0\n").unwrap();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}-told}\nstringData: {a: {{ .Values.password }}}\n\
                  {{ if .Values.broken }}{{ fail .Values.password }}{{ end }}\n";
    fs::write(folder.path().join("templates/secret.yaml"), secret).unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "a key").unwrap();
    let namespace = cluster.namespace("told").unwrap();
    let sink = Sink::start();
    let watch = json!([{"group": "test.my.domain", "version": "v1", "kind": "Widget", "chart": folder.path()}]);
    let flags = [format!("--cloudevents-sink={}", sink.url), format!("--cloudevents-secret-file={}", key.display())];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let operator = Operator::start_watches(cluster, &namespace, &watch.to_string(), &flags);
    let set = |spec: Value| {
        let widget =
            json!({"apiVersion": "test.my.domain/v1", "kind": "Widget", "metadata": {"name": "web"}, "spec": spec});
        namespace.apply(&widget.to_string()).unwrap();
    };
    let told = |reason: &str| {
        eventually(
            reason,
            || if sink.reasons().iter().any(|told| told == reason) { Ok(()) } else { Err(sink.reasons()) },
        );
    };
    set(json!({"password": "hunter2-s3cret"}));
    told("Installed");
    set(json!({"password": "hunter2-s3cret", "broken": true}));
    told("RenderError");
    let events = namespace.kubectl(["get", "events", "-o", "json"]).unwrap();
    let events: Value = serde_json::from_str(&events).unwrap();
    let taken = sink.taken.lock().unwrap().clone();
    for event in events["items"].as_array().unwrap().iter().filter(|event| event["involvedObject"]["kind"] == "Widget")
    {
        let same = |(told, ..): &&(Value, String, f64)| {
            told["data"]["reason"] == event["reason"] && told["data"]["message"] == event["message"]
        };
        assert_eq!(taken.iter().filter(same).count(), 1, "{event}");
    }
    for (event, signature, took) in &taken {
        // A busy machine takes seconds.
        assert!(*took < 30.0, "{took}: {event}");
        assert_eq!(signature.len(), 64, "{event}");
        assert!(!event.to_string().contains("hunter2"), "{event}");
        assert_eq!(event["source"], "/helm-operator", "{event}");
    }
    assert!(!operator.log().contains("t0ken"), "{}", operator.log());
}
