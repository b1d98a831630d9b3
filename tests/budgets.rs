//! Checks the smallest container against everything that tenants may create: the operator survives, other resources are
//! served, and the guilty resource reports what to do.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster, eventually_within};

use crate::chart::condition;
use crate::hostile::Group;
use crate::operator::Operator;
use crate::ownership::{HOLDER, install_kind};

/// The log line about the probe port.
const PROBES: &str = "Serving health probes";

/// Timeout of every step: this test is about memory, and the machine may be busy.
const LONG: Duration = Duration::from_secs(600);

/// The number of valid resources timed during each attack.
const TIMED: usize = 20;

/// Lists ConfigMaps, renders many objects, or fails with a long message, depending on the resource.
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

fn start(cluster: &TestCluster, namespaces: &[&Namespace<'_>], chart: &Path, group: &Group) -> Operator {
    let mut watch = json!({"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart});
    watch["valuesFromAnnotation"] = json!(true);
    let watches = json!([watch]).to_string();
    // A render on a busy machine must reach its own limit before the timeout.
    Operator::start_within(cluster, namespaces[0], &watches, &["--render-timeout=10m"], Some(&group.0))
}

fn write_chart(folder: &Path) {
    fs::create_dir_all(folder.join("templates")).unwrap();
    fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: budgets\nversion: 0.1.0\n").unwrap();
    fs::write(folder.join("values.yaml"), "padding: ''\n").unwrap();
    fs::write(folder.join("templates/map.yaml"), TEMPLATE).unwrap();
}

/// Creates large objects, a few per kubectl request: they are too long for its annotation.
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
    eventually_within(LONG, &format!("{reason} with {text:?}"), || {
        let resource = HOLDER.get(namespace, name);
        let failure = condition(&resource, "Irreconcilable");
        let is_told =
            failure["reason"] == reason && failure["message"].as_str().is_some_and(|told| told.contains(text));
        if is_told { Ok(()) } else { Err(resource["status"].clone()) }
    });
}

fn ready(namespace: &Namespace<'_>, name: &str) {
    eventually_within(LONG, &format!("{name} to be ready"), || {
        let resource = HOLDER.get(namespace, name);
        if condition(&resource, "Ready")["status"] == "True" { Ok(()) } else { Err(resource["status"].clone()) }
    });
}

/// The measurements during each attack. Times are not asserted, because they depend on the machine.
struct Measured<'a> {
    namespace: &'a Namespace<'a>,
    group: &'a Group,
    quiet: Option<Duration>,
}

impl Measured<'_> {
    /// Creates good resources one after the other, and prints the time within which 19 of 20 are ready, and the
    /// operator's peak memory.
    #[allow(clippy::print_stdout)] // The table of the budgets, with --nocapture.
    fn beside(&mut self, row: &str, operator: &Operator) {
        let prefix: String = row.chars().filter(char::is_ascii_lowercase).collect();
        let mut times: Vec<Duration> = (0..TIMED)
            .map(|n| {
                let (began, name) = (Instant::now(), format!("{prefix}{n}"));
                HOLDER.set(self.namespace, &name, &json!({"does": "ok"}));
                ready(self.namespace, &name);
                began.elapsed()
            })
            .collect();
        times.sort();
        let p95 = times[TIMED * 95 / 100 - 1];
        let ratio = p95.as_secs_f64() / self.quiet.get_or_insert(p95).as_secs_f64();
        println!(
            "{row}: peak {:?} KiB, p95 of others {p95:?}, {ratio:.1} times the quiet one, {} processes ended",
            operator.peak_memory(),
            self.group.ended()
        );
        assert_eq!(self.group.ended(), 0, "{row}");
    }
}

/// Returns this many bytes of words that look generated.
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
    let operator = start(cluster, &[&namespace], folder.path(), &group);
    let mut measured = Measured { namespace: &namespace, group: &group, quiet: None };
    measured.beside("quiet", &operator);

    large_specs(&namespace, &mut measured, &operator);
    large_annotations(&namespace, &mut measured, &operator);
    let (status, log) = operator.terminate();
    assert!(status.success(), "{log}");
    let operator = start(cluster, &[&namespace], folder.path(), &group);
    measured.beside("large specs and annotations at a start", &operator);

    sources_of_values(&namespace, &mut measured, &operator);
    lookups(&namespace, &mut measured, &operator);
    let failing: Vec<_> = (0..12).map(|n| holder(&format!("failing{n}"), "fail", &words(1_000_000))).collect();
    create(&namespace, &failing);
    told(&namespace, "failing11", "RenderError", "template: budgets/templates/map.yaml:");
    measured.beside("failures with many values", &operator);

    unfinished_heads(&mut measured, &operator);
    let (status, log) = operator.terminate();
    assert!(status.success(), "{log}");
}

fn large_specs(namespace: &Namespace<'_>, measured: &mut Measured<'_>, operator: &Operator) {
    let too_large: Vec<_> = (0..30).map(|n| holder(&format!("huge{n}"), "ok", &"x".repeat(1_300_000))).collect();
    create(namespace, &too_large);
    told(namespace, "huge0", "InvalidValues", "limit MAX_SPEC_BYTES of 1 MiB");
    let large: Vec<_> = (0..30).map(|n| holder(&format!("large{n}"), "ok", &"x".repeat(1_000_000))).collect();
    create(namespace, &large);
    told(namespace, "huge29", "InvalidValues", "valuesFrom");
    ready(namespace, "large29");
    measured.beside("large specs", operator);
}

fn large_annotations(namespace: &Namespace<'_>, measured: &mut Measured<'_>, operator: &Operator) {
    let annotated = |n| {
        let mut holder = holder(&format!("noted{n}"), "ok", "");
        let description = "x".repeat(250_000);
        holder["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/install-description": description});
        holder
    };
    create(namespace, &(0..200).map(annotated).collect::<Vec<_>>());
    told(namespace, "noted199", "InvalidAnnotation", "MAX_ANNOTATION_BYTES");
    measured.beside("large annotations", operator);
}

/// Creates sources of values that are small, and would expand to gigabytes.
fn sources_of_values(namespace: &Namespace<'_>, measured: &mut Measured<'_>, operator: &Operator) {
    let text = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(900_000), "*a, ".repeat(60));
    let (metadata, data) = (json!({"name": "repeats"}), json!({"values.yaml": text}));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let from = |name: &str, entries: Vec<Value>| {
        let mut holder = holder(name, "ok", "");
        holder["metadata"]["annotations"] =
            json!({"helm.sdk.operatorframework.io/values-from": Value::from(entries).to_string()});
        holder
    };
    let path = |n| {
        let path = format!("k{n}{}", "[65536]".repeat(30));
        json!({"kind": "ConfigMap", "name": "repeats", "targetPath": path})
    };
    let repeating = from("repeats", vec![json!({"kind": "ConfigMap", "name": "repeats"})]);
    create(namespace, &[map, repeating, from("indexed", (0..20).map(path).collect())]);
    told(namespace, "repeats", "InvalidValues", "aliases that repeat too much text");
    told(namespace, "indexed", "InvalidAnnotation", "MAX_SUM_OF_INDEXES");
    measured.beside("sources of values", operator);
}

fn lookups(namespace: &Namespace<'_>, measured: &mut Measured<'_>, operator: &Operator) {
    let map = |n| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{n}")}, "data": {"x": "x".repeat(1_000_000)}});
    create(namespace, &(0..20).map(map).collect::<Vec<_>>());
    create(namespace, &[holder("lister", "list", ""), holder("asker", "many", ""), holder("repeater", "same", "")]);
    measured.beside("lookups", operator);
    told(namespace, "lister", "RenderLimit", "returns more than 10 MiB");
    told(namespace, "asker", "RenderLimit", "more than 1000 different objects");
    ready(namespace, "repeater");
}

/// Opens 700 clients of the probe port that each send the beginning of a request.
fn unfinished_heads(measured: &mut Measured<'_>, operator: &Operator) {
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
    measured.beside("clients of the probe port", operator);
    drop(clients);
}
