//! Tests the effect of flags on printed and written text. The conformance cases cover rendering.

use std::fs;

use super::*;

/// Writes a chart with one manifest and one hook.
fn chart(folder: &Path) -> String {
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
        ("templates/a.yaml", "kind: A\n"),
        ("templates/h.yaml", "kind: H\nmetadata:\n  name: h\n  annotations: {helm.sh/hook: test}\n"),
    ];
    let chart = folder.join("c");
    fs::create_dir_all(chart.join("templates")).unwrap();
    files.iter().for_each(|(name, text)| fs::write(chart.join(name), text).unwrap());
    chart.display().to_string()
}

fn options(chart: String) -> Options {
    Options { name_and_chart: vec!["rel".to_owned(), chart], namespace: "default".to_owned(), ..Options::default() }
}

#[test]
fn an_output_folder_gets_a_file_per_template_and_the_output_lists_them() {
    let folder = tempfile::tempdir().unwrap();
    let chart = chart(folder.path());
    let out = folder.path().join("out");
    let check = |change: fn(&mut Options), below: &str, files: &[&str]| {
        let mut options = Options { output_dir: Some(out.clone()), ..options(chart.clone()) };
        change(&mut options);
        let said = String::from_utf8(options.run().unwrap().text).unwrap();
        let wrote = |file: &&str| format!("wrote {}\n", out.join(below).join(file).display());
        assert_eq!(said, files.iter().map(wrote).collect::<String>() + "\n");
        assert!(files.iter().all(|file| out.join(below).join(file).is_file()));
    };
    check(|_| {}, "", &["c/templates/a.yaml", "c/templates/h.yaml"]);
    check(|options| options.skip_tests = true, "", &["c/templates/a.yaml"]);
    check(|options| options.release_name = true, "rel", &["c/templates/a.yaml", "c/templates/h.yaml"]);
}

#[test]
fn show_only_finds_nothing_with_an_output_folder_as_in_helm() {
    let folder = tempfile::tempdir().unwrap();
    let shown = vec!["templates/a.yaml".to_owned()];
    let options =
        Options { output_dir: Some(folder.path().join("out")), show_only: shown, ..options(chart(folder.path())) };
    let output = options.run().unwrap();
    assert!(output.text.starts_with(b"wrote "));
    assert_eq!(output.failed.unwrap().to_string(), "could not find template templates/a.yaml in chart");
}

#[test]
fn dry_run_accepts_client_and_server() {
    let check = |given: &str, expected: Option<&str>| {
        let options = Options { dry_run: Some(given.to_owned()), ..Options::default() };
        assert_eq!(options.check().err().map(|error| error.to_string()).as_deref(), expected);
        assert_eq!(options.wants_cluster(), given == "server");
    };
    ["client", "server", "true"].iter().for_each(|given| check(given, None));
    check("none", Some(r#"invalid dry-run value ("none"). Must be "server" or "client""#));
    check("false", Some(r#"invalid dry-run value ("false"). Must be "server" or "client""#));
    check("all", Some(r#"invalid dry-run value ("all"). Must be "none", "server", or "client""#));
}

#[test]
fn a_value_in_place_of_a_subcharts_table_is_an_error_in_helms_words() {
    let folder = tempfile::tempdir().unwrap();
    let chart = chart(folder.path());
    let below = Path::new(&chart).join("charts/sub");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("Chart.yaml"), "apiVersion: v2\nname: sub\nversion: 0.1.0\n").unwrap();
    let refused = || {
        let options = Options { set: vec!["sub=x".to_owned()], ..options(chart.clone()) };
        options.run().unwrap_err().to_string()
    };
    assert_eq!(refused(), "type mismatch on sub: %!t(string=x)");
    let named =
        "apiVersion: v2\nname: c\nversion: 0.1.0\ndependencies: [{name: sub, version: 0.1.0, condition: sub.on}]\n";
    fs::write(Path::new(&chart).join("Chart.yaml"), named).unwrap();
    assert_eq!(refused(), "chart dependencies processing failed: type mismatch on sub: %!t(string=x)");
}

#[test]
fn hooks_are_appended_to_existing_files_as_in_helm() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let options = Options { output_dir: Some(out.clone()), ..options(chart(folder.path())) };
    options.run().unwrap();
    options.run().unwrap();
    let documents = |file: &str| fs::read_to_string(out.join(file)).unwrap().matches("---\n").count();
    assert_eq!((documents("c/templates/a.yaml"), documents("c/templates/h.yaml")), (1, 2));
}

#[test]
fn the_error_for_a_remote_chart_says_what_to_do() {
    let check = |chart: &str, expected: &str| {
        assert_eq!(options(chart.to_owned()).run().unwrap_err().to_string(), expected);
    };
    check("./nope", "path \"./nope\" not found");
    check("nope", "non-absolute URLs should be in form of repo_name/path_to_chart, got: nope");
    let fetch = "only charts on disk are rendered; fetch it first with 'helm pull";
    check("repo/nope", &format!("repo repo not found: {fetch} repo/nope'"));
    check("oci://a/b", &format!("cannot fetch chart \"oci://a/b\": {fetch}'"));
}

#[test]
fn errors_without_values_hide_the_values_of_schema_violations() {
    let folder = tempfile::tempdir().unwrap();
    let chart = chart(folder.path());
    let schema =
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"password":{"pattern":"^[A-Z]+$"}}}"#;
    fs::write(Path::new(&chart).join("values.schema.json"), schema).unwrap();
    let options = Options { set: vec!["password=hunter2".to_owned()], ..options(chart) };
    let error = options.render(None).unwrap().0.unwrap_err();
    assert!(error.to_string().contains("'hunter2' does not match pattern"), "{error}");
    let head = "values don't meet the specifications of the schema(s) in the following chart(s):\nc:\n";
    let rule = "- at '/password': value does not match pattern '^[A-Z]+$'\n";
    assert_eq!(error.without_values(), format!("{head}{rule}"));
}
