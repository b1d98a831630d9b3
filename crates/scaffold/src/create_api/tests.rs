//! Tests that add kinds to projects in memory.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::*;
use crate::{Change, Init, Library, init, yaml};

fn project(hybrid: bool) -> Project {
    let mut project = Project::default();
    let hybrid = hybrid.then(|| Library::Version("0.1.0".into()));
    init(&mut project, &Init { name: "cache-operator".into(), domain: "my.domain".into(), repo: None, hybrid })
        .unwrap();
    project
}

/// Returns the same files, all of them unchanged.
fn saved(project: &Project) -> Project {
    Project::from_files(project.files())
}

fn memcached(source: Source) -> CreateApi {
    CreateApi { group: Some("cache".into()), version: Some("v1".into()), kind: Some("Memcached".into()), source }
}

fn read_yaml(project: &Project, path: &str) -> Json {
    yaml::parse(project.text(path).unwrap_or_else(|| panic!("{path} is missing"))).unwrap()
}

/// Checks that every entry of every kustomization exists.
fn check_kustomizations(project: &Project) {
    let folders: BTreeSet<String> = project
        .below("config")
        .filter_map(|(path, _)| path.rsplit_once('/'))
        .map(|(folder, _)| format!("config/{folder}"))
        .collect();
    for folder in folders {
        let Some(path) = kustomize::path(project, &folder) else { continue };
        for entry in read_yaml(project, &path)["resources"].as_array().unwrap() {
            let entry = entry.as_str().unwrap();
            let target = match entry.strip_prefix("../") {
                Some(sibling) => format!("config/{sibling}"),
                None => format!("{folder}/{entry}"),
            };
            let exists = project.contains(&target) || kustomize::path(project, &target).is_some();
            assert!(exists, "{path} lists {entry}, which does not exist");
        }
    }
}

#[test]
fn a_kind_without_a_chart_starts_with_one() {
    let mut project = project(false);
    let notes = create_api(&mut project, &memcached(Source::Starter)).unwrap();
    assert_eq!(notes, Vec::<String>::new());
    check_kustomizations(&project);
    for path in [
        "helm-charts/memcached/Chart.yaml",
        "config/crd/bases/cache.my.domain_memcacheds.yaml",
        "config/rbac/memcached_role.yaml",
        "config/rbac/memcached_editor_role.yaml",
        "config/rbac/memcached_viewer_role.yaml",
    ] {
        assert!(project.contains(path), "{path}");
    }
    let watches = read_yaml(&project, "watches.yaml");
    assert_eq!(watches[0]["group"], "cache.my.domain");
    assert_eq!(watches[0]["chart"], "helm-charts/memcached");
    assert!(project.text("watches.yaml").unwrap().ends_with("# +kubebuilder:scaffold:watch\n"));
    let sample = project.text("config/samples/cache_v1_memcached.yaml").unwrap();
    assert!(sample.contains("  # Number of pods."), "{sample}");
    let sample = yaml::parse(sample).unwrap();
    assert_eq!(sample["spec"], serde_json::json!({"replicaCount": 1}));
    assert_eq!(read_yaml(&project, "PROJECT")["resources"][0]["kind"], "Memcached");
}

#[test]
fn creating_an_api_twice_changes_nothing() {
    let mut once = project(false);
    create_api(&mut once, &memcached(Source::Starter)).unwrap();
    let mut twice = saved(&once);
    create_api(&mut twice, &memcached(Source::Starter)).unwrap();
    assert_eq!(twice.changes().collect::<Vec<_>>(), []);
}

#[test]
fn a_second_api_leaves_the_first_ones_files_alone() {
    let mut first = project(false);
    create_api(&mut first, &memcached(Source::Starter)).unwrap();
    let mut second = saved(&first);
    let api = CreateApi { kind: Some("Redis".into()), ..memcached(Source::Starter) };
    create_api(&mut second, &api).unwrap();
    let changed: Vec<&str> =
        second.changes().filter(|(_, change)| *change == Change::Changed).map(|(path, _)| path).collect();
    let lists = [
        "PROJECT",
        "config/crd/kustomization.yaml",
        "config/rbac/kustomization.yaml",
        "config/samples/Kustomization",
        "watches.yaml",
    ];
    assert_eq!(changed, lists);
    check_kustomizations(&second);
}

#[test]
fn a_chart_brings_its_name_and_the_defaults_of_operator_sdk() {
    let chart = |values: &str| {
        let file = |path: &str, text: &str| (path.to_owned(), text.as_bytes().to_vec());
        let files = vec![
            file("Chart.yaml", "apiVersion: v2\nname: my-cache\nversion: 1.0.0\n"),
            file("values.yaml", values),
            file("templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        ];
        Source::Chart(ChartFiles::new("my-cache", files).unwrap())
    };
    let api = |source| CreateApi { group: None, version: None, kind: None, source };
    let mut project = project(false);
    assert_eq!(create_api(&mut project, &api(chart("a: 1\n"))).unwrap(), Vec::<String>::new());
    let watch = &read_yaml(&project, "watches.yaml")[0];
    assert_eq!(
        (&watch["group"], &watch["version"], &watch["kind"]),
        (&"charts.my.domain".into(), &"v1alpha1".into(), &"MyCache".into())
    );
    let mut again = saved(&project);
    let notes = create_api(&mut again, &api(chart("a: 2\n"))).unwrap();
    assert_eq!(notes, ["helm-charts/my-cache exists already and is used as it is"]);
    assert_eq!(again.changes().count(), 0);
}

#[test]
fn subcharts_that_are_missing_are_refused_with_the_command_that_fetches_them() {
    let chart = "apiVersion: v2\nname: a\nversion: 1.0.0\ndependencies: [{name: redis, version: 1.0.0, repository: 'https://x'}]\n";
    let error = ChartFiles::new("./a", vec![("Chart.yaml".into(), chart.into())]).unwrap_err().to_string();
    assert_eq!(error, r#"cannot use chart "./a": subcharts are missing: redis; run 'helm dependency build ./a'"#);
}

#[test]
fn names_that_are_missing_or_taken_are_refused() {
    let mut project = project(false);
    let fails = |project: &mut Project, api: &CreateApi| create_api(project, api).unwrap_err().to_string();
    let api = memcached(Source::Starter);
    assert_eq!(
        fails(&mut project, &CreateApi { kind: None, ..api.clone() }),
        "either --kind or --helm-chart need to be provided"
    );
    assert_eq!(fails(&mut project, &CreateApi { version: None, ..api.clone() }), "--version is required");
    assert!(
        fails(&mut project, &memcached(Source::Native(Native { resource: true, controller: true })))
            .contains("init --hybrid")
    );
    create_api(&mut project, &api).unwrap();
    assert!(fails(&mut project, &CreateApi { group: Some("other".into()), ..api }).contains("exists already in group"));
    assert!(fails(&mut Project::default(), &memcached(Source::Starter)).contains("run 'init' first"));
}

#[test]
fn a_native_kind_gets_type_controller_and_roles_and_is_listed_once() {
    let mut once = project(true);
    let native = |resource, controller| {
        let source = Source::Native(Native { resource, controller });
        CreateApi { kind: Some("MemcachedBackup".into()), ..memcached(source) }
    };
    create_api(&mut once, &memcached(Source::Starter)).unwrap();
    create_api(&mut once, &native(true, true)).unwrap();
    check_kustomizations(&once);
    let main = once.text("src/main.rs").unwrap();
    let listed = "        .crd::<api::memcached_backup::MemcachedBackup>()
        .reconciler(controllers::memcached_backup::Controller)
        // +kubebuilder:scaffold:builder
        .main()
";
    assert!(main.contains(listed), "{main}");
    for folder in ["api", "controllers"] {
        let modules = once.text(&format!("src/{folder}/mod.rs")).unwrap();
        assert!(modules.contains("pub mod memcached_backup;\n// +kubebuilder:scaffold:modules\n"), "{modules}");
        let code = once.text(&format!("src/{folder}/memcached_backup.rs")).unwrap();
        assert!(!code.contains("__"), "{code}");
    }
    assert!(once.text("config/rbac/memcachedbackup_role.yaml").unwrap().contains("[memcachedbackups/status]"));
    assert_eq!(read_yaml(&once, "PROJECT")["resources"][1]["controller"], true);
    let mut twice = saved(&once);
    create_api(&mut twice, &native(true, true)).unwrap();
    assert_eq!(twice.changes().collect::<Vec<_>>(), []);
}

#[test]
fn a_type_alone_has_no_controller_until_it_is_asked_for() {
    let mut project = project(true);
    let api = |resource, controller| memcached(Source::Native(Native { resource, controller }));
    create_api(&mut project, &api(true, false)).unwrap();
    assert!(!project.contains("src/controllers/memcached.rs"));
    assert!(!project.text("src/main.rs").unwrap().contains(".reconciler("));
    create_api(&mut project, &api(false, true)).unwrap();
    assert!(project.text("src/main.rs").unwrap().contains(".reconciler("));
    assert_eq!(read_yaml(&project, "PROJECT")["resources"][0]["controller"], true);
}

#[test]
fn a_kind_is_served_by_a_chart_or_by_rust() {
    let mut project = project(true);
    create_api(&mut project, &memcached(Source::Starter)).unwrap();
    let native = memcached(Source::Native(Native { resource: true, controller: true }));
    let error = create_api(&mut project, &native).unwrap_err().to_string();
    assert_eq!(error, "cache.my.domain/v1 Memcached is already served by a chart");
    let backup = |source| CreateApi { kind: Some("Backup".into()), ..memcached(source) };
    create_api(&mut project, &backup(native.source)).unwrap();
    let error = create_api(&mut project, &backup(Source::Starter)).unwrap_err().to_string();
    assert_eq!(error, "cache.my.domain/v1 Backup is already served by Rust");
}

#[test]
fn a_missing_marker_is_an_error_that_says_what_to_add() {
    let mut project = project(true);
    project.write("src/main.rs", "fn main() {}\n");
    let native = memcached(Source::Native(Native { resource: false, controller: true }));
    let error = create_api(&mut project, &native).unwrap_err().to_string();
    let expected = r#"cannot edit src/main.rs: the line "// +kubebuilder:scaffold:builder" is missing; add ".reconciler(controllers::memcached::Controller)" by hand"#;
    assert_eq!(error, expected);
}
