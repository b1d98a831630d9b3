use serde_json::{Value as Json, json};

use super::*;
use go_encoding::json::to_serde;

/// Recorded from Helm v4.3.1, one object per line: files, and a summary of the chart or the error.
const CASES: &str = include_str!("cases.jsonl");

/// Returns the chart's files in a recorded case.
pub(crate) fn files(case: &Json) -> impl Iterator<Item = (&str, &str)> {
    case["files"].as_object().unwrap().iter().map(|(name, data)| (name.as_str(), data.as_str().unwrap()))
}

fn summary(chart: &Chart) -> Json {
    let m = &chart.metadata;
    let meta = [&m.api_version, &m.name, &m.version, &m.app_version, &m.kind].map(String::as_str).join("|");
    let dependencies = m
        .dependencies
        .iter()
        .map(|d| format!("{}|{}|{}|{}|[{}]|{}", d.name, d.version, d.alias, d.condition, d.tags.join(" "), d.enabled));
    let names = |files: &[File]| files.iter().map(|file| file.name.clone()).collect::<Vec<_>>();
    json!({
        "meta": format!("{meta}|{}|{}", m.deprecated, m.kube_version),
        "keywords": m.keywords,
        "dependencies": dependencies.collect::<Vec<_>>(),
        "maintainers": m.maintainers.iter().map(|m| format!("{}|{}", m.name, m.email)).collect::<Vec<_>>(),
        "annotations": m.annotations.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "templates": names(&chart.templates),
        "files": names(&chart.files),
        "values": to_serde(&Value::Map(chart.values.clone())),
        "subcharts": chart.dependencies.iter().map(|s| (s.metadata.name.clone(), summary(s))).collect::<serde_json::Map<_, _>>(),
    })
}

#[test]
fn charts_and_errors_match_helm() {
    let mut wrong = String::new();
    for case in CASES.lines() {
        let case: Json = serde_json::from_str(case).unwrap();
        let got = match Chart::from_files(files(&case)) {
            Ok(chart) => json!({"chart": summary(&chart)}),
            Err(error) => json!({"error": error.to_string()}),
        };
        if got != case["result"] {
            wrong.push_str(&format!("{}\n  got    {got}\n  wanted {}\n", case["files"], case["result"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

const CHART_YAML: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\n";

#[test]
fn no_bytes_make_loading_panic() {
    let odd: [&[u8]; 6] = [b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"? [", b"!!binary x"];
    let names = [
        "Chart.yaml",
        "values.yaml",
        "Chart.lock",
        "requirements.yaml",
        "values.schema.json",
        "charts/s.tgz",
        "charts/",
        "templates/",
    ];
    for name in names {
        for data in odd {
            let mut files = vec![(name, data)];
            if name != "Chart.yaml" {
                files.push(("Chart.yaml", CHART_YAML.as_bytes()));
            }
            if let Ok(chart) = Chart::from_files(files) {
                let _ = chart.compiled_schema();
            }
        }
    }
}
