use std::fs;
use std::path::Path;

use super::{Bounds, Odd, read_folder};
use crate::chart::Chart;

const CHART_YAML: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\n";

/// Creates a folder that contains the chart `charts/c`; also returns the chart's folder.
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
fn links_that_leave_the_parent_folder_are_rejected() {
    let (around, chart) = folder();
    fs::write(around.path().join("secret"), "token").unwrap();
    for target in ["../../../secret", "/etc/hostname", "/etc"] {
        let link = chart.join("templates/out.yaml");
        std::os::unix::fs::symlink(target, &link).unwrap();
        assert!(error_of(&chart).starts_with("symlink templates/out.yaml points outside of "), "{target}");
        fs::remove_file(link).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", chart.join("broken")).unwrap();
    assert!(error_of(&chart).ends_with("broken: no such file or directory"));
}

#[test]
fn cycles_of_links_are_errors() {
    let (_around, chart) = folder();
    for name in ["a", "b"] {
        std::os::unix::fs::symlink(".", chart.join(name)).unwrap();
    }
    let error = error_of(&chart);
    assert!(error.contains("limit MAX_") || error.contains("symbolic links"), "{error}");
}

#[test]
fn errors_name_the_missing_chart_yaml_and_the_type_of_other_files() {
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
fn ignored_files_are_skipped() {
    let (_around, chart) = folder();
    fs::write(chart.join(".helmignore"), b"*.bak\n\xff\n").unwrap();
    fs::write(chart.join("a.bak"), "x").unwrap();
    fs::write(chart.join("templates/.hidden"), "x").unwrap();
    let names: Vec<_> = Chart::load(&chart).unwrap().files.iter().map(|file| file.name.clone()).collect();
    assert_eq!(names, [".helmignore"]);
}

#[test]
fn a_folder_is_read_within_its_bounds_and_within_itself() {
    let (around, chart) = folder();
    fs::write(around.path().join("charts/beside"), "not the chart's").unwrap();
    fs::write(chart.join("templates/a"), "1234").unwrap();
    let bounds = Bounds { what: "project", bytes: 1000, entries: 10, odd: Odd::Skipped };
    let read = |bounds| read_folder(&chart, bounds, &|name, _| name == "Chart.yaml");
    let failed = |bounds| read(bounds).unwrap_err().to_string();
    assert_eq!(
        failed(Bounds { bytes: 3, ..bounds }),
        "error reading templates/a: project exceeds maximum decompressed size of 3 bytes"
    );
    assert_eq!(failed(Bounds { entries: 2, ..bounds }), "project has more than 2 files (limit MAX_PROJECT_FILES)");
    std::os::unix::fs::symlink("nowhere", chart.join("broken")).unwrap();
    let names: Vec<_> = read(bounds).unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["templates/a"]);
    assert!(failed(Bounds { odd: Odd::Refused, ..bounds }).starts_with("error evaluating symlink "));
    std::os::unix::fs::symlink("../beside", chart.join("out")).unwrap();
    assert!(failed(bounds).starts_with("symlink out points outside of "));
}
