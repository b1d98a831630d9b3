//! Tests of metrics, as Prometheus scrapes them.

use std::collections::BTreeSet;

use super::*;

fn check(metrics: &Metrics, line: &str) {
    let text = metrics.encode(Format::Classic);
    assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
}

#[test]
fn build_info_is_shown_from_the_start() {
    let version = env!("CARGO_PKG_VERSION");
    let commit = option_env!("GIT_COMMIT").unwrap_or("unknown");
    check(&Metrics::default(), &format!("controller_build_info{{commit=\"{commit}\",version=\"{version}\"}} 1"));
}

#[test]
fn a_controller_shows_its_metrics_before_its_first_reconcile() {
    let metrics = Metrics::default();
    metrics.controller(&"memcached-controller".into(), 2);
    check(&metrics, r#"controller_runtime_max_concurrent_reconciles{controller="memcached-controller"} 2"#);
    check(&metrics, r#"controller_runtime_active_workers{controller="memcached-controller"} 0"#);
    check(&metrics, r#"controller_runtime_reconcile_panics_total{controller="memcached-controller"} 0"#);
    check(&metrics, r#"controller_runtime_reconcile_total{controller="memcached-controller",result="success"} 0"#);
}

#[test]
fn a_failed_reconcile_counts_as_active_until_it_ends_and_then_as_an_error() {
    let metrics = Metrics::default();
    let running = metrics.reconcile(&"a-controller".into());
    check(&metrics, r#"controller_runtime_active_workers{controller="a-controller"} 1"#);
    running.finish(ReconcileResult::Error);
    check(&metrics, r#"controller_runtime_active_workers{controller="a-controller"} 0"#);
    check(&metrics, r#"controller_runtime_reconcile_total{controller="a-controller",result="error"} 1"#);
    check(&metrics, r#"controller_runtime_reconcile_errors_total{controller="a-controller"} 1"#);
    check(&metrics, r#"controller_runtime_reconcile_time_seconds_count{controller="a-controller"} 1"#);
}

#[test]
fn a_panic_is_counted() {
    let metrics = Metrics::default();
    metrics.reconcile_panicked(&"a-controller".into());
    check(&metrics, r#"controller_runtime_reconcile_panics_total{controller="a-controller"} 1"#);
}

#[test]
fn a_cancelled_reconcile_is_no_longer_active() {
    let metrics = Metrics::default();
    drop(metrics.reconcile(&"a-controller".into()));
    check(&metrics, r#"controller_runtime_active_workers{controller="a-controller"} 0"#);
}

#[test]
fn a_custom_resource_has_a_metric_until_it_is_deleted() {
    let metrics = Metrics::default();
    let gvk = GroupVersionKind::gvk("cache.example.com", "v1", "Memcached");
    metrics.resource_created(&gvk, "ns", "a", 1.7e9);
    let line = r#"resource_created_at_seconds{group="cache.example.com",kind="Memcached",name="a",namespace="ns",version="v1"} 1700000000.0"#;
    check(&metrics, line);
    metrics.resource_deleted(&gvk, "ns", "a");
    assert!(!metrics.encode(Format::Classic).contains("name=\"a\""));
}

#[test]
fn requests_and_leadership_are_shown() {
    let metrics = Metrics::default();
    metrics.api_server("127.0.0.1:6443");
    metrics.request(Some(201), &http::Method::POST);
    metrics.request(None, &http::Method::GET);
    metrics.leads("lock");
    check(&metrics, r#"rest_client_requests_total{code="201",host="127.0.0.1:6443",method="POST"} 1"#);
    check(&metrics, r#"rest_client_requests_total{code="<error>",host="127.0.0.1:6443",method="GET"} 1"#);
    check(&metrics, r#"leader_election_master_status{name="lock"} 1"#);
}

#[tokio::test(start_paused = true)]
async fn a_queue_shows_what_waits_and_what_runs_for_how_long() {
    let metrics = Metrics::default();
    let name: Arc<str> = "a-controller".into();
    metrics.controller(&name, 2);
    let queue = metrics.queue(&name);
    queue.added();
    queue.added();
    queue.taken(Duration::from_secs(2));
    let labels = r#"controller="a-controller",name="a-controller""#;
    check(&metrics, &format!("workqueue_depth{{{labels},priority=\"\"}} 1"));
    check(&metrics, &format!("workqueue_adds_total{{{labels}}} 2"));
    check(&metrics, &format!("workqueue_queue_duration_seconds_sum{{{labels}}} 2.0"));
    let work = [metrics.reconcile(&name), metrics.reconcile(&name)];
    tokio::time::advance(Duration::from_secs(3)).await;
    check(&metrics, &format!("workqueue_unfinished_work_seconds{{{labels}}} 6.0"));
    check(&metrics, &format!("workqueue_longest_running_processor_seconds{{{labels}}} 3.0"));
    let [first, second] = work;
    first.finish(ReconcileResult::Error);
    drop(second);
    check(&metrics, &format!("workqueue_unfinished_work_seconds{{{labels}}} 0.0"));
    check(&metrics, &format!("workqueue_work_duration_seconds_sum{{{labels}}} 3.0"));
    check(&metrics, &format!("workqueue_retries_total{{{labels}}} 1"));
}

#[tokio::test]
async fn the_process_and_the_runtime_are_shown_as_dashboards_expect() {
    let text = Metrics::default().encode(Format::Classic);
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse::<f64>().unwrap()
    };
    assert!(value("tokio_workers") >= 1.0 && value("tokio_worker_busy_seconds_total") >= 0.0);
    if cfg!(target_os = "linux") {
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0 && value("process_max_fds") > value("process_open_fds"));
        assert!(value("process_cpu_seconds_total") >= 0.0);
        // The system counts a whole network namespace, which outside a container is the machine's.
        assert!(!text.contains("process_network"), "{text}");
        let age = jiff::Timestamp::now().as_second() as f64 - value("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }
}

/// Returns metrics with every family in use.
fn full() -> Metrics {
    let metrics = Metrics::default();
    let name: Arc<str> = "a-controller".into();
    metrics.controller(&name, 1);
    metrics.queue(&name).added();
    metrics.reconcile(&name).finish(ReconcileResult::Success);
    metrics.outcome(&name, "Installed");
    metrics.resource_created(&GroupVersionKind::gvk("g", "v1", "Kind"), "ns", "a \"b\"", 1.5);
    metrics.request(Some(200), &http::Method::GET);
    metrics.leads("lock");
    metrics
}

/// Parses a scrape as strictly as Prometheus does: each family once, with HELP and TYPE before its samples, and no
/// sample twice. Returns the families with their types.
fn scraped(text: &str) -> Vec<(String, String)> {
    let (mut families, mut samples, mut helped) = (Vec::<(String, String)>::new(), BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helped = rest.split_once(' ').unwrap().0.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, helped);
            assert!(families.iter().all(|(known, _)| known != name), "{name} twice");
            families.push((name.to_owned(), kind.to_owned()));
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            assert!(samples.insert(series), "{series} twice");
            let (family, kind) = families.last().unwrap();
            let suffix = series.split('{').next().unwrap().strip_prefix(family.as_str());
            let allowed: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffix.is_some_and(|suffix| allowed.contains(&suffix)), "{line} in {family} {kind}");
        }
    }
    families
}

#[tokio::test]
async fn a_scrape_in_the_classic_format_is_well_formed() {
    let families = scraped(&full().encode(Format::Classic));
    let kind = |name: &str| &*families.iter().find(|family| family.0 == name).unwrap_or_else(|| panic!("{name}")).1;
    assert_eq!(kind("controller_build_info"), "gauge");
    assert_eq!(kind("controller_runtime_reconcile_total"), "counter");
    assert_eq!(kind("controller_runtime_reconcile_panics_total"), "counter");
    assert_eq!(kind("controller_runtime_reconcile_time_seconds"), "histogram");
    assert_eq!(kind("workqueue_depth"), "gauge");
    assert_eq!(kind("resource_created_at_seconds"), "gauge");
}

#[tokio::test]
async fn openmetrics_ends_with_its_mark_and_has_the_same_samples() {
    let metrics = full();
    let text = metrics.encode(Format::OpenMetrics);
    assert!(text.ends_with("\n# EOF\n") && text.contains("# TYPE controller_runtime_reconcile counter\n"));
    let names = |text: &str| -> BTreeSet<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    assert_eq!(names(&text), names(&metrics.encode(Format::Classic)));
}
