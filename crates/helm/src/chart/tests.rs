use std::fs;

use serde_json::{Value as Json, json};

use super::*;
use go_encoding::json::to_serde;

/// The real answers of Helm v4.3.1, one object a line: files, and what the chart has or the error.
const CASES: &str = include_str!("cases.jsonl");

fn load(files: &[(&str, &str)]) -> Result<Arc<Chart>, LoadError> {
    let files = files.iter().map(|(name, data)| File { name: (*name).to_owned(), data: (*data).into() });
    Chart::load_files(files.collect())
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
fn charts_and_errors_are_those_of_helm() {
    let mut wrong = String::new();
    for case in CASES.lines() {
        let case: Json = serde_json::from_str(case).unwrap();
        let files: Vec<(&str, &str)> = case["files"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, data)| (name.as_str(), data.as_str().unwrap()))
            .collect();
        let got = match load(&files) {
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

/// A folder with a chart `c` in it, and what else the test puts there.
fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let around = tempfile::tempdir().unwrap();
    let chart = around.path().join("charts/c");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), CHART_YAML).unwrap();
    (around, chart)
}

fn error_of(chart: &Path) -> String {
    Chart::load(chart).unwrap_err().to_string()
}

#[test]
fn links_inside_and_beside_the_chart_are_followed() {
    let (around, chart) = folder();
    fs::write(around.path().join("charts/shared.tpl"), "shared").unwrap();
    std::os::unix::fs::symlink("../../shared.tpl", chart.join("templates/_shared.tpl")).unwrap();
    std::os::unix::fs::symlink("templates", chart.join("again")).unwrap();
    let loaded = Chart::load(&chart).unwrap();
    assert_eq!(loaded.templates[0].data, "shared");
    assert_eq!(loaded.files[0].name, "again/_shared.tpl");
}

#[test]
fn links_that_lead_out_are_refused() {
    let (around, chart) = folder();
    fs::write(around.path().join("secret"), "token").unwrap();
    for target in ["../../../secret", "/etc/hostname", "/etc"] {
        let link = chart.join("templates/out.yaml");
        std::os::unix::fs::symlink(target, &link).unwrap();
        assert!(error_of(&chart).starts_with("symlink templates/out.yaml leads out of "), "{target}");
        fs::remove_file(link).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", chart.join("broken")).unwrap();
    assert!(error_of(&chart).ends_with("broken: no such file or directory"));
}

#[test]
fn folders_that_link_to_themselves_end() {
    let (_around, chart) = folder();
    for name in ["a", "b"] {
        std::os::unix::fs::symlink(".", chart.join(name)).unwrap();
    }
    let error = error_of(&chart);
    assert!(error.contains("limit MAX_") || error.contains("symbolic links"), "{error}");
}

#[test]
fn a_folder_without_a_chart_and_a_file_that_is_no_archive_say_so() {
    let (around, chart) = folder();
    let place = around.path().join("Chart.yaml");
    let place = place.display();
    let wanted = format!("unable to detect chart at {place}: open {place}: no such file or directory");
    assert_eq!(error_of(around.path()), wanted);
    let file = chart.join("x.tgz");
    fs::write(&file, "text\n".repeat(200)).unwrap();
    let name = file.display();
    let wanted = format!("file '{name}' does not appear to be a gzipped archive; got 'text/plain; charset=utf-8'");
    assert_eq!(error_of(&file), wanted);
}

#[test]
fn ignored_files_are_left_out() {
    let (_around, chart) = folder();
    fs::write(chart.join(".helmignore"), b"*.bak\n\xff\n").unwrap();
    fs::write(chart.join("a.bak"), "x").unwrap();
    fs::write(chart.join("templates/.hidden"), "x").unwrap();
    let names: Vec<_> = Chart::load(&chart).unwrap().files.iter().map(|file| file.name.clone()).collect();
    assert_eq!(names, [".helmignore"]);
}

#[test]
fn files_of_any_bytes_never_panic() {
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
            let mut files = vec![File { name: name.to_owned(), data: data.into() }];
            if name != "Chart.yaml" {
                files.push(File { name: "Chart.yaml".to_owned(), data: CHART_YAML.into() });
            }
            if let Ok(chart) = Chart::load_files(files) {
                let _ = chart.compiled_schema();
            }
        }
    }
}
