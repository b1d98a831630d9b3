//! Tests with real worker processes: this test program, which runs the test `worker` as theirs.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controller::metrics::Metrics;
use controller::runtime::priority::Priority;
use futures::future::BoxFuture;
use helm::chart::Chart;
use helm::engine::Capabilities;
use helm_release::kube::{Api, Applier, Call, Error, MemoryApi, Response};
use serde_json::json;
use tempfile::TempDir;

use super::lookup::{ClusterLookup, LookupReach};
use super::request::{RenderError, Rendered};
use crate::chart_metrics::ChartMetrics;
use crate::rendering::*;
use crate::watches::OverrideValuesType;

/// The memory limit of a render in these tests.
const MEMORY: u64 = 96 << 20;

/// Needs more than that, and less than the engine's own limits.
pub(crate) const HUNGRY: &str = "{{ $l := list }}{{ range $i, $e := until 150 }}{{ $l = append $l (repeat 1000000 (print (mod $i 10))) }}{{ end }}{{ len $l }}";

/// Takes minutes.
pub(crate) const SLOW: &str = "{{ range until 100000 }}{{ $_ := htpasswd \"a\" \"b\" }}{{ end }}";

#[test]
#[ignore = "the process of a worker, which the other tests start"]
fn worker() {
    let _ = worker::main();
}

/// Returns the program of the workers, which runs the test above.
pub(crate) fn program() -> Program {
    let args = ["rendering::tests::worker", "--exact", "--ignored", "--nocapture", "--test-threads=1"];
    Program { path: "/proc/self/exe".into(), args: args.map(Into::into).into() }
}

/// Creates a pool with one worker. Renders may make others wait for long, because this test program is slow.
pub(crate) fn workers(timeout: Duration) -> Arc<Workers> {
    patient_workers(1, timeout, LIMIT)
}

/// Creates a pool, with the maximum time that a render may make others wait.
pub(crate) fn patient_workers(workers: usize, timeout: Duration, patience: Duration) -> Arc<Workers> {
    let rendering = Rendering { workers, memory: MEMORY, timeout };
    let mut workers = Workers::new(rendering, program(), ChartMetrics::new(&Metrics::default())).unwrap();
    Arc::get_mut(&mut workers).unwrap().patience = patience;
    workers
}

/// Creates a chart with this template, and returns its digest.
pub(crate) fn chart(template: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("templates")).unwrap();
    write("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.2.3\n");
    write("values.yaml", "size: 1\n");
    write("templates/a.yaml", template);
    let digest = Chart::load(folder.path()).unwrap().digest().to_owned();
    (folder, digest)
}

pub(super) fn job(chart: &Path, digest: &str) -> Job {
    Job {
        chart: chart.to_owned(),
        digest: digest.to_owned(),
        spec: r#"{"count": 9007199254740993}"#.into(),
        overrides: [("auth.password".to_owned(), "fixed".to_owned())].into(),
        overrides_kind: OverrideValuesType::Typed,
        copies: [].into(),
        skip_schema: false,
        name: "web".into(),
        namespace: "ns".into(),
        revision: 2,
        priority: Priority::Normal,
    }
}

fn lookup_in(api: Arc<dyn Api>) -> ClusterLookup {
    ClusterLookup::new(Applier::new(api), tokio::runtime::Handle::current(), LookupReach::Everything)
}

/// Renders a template in a worker, and returns its output.
async fn printed(workers: &Arc<Workers>, template: &str) -> Result<String, RenderError> {
    print(workers, template, Priority::Normal).await
}

/// Renders a template in a worker as a retry, and returns its output.
async fn reprinted(workers: &Arc<Workers>, template: &str) -> Result<String, RenderError> {
    print(workers, template, Priority::Retry).await
}

/// The text that represents a postponed render.
const POSTPONED: &str = "postponed";

async fn print(workers: &Arc<Workers>, template: &str, priority: Priority) -> Result<String, RenderError> {
    let (folder, digest) =
        chart(&format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ntext: >-\n  {template}"));
    // One worker renders several charts of these tests, which are created after its start.
    workers.admit_beside(folder.path());
    let api = MemoryApi::new();
    api.serve("v1", "ConfigMap", "configmaps");
    api.put("/api/v1/namespaces/ns/configmaps/a", json!({"data": {"x": "found"}}), "someone");
    let lookup = lookup_in(Arc::new(api));
    let job = Job { priority, ..job(folder.path(), &digest) };
    let Rendered::Done(output) = workers.render(job, &Arc::default(), &lookup).await? else {
        return Ok(POSTPONED.to_owned());
    };
    Ok(output.manifest.split_once(">-\n  ").unwrap().1.trim_end().to_owned())
}

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_worker_sees_values_release_capabilities_and_the_cluster() {
    let workers = workers(LIMIT);
    let print = async |template| printed(&workers, template).await.unwrap();
    assert_eq!(print("{{ .Release.Name }} {{ .Release.Revision }} {{ .Release.IsUpgrade }}").await, "web 2 true");
    let values = "{{ .Values.auth.password }} {{ .Values.size }} {{ add .Values.count 1 }} {{ typeOf .Values.count }}";
    assert_eq!(print(values).await, "fixed 1 9007199254740994 int64");
    assert_eq!(print("{{ .Capabilities.APIVersions.Has \"apps/v1\" }}").await, "true");
    assert_eq!(print("{{ (lookup \"v1\" \"ConfigMap\" \"ns\" \"a\").data.x }}").await, "found");
    assert_eq!(print("{{ lookup \"v1\" \"ConfigMap\" \"ns\" \"b\" }}").await, "map[]");
    assert_eq!(workers.started().len(), 1, "one worker rendered all");
}

#[tokio::test]
async fn a_worker_names_values_that_no_template_reads() {
    let workers = workers(LIMIT);
    let (folder, digest) = chart("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ntext: '{{ .Values.size }}'");
    workers.admit(folder.path());
    let lookup = lookup_in(Arc::new(MemoryApi::new()));
    let job =
        Job { spec: r#"{"szie": 2, "size": 3}"#.into(), overrides: Default::default(), ..job(folder.path(), &digest) };
    let output = workers.render(job, &Arc::default(), &lookup).await.unwrap().done().unwrap();
    let [unread] = &output.unread[..] else { panic!("{:?}", output.unread) };
    assert_eq!(unread.to_string(), "szie; did you mean \"size\"?");
}

#[tokio::test]
async fn a_charts_own_error_leaves_the_worker_alive() {
    let workers = workers(LIMIT);
    let error = printed(&workers, "{{ fail \"no\" }}").await.unwrap_err();
    assert_eq!(error.reason(), "RenderError");
    assert!(error.to_string().contains("execution error at (demo/templates/a.yaml:5:5): no"), "{error}");
    let error = printed(&workers, "{{ lookup \"v1\" \"Nothing\" \"ns\" \"b\" }}").await.unwrap_err();
    assert!(error.to_string().contains("no matches for kind \"Nothing\""), "{error}");
    assert_eq!(printed(&workers, "1").await.unwrap(), "1");
    assert_eq!(workers.started().len(), 1);
}

#[tokio::test]
async fn a_chart_that_exhausts_its_memory_hurts_no_other_render() {
    let workers = workers(LIMIT);
    assert_eq!(printed(&workers, "before").await.unwrap(), "before");
    let (bad, good) = tokio::join!(printed(&workers, HUNGRY), printed(&workers, "after"));
    let error = bad.unwrap_err();
    assert_eq!(error.reason(), "RenderLimit");
    assert_eq!(error.to_string(), "rendering needs more than 96 MiB of memory (limit --render-memory)");
    assert_eq!(good.unwrap(), "after");
    // The worker that rendered before, a new one because the first may have been at fault, and one for the last render.
    assert_eq!(workers.started().len(), 3);
}

#[tokio::test]
async fn a_chart_that_takes_too_long_is_ended() {
    let workers = workers(Duration::from_millis(100));
    let error = printed(&workers, SLOW).await.unwrap_err();
    assert_eq!(error.reason(), "RenderLimit");
    assert!(error.to_string().starts_with("rendering took longer than 100ms (limit --render-timeout)"), "{error}");
    assert_eq!(printed(&workers, "after").await.unwrap(), "after");
    assert_eq!(workers.started().len(), 2);
}

#[tokio::test]
async fn the_time_of_the_api_server_is_not_the_charts() {
    let workers = workers(Duration::from_millis(100));
    let (folder, digest) = chart("a: {{ (lookup \"v1\" \"ConfigMap\" \"ns\" \"a\").data.x }}");
    workers.admit(folder.path());
    let api = MemoryApi::new();
    api.put("/api/v1/namespaces/ns/configmaps/a", json!({"data": {"x": "found"}}), "someone");
    // Longer than the limit with its grace period, twice: for discovery and for the object.
    api.slow_down(Duration::from_millis(700));
    let output = workers.render(job(folder.path(), &digest), &Arc::default(), &lookup_in(Arc::new(api))).await;
    assert!(output.unwrap().done().unwrap().manifest.contains("a: found"));
}

#[tokio::test]
async fn a_lookup_that_is_not_answered_is_no_fault_of_the_worker() {
    let workers = workers(LIMIT);
    let (folder, digest) = chart("a: {{ (lookup \"v1\" \"ConfigMap\" \"ns\" \"a\").data.x }}");
    workers.admit(folder.path());
    let api = MemoryApi::new();
    api.disturb("/configmaps/a", 1, helm_release::kube::Disturbance::Refused(500));
    let lookup = lookup_in(Arc::new(api));
    let error = workers.render(job(folder.path(), &digest), &Arc::default(), &lookup).await.err().unwrap();
    assert_eq!(lookup.judge(error).reason(), "Unanswered");
    assert_eq!(workers.idle(), 1, "it is kept");
}

/// Returns the nice value of the thread that renders: the process of these tests has others.
fn niceness(id: u32) -> i64 {
    let of = |stat: String| stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap();
    let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    threads.map(|thread| of(fs::read_to_string(thread.unwrap().path().join("stat")).unwrap())).max().unwrap()
}

#[tokio::test]
async fn resources_that_failed_have_a_niced_worker_of_their_own() {
    let workers = patient_workers(2, LIMIT, LIMIT);
    assert_eq!(printed(&workers, "good").await.unwrap(), "good");
    assert_eq!(reprinted(&workers, "bad").await.unwrap(), "bad");
    assert_eq!((workers.started().len(), workers.idle()), (2, 2));
    let own = niceness(std::process::id());
    assert_eq!([0, 1].map(|n| niceness(workers.started()[n])), [own, (own + 19).min(19)]);
    printed(&workers, "good").await.unwrap();
    reprinted(&workers, "bad").await.unwrap();
    assert_eq!(workers.started().len(), 2, "both are kept");
}

#[tokio::test]
async fn no_more_workers_exist_than_may_render() {
    let workers = workers(LIMIT);
    printed(&workers, "good").await.unwrap();
    reprinted(&workers, "bad").await.unwrap();
    assert_eq!((workers.started().len(), workers.idle()), (2, 1), "they share the memory of one");
    printed(&workers, "good").await.unwrap();
    assert_eq!((workers.started().len(), workers.idle()), (3, 1));
    let workers = patient_workers(2, LIMIT, LIMIT);
    let (one, other) = tokio::join!(printed(&workers, "1"), printed(&workers, "2"));
    assert_eq!((one.unwrap(), other.unwrap(), workers.idle()), ("1".into(), "2".into(), 2));
    reprinted(&workers, "bad").await.unwrap();
    assert_eq!((workers.started().len(), workers.idle()), (3, 2));
}

#[tokio::test]
async fn a_render_that_makes_others_wait_for_long_is_postponed() {
    // Well below the engine's own limit, which would be an error of the template.
    let workers = patient_workers(1, Duration::from_secs(5), Duration::from_millis(100));
    let (slow, good) = tokio::join!(printed(&workers, SLOW), printed(&workers, "good"));
    assert_eq!(slow.unwrap(), POSTPONED);
    assert_eq!(good.unwrap(), "good");
    let (one, other) = tokio::join!(printed(&workers, SLOW), printed(&workers, SLOW));
    assert_eq!(one.unwrap(), POSTPONED);
    assert_eq!(other.unwrap_err().reason(), "RenderLimit", "nobody waits for the last one");
}

#[tokio::test]
async fn a_retry_is_not_postponed_and_rests_where_it_has_the_only_place() {
    let workers = patient_workers(1, Duration::from_millis(100), Duration::from_millis(10));
    let (slow, good) = tokio::join!(reprinted(&workers, SLOW), printed(&workers, "good"));
    assert_eq!((slow.unwrap_err().reason(), good.unwrap().as_str()), ("RenderLimit", "good"));
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let waiting = tokio::time::timeout(Duration::from_secs(2), reprinted(&workers, "bad")).await;
    assert!(waiting.is_err() && began.elapsed() < Duration::from_secs(3), "it rendered for more than a second");
    tokio::time::advance(Duration::from_secs(60)).await;
    tokio::time::resume();
    assert_eq!(reprinted(&workers, "bad").await.unwrap(), "bad");
}

#[tokio::test]
async fn a_retry_leaves_a_place_to_others() {
    let workers = patient_workers(2, LIMIT, LIMIT);
    let slow = reprinted(&workers, SLOW);
    let good = async {
        for _ in 0..5 {
            assert_eq!(printed(&workers, "good").await.unwrap(), "good");
        }
    };
    tokio::select! {
        _ = slow => panic!("it takes minutes"),
        () = good => {}
    }
}

#[tokio::test]
async fn output_that_the_manager_could_not_hold_is_refused() {
    let large = Rendering { workers: 1, memory: 512 << 20, timeout: LIMIT };
    let workers = Workers::new(large, program(), ChartMetrics::new(&Metrics::default())).unwrap();
    let error = printed(&workers, "{{ range until 17 }}{{ repeat 1000000 \"x\" }}{{ end }}").await.unwrap_err();
    assert_eq!(error.reason(), "RenderLimit");
    assert!(error.to_string().contains("exceed 16 MiB (limit MAX_ANSWER)"), "{error}");
}

/// An API server that kills the asking worker before its first responses.
struct Killing {
    inner: MemoryApi,
    workers: Arc<Workers>,
    kills: AtomicUsize,
}

impl Api for Killing {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        if call.path.contains("configmaps") && self.kills.fetch_sub(1, Ordering::SeqCst) > 0 {
            kill(*self.workers.started().last().unwrap());
        }
        self.inner.send(call)
    }
}

fn kill(id: u32) {
    let killed = std::process::Command::new("kill").args(["-9", &id.to_string()]).status();
    assert!(killed.unwrap().success());
}

/// Renders while the first workers are killed during the render.
async fn killed(kills: usize) -> (Result<Rendered<Output>, RenderError>, usize) {
    let (folder, digest) = chart("a: {{ (lookup \"v1\" \"ConfigMap\" \"ns\" \"a\").data.x }}");
    let workers = workers(LIMIT);
    workers.admit(folder.path());
    let inner = MemoryApi::new();
    inner.serve("v1", "ConfigMap", "configmaps");
    inner.put("/api/v1/namespaces/ns/configmaps/a", json!({"data": {"x": "found"}}), "someone");
    let api = Killing { inner, workers: workers.clone(), kills: kills.into() };
    let rendered = workers.render(job(folder.path(), &digest), &Arc::default(), &lookup_in(Arc::new(api))).await;
    (rendered, workers.started().len())
}

#[tokio::test]
async fn a_render_survives_the_kill_of_its_worker() {
    let (output, started) = killed(1).await;
    assert!(output.unwrap().done().unwrap().manifest.contains("a: found"));
    assert_eq!(started, 2);
}

#[tokio::test]
async fn a_render_whose_workers_are_killed_again_fails() {
    let (output, started) = killed(2).await;
    let error = output.err().unwrap();
    assert_eq!(error.reason(), "RenderLimit");
    assert!(error.to_string().contains("was killed"), "{error}");
    assert_eq!(started, 2);
}

#[tokio::test]
async fn an_idle_worker_that_was_killed_is_replaced() {
    let workers = workers(LIMIT);
    printed(&workers, "1").await.unwrap();
    kill(workers.started()[0]);
    assert_eq!(printed(&workers, "2").await.unwrap(), "2");
    assert_eq!(workers.started().len(), 2);
}

#[tokio::test]
async fn a_render_that_is_dropped_frees_its_place() {
    let workers = workers(LIMIT);
    let dropped = tokio::time::timeout(Duration::from_millis(300), printed(&workers, SLOW)).await;
    assert!(dropped.is_err());
    assert_eq!(printed(&workers, "next").await.unwrap(), "next");
    assert_eq!((workers.started().len(), workers.idle()), (2, 1));
}

#[tokio::test]
async fn idle_workers_end() {
    let workers = workers(LIMIT);
    printed(&workers, "1").await.unwrap();
    assert_eq!(workers.idle(), 1);
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(25)).await;
    tokio::time::resume();
    assert_eq!(workers.idle(), 0);
    let process = format!("/proc/{}", workers.started()[0]);
    let ended = async {
        while Path::new(&process).exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
}

#[tokio::test]
async fn a_chart_that_changed_since_the_start_is_reported() {
    let (folder, digest) = chart("a: 1");
    let workers = workers(LIMIT);
    workers.admit(folder.path());
    fs::write(folder.path().join("values.yaml"), "size: 2\n").unwrap();
    let lookup = lookup_in(Arc::new(MemoryApi::new()));
    let render = async || workers.render(job(folder.path(), &digest), &Arc::default(), &lookup).await.err().unwrap();
    let changed = render().await;
    assert_eq!(changed.reason(), "ChartChanged");
    assert!(changed.to_string().ends_with("changed since the operator started: restart the operator"), "{changed}");
    fs::remove_file(folder.path().join("Chart.yaml")).unwrap();
    assert!(render().await.to_string().contains("became unreadable"));
}

/// Returns a line of a running process's status.
fn status(id: u32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_worker_has_no_environment_and_only_the_rights_that_it_needs() {
    let workers = workers(LIMIT);
    printed(&workers, "1").await.unwrap();
    let id = workers.started()[0];
    let environment = fs::read(format!("/proc/{id}/environ")).unwrap();
    let names: Vec<_> =
        environment.split(|byte| *byte == 0).filter_map(|v| v.split(|byte| *byte == b'=').next()).collect();
    let allowed: [&[u8]; 5] = [b"", b"TZ", b"TZDIR", b"MIMALLOC_ARENA_EAGER_COMMIT", worker::SETTINGS.as_bytes()];
    assert!(names.iter().all(|name| allowed.contains(name)));
    assert_eq!(fs::read_link(format!("/proc/{id}/cwd")).unwrap(), Path::new("/"));
    let limits = fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
    for (limit, value) in [("data size", MEMORY), ("file size", 0), ("core file size", 0), ("stack size", 8 << 20)] {
        let line = limits.lines().find(|line| line.starts_with(&format!("Max {limit}"))).unwrap();
        let values: Vec<_> = line.split_whitespace().rev().skip(1).take(2).collect();
        assert_eq!(values, [value.to_string(), value.to_string()], "{line}");
    }
    assert_eq!(fs::read_to_string(format!("/proc/{id}/oom_score_adj")).unwrap().trim(), "1000");
    assert_eq!((&*status(id, "NoNewPrivs:"), &*status(id, "Seccomp:")), ("1", "2"));
}

#[tokio::test]
async fn a_worker_reads_no_chart_that_was_not_admitted() {
    let (admitted, _) = chart("a: 1");
    let own = tempfile::tempdir().unwrap();
    let other = own.path().join("chart");
    fs::rename(chart("a: 1").0.keep(), &other).unwrap();
    let digest = Chart::load(&other).unwrap().digest().to_owned();
    // A separate folder, because workers may read the siblings of a chart.
    let holder = tempfile::tempdir().unwrap();
    let inside = holder.path().join("chart");
    fs::rename(admitted.keep(), &inside).unwrap();
    let workers = workers(LIMIT);
    workers.admit(&inside);
    let lookup = lookup_in(Arc::new(MemoryApi::new()));
    let refused = workers.render(job(&other, &digest), &Arc::default(), &lookup).await.err().unwrap();
    assert!(refused.to_string().contains("became unreadable") && refused.to_string().contains("denied"), "{refused}");
    assert!(workers.render(job(&inside, &digest), &Arc::default(), &lookup).await.is_ok());
}

/// Returns a chart that asks whether this is served, its digest, and workers and a lookup to render it.
fn asking_for(entry: &str) -> (TempDir, String, Arc<Workers>, ClusterLookup) {
    let (folder, digest) = chart(&format!("a: {{{{ .Capabilities.APIVersions.Has {entry:?} }}}}"));
    let workers = workers(LIMIT);
    workers.admit(folder.path());
    (folder, digest, workers, lookup_in(Arc::new(MemoryApi::new())))
}

#[tokio::test]
async fn new_capabilities_reach_a_running_worker() {
    let (folder, digest, workers, lookup) = asking_for("x/v1");
    let render = async |capabilities: &Arc<Capabilities>| {
        workers.render(job(folder.path(), &digest), capabilities, &lookup).await.unwrap().done().unwrap().manifest
    };
    let old = Arc::<Capabilities>::default();
    let new = Arc::new(Capabilities::new(old.kube_version.clone(), ["x/v1"]));
    for (capabilities, expected) in [(&old, "a: false"), (&old, "a: false"), (&new, "a: true"), (&new, "a: true")] {
        assert!(render(capabilities).await.contains(expected));
    }
}

#[tokio::test]
async fn a_worker_judges_no_chart_that_asks_for_a_kind_of_a_silent_server() {
    let (folder, digest, workers, lookup) = asking_for("x.y/v1/Route");
    let silent = Arc::new(vec!["x.y/v1".into()]);
    let silent = Arc::new(Capabilities { silent, ..Capabilities::default() });
    let error = workers.render(job(folder.path(), &digest), &silent, &lookup).await.err().unwrap();
    assert!(matches!(&error, RenderError::Unanswered { reason: "Unanswered", .. }), "{error:?}");
    assert!(error.to_string().contains("the API server behind APIService \"v1.x.y\" does not answer"), "{error}");
    assert!(workers.render(job(folder.path(), &digest), &Arc::default(), &lookup).await.is_ok());
}
