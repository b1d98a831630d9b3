//! The alerts of `config/prometheus/rules.yaml` and the dashboard of `config/grafana` name metrics, labels and values
//! that a run has, and pages that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use test_cluster::TestCluster;

use crate::chart::{set, wait_ready};
use crate::operator::{Operator, eventually};
use crate::reader::get;

/// How the names of the operator's metrics begin.
const PREFIXES: [&str; 5] = ["controller_runtime_", "helm_operator_", "leader_election_", "rest_client_", "workqueue_"];

/// Labels that no series of a scrape has: Prometheus adds the target's namespace, and takes `le` off a histogram.
const OF_PROMETHEUS: [&str; 2] = ["namespace", "le"];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the rules: name, expression and page.
fn rules() -> Vec<[String; 3]> {
    let file: Value = serde_yaml::from_str(&read("config/prometheus/rules.yaml")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let groups = file["spec"]["groups"].as_array().unwrap();
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    rules.map(|rule| [&rule["alert"], &rule["expr"], &rule["annotations"]["runbook_url"]].map(text)).collect()
}

/// Returns the panels of the dashboard: title and expression.
fn panels() -> Vec<[String; 2]> {
    let file: Value = serde_json::from_str(&read("config/grafana/helm-operator.json")).unwrap();
    let panels = file["panels"].as_array().unwrap().iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().unwrap().iter();
        targets.map(|target| [&panel["title"], &target["expr"]].map(|text| text.as_str().unwrap().to_owned()))
    });
    panels.collect()
}

/// Returns the metrics that an expression names.
fn names(expression: &str) -> BTreeSet<&str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix))).collect()
}

/// Returns the text between each `from` and the next `to`.
fn between<'a>(text: &'a str, [from, to]: [&'a str; 2]) -> impl Iterator<Item = &'a str> {
    text.split(from).skip(1).filter_map(move |rest| Some(rest.split_once(to)?.0))
}

/// Returns the labels that an expression groups by and matches, with the values that it asks for.
fn labels(expression: &str) -> Vec<(&str, Option<&str>)> {
    let groups = between(expression, ["by (", ")"]).flat_map(|list| list.split(", ")).map(|label| (label, None));
    let matchers = between(expression, ["{", "}"]).flat_map(|list| list.split(", "));
    let matched = matchers.filter_map(|matcher| {
        let (label, value) = matcher.split_once('=')?;
        Some((label, value.strip_prefix('"').map(|value| value.trim_end_matches('"'))))
    });
    groups.chain(matched).collect()
}

/// Returns the labels of each metric of a scrape; none for a metric without a series.
fn scraped(text: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            all.entry(family.split(' ').next().unwrap()).or_default();
        } else if let Some((name, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let labels = rest.split('}').next().unwrap().split("\",").filter_map(|label| label.split('=').next());
            all.entry(name).or_default().extend(labels);
        } else if let Some((name, _)) = line.split_once(' ').filter(|_| !line.starts_with('#')) {
            all.entry(name).or_default();
        }
    }
    all
}

#[test]
fn each_alert_has_its_page() {
    let page = read("docs/alerts.md");
    let headings: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts = rules();
    for [alert, _, url] in &alerts {
        assert!(headings.contains(&**alert), "{alert} is not in docs/alerts.md");
        assert!(url.ends_with(&format!("/docs/alerts.md#{}", alert.to_lowercase())), "{url}");
    }
    assert_eq!(headings.len(), alerts.len());
    let scaffolded = read("crates/scaffold/templates/project/config/prometheus/rules.yaml");
    assert_eq!(scaffolded, read("config/prometheus/rules.yaml"), "projects have the same rules");
}

#[test]
fn every_metric_and_label_of_an_alert_or_a_panel_exists_in_a_run() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("alerts").unwrap();
    let election =
        ["--leader-elect", "--leader-election-id=alerts", &format!("--leader-election-namespace={}", namespace.name())];
    // A rollout's metrics exist for a watch with steps.
    let folder = tempfile::tempdir().unwrap();
    let watches = read("watches.yaml").replace("chart: ", &format!("chart: {}/", env!("CARGO_MANIFEST_DIR")));
    let file = folder.path().join("watches.yaml");
    fs::write(&file, watches.replace("  kind: Memcached\n", "  kind: Memcached\n  rollout: {steps: [10%]}\n")).unwrap();
    let watches = format!("--watches-file={}", file.display());
    let flags: Vec<&str> = election.into_iter().chain([&*watches]).collect();
    let operator = Operator::start_charts(cluster, &namespace, &flags);
    set(&namespace, "web", json!({"replicaCount": 1}));
    wait_ready(&namespace, "web");
    namespace.kubectl(["scale", "deployment", "web-memcached", "--replicas=3"]).unwrap();
    eventually("the repair", || match get(&namespace, ["deployment", "web-memcached"])["spec"]["replicas"].clone() {
        replicas if replicas == 1 => Ok(()),
        replicas => Err(replicas),
    });
    set(&namespace, "stuck", json!({"podAnnotations": {"test-cluster/pod": "stuck"}}));
    let metrics = eventually("the metrics of all that happened", || {
        let metrics = operator.get("Serving metrics server", "/metrics");
        let has = |text: &str| metrics.contains(text);
        let is_complete = has("helm_operator_drift_repairs_total{") && has("ready=\"False\"");
        if is_complete { Ok(metrics) } else { Err(metrics) }
    });
    let known = scraped(&metrics);
    let documented = format!("{}{}", read("docs/operating.md"), read("docs/conditions.md"));
    let alerts = rules().into_iter().map(|[alert, expression, _]| [alert, expression]);
    for [alert, expression] in alerts.chain(panels()) {
        let names = names(&expression);
        assert!(!names.is_empty(), "{alert}");
        for name in names {
            let Some(of) = known.get(name) else { panic!("{alert}: there is no metric {name}: {:?}", known.keys()) };
            for (label, value) in labels(&expression).into_iter().filter(|(label, _)| !OF_PROMETHEUS.contains(label)) {
                assert!(of.contains(label), "{alert}: {name} has no label {label:?}: {of:?}");
                let Some(value) = value else { continue };
                let is_known =
                    metrics.contains(&format!("{label}=\"{value}\"")) || documented.contains(&format!("`{value}`"));
                assert!(is_known, "{alert}: nothing sets {label} to {value:?}");
            }
        }
    }
}
