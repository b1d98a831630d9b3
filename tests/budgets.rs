//! What tenants may create, in the smallest container: the operator lives, others go on, and the guilty resource says what to do.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::condition;
use crate::hostile::Group;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};

/// What the log says of the probe port.
const PROBES: &str = "Serving health probes";

/// Lists ConfigMaps, asks for many objects, or fails with a long message, as the resource wants.
const TEMPLATE: &str = r#"
{{- if eq .Values.does "list" }}
{{- $all := lookup "v1" "ConfigMap" .Release.Namespace "" }}{{ $_ := len $all.items }}
{{- else if eq .Values.does "many" }}
{{- range $i, $e := until 100000 }}{{ $_ := lookup "v1" "ConfigMap" $.Release.Namespace (print "x" $i) }}{{ end }}
{{- else if eq .Values.does "same" }}
{{- range until 10000 }}{{ $_ := lookup "v1" "ConfigMap" $.Release.Namespace "same" }}{{ end }}
{{- else if eq .Values.does "fail" }}
{{- fail .Values.padding }}
{{- end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-made}
"#;

fn start(cluster: &TestCluster, namespace: &Namespace<'_>, chart: &Path, group: &Group) -> Operator {
    let watches = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart}]).to_string();
    Operator::start_within(cluster, namespace, &watches, &[], Some(&group.0))
}

fn write_chart(folder: &Path) {
    fs::create_dir_all(folder.join("templates")).unwrap();
    fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: budgets\nversion: 0.1.0\n").unwrap();
    fs::write(folder.join("values.yaml"), "padding: ''\n").unwrap();
    fs::write(folder.join("templates/map.yaml"), TEMPLATE).unwrap();
}

/// Creates large objects, a few with one request of kubectl: their text is too long for its annotation.
fn create(namespace: &Namespace<'_>, objects: &[Value]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    for some in objects.chunks(5) {
        fs::write(file.path(), json!({"apiVersion": "v1", "kind": "List", "items": some}).to_string()).unwrap();
        namespace.kubectl(["apply", "--server-side", "-f", file.path().to_str().unwrap()]).unwrap();
    }
}

fn holder(name: &str, does: &str, padding: &str) -> Value {
    let spec = json!({"does": does, "padding": padding});
    json!({"apiVersion": "test.my.domain/v1", "kind": "Holder", "metadata": {"name": name}, "spec": spec})
}

/// Waits until the resource fails with this reason and text.
fn told(namespace: &Namespace<'_>, name: &str, reason: &str, text: &str) {
    eventually(&format!("{reason} with {text:?}"), || {
        let resource = HOLDER.get(namespace, name);
        let failure = condition(&resource, "Irreconcilable");
        let is_told =
            failure["reason"] == reason && failure["message"].as_str().is_some_and(|told| told.contains(text));
        if is_told { Ok(()) } else { Err(resource["status"].clone()) }
    });
}

/// How long good resources take to be Ready, the slowest of ten.
fn slowest(namespace: &Namespace<'_>, prefix: &str) -> Duration {
    let times = (0..10).map(|n| {
        let began = Instant::now();
        HOLDER.set(namespace, &format!("{prefix}{n}"), &json!({"does": "ok"}));
        HOLDER.wait_for(namespace, &format!("{prefix}{n}"), "Ready");
        began.elapsed()
    });
    times.max().unwrap_or_default()
}

/// Words that look generated, so many bytes of them.
fn words(bytes: usize) -> String {
    (0..bytes / 10).map(|n| format!("w{n:07x}z ")).collect()
}

#[test]
fn a_container_of_128_mib_survives_what_tenants_may_create() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let Some(group) = Group::create() else {
        println!("skipped: cannot create a control group for memory");
        return;
    };
    install_kind(cluster);
    let folder = tempfile::tempdir().unwrap();
    write_chart(folder.path());
    let namespace = cluster.namespace("budgets").unwrap();
    let operator = start(cluster, &namespace, folder.path(), &group);
    let report = |row: &str, operator: &Operator, slowest: Duration| {
        println!("{row}: peak {:?} KiB, slowest of ten {slowest:?}, {} ended", operator.peak_memory(), group.ended());
        assert_eq!(group.ended(), 0, "{row}");
    };
    report("quiet", &operator, slowest(&namespace, "quiet"));

    let too_large: Vec<_> = (0..30).map(|n| holder(&format!("huge{n}"), "ok", &"x".repeat(1_300_000))).collect();
    create(&namespace, &too_large);
    told(&namespace, "huge0", "InvalidValues", "limit MAX_SPEC_BYTES of 1 MiB");
    let large: Vec<_> = (0..30).map(|n| holder(&format!("large{n}"), "ok", &"x".repeat(1_000_000))).collect();
    create(&namespace, &large);
    told(&namespace, "huge29", "InvalidValues", "valuesFrom");
    HOLDER.wait_for(&namespace, "large29", "Ready");
    report("large specs", &operator, slowest(&namespace, "besidelarge"));
    let (status, log) = operator.terminate();
    assert!(status.success(), "{log}");
    let operator = start(cluster, &namespace, folder.path(), &group);
    report("large specs, at a start", &operator, slowest(&namespace, "restarted"));

    let map = |n| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{n}")}, "data": {"x": "x".repeat(1_000_000)}});
    create(&namespace, &(0..20).map(map).collect::<Vec<_>>());
    create(&namespace, &[holder("lister", "list", ""), holder("asker", "many", ""), holder("repeater", "same", "")]);
    told(&namespace, "lister", "RenderLimit", "returns more than 10 MiB");
    told(&namespace, "asker", "RenderLimit", "more than 1000 different objects");
    HOLDER.wait_for(&namespace, "repeater", "Ready");
    report("lookups", &operator, slowest(&namespace, "besidelookups"));

    let failing: Vec<_> = (0..12).map(|n| holder(&format!("failing{n}"), "fail", &words(1_000_000))).collect();
    create(&namespace, &failing);
    told(&namespace, "failing11", "RenderError", "template: budgets/templates/map.yaml:");
    report("failures with many values", &operator, slowest(&namespace, "besidefailing"));

    let line: Value = serde_json::from_str(&operator.logged(PROBES)).unwrap();
    let address = line["bindAddress"].as_str().unwrap();
    let unfinished = format!("GET /healthz HTTP/1.1\r\nX: {}", "x".repeat(390_000));
    let client = || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_write_timeout(Some(Duration::from_millis(100))).ok()?;
        // The server stops reading.
        let _ = stream.write_all(unfinished.as_bytes());
        Some(stream)
    };
    let clients: Vec<_> = (0..700).filter_map(|_| client()).collect();
    assert!(operator.get(PROBES, "/healthz").starts_with("HTTP/1.1 200"));
    report("clients of the probe port", &operator, slowest(&namespace, "besideclients"));
    drop(clients);
    let (status, log) = operator.terminate();
    assert!(status.success(), "{log}");
}
