use std::sync::Arc;

use go_template::Map;

use super::*;
use crate::chart::File as ChartFile;

fn chart(files: &[(&str, &str)]) -> Arc<Chart> {
    let mut all = vec![("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.2.3\n")];
    all.extend_from_slice(files);
    let files = all.into_iter().map(|(name, data)| ChartFile { name: name.to_owned(), data: data.into() });
    Chart::load_files(files.collect()).unwrap()
}

fn render(files: &[(&str, &str)], values: &str) -> Result<Rendered, Error> {
    let values = crate::values::read(values.as_bytes()).unwrap();
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let capabilities = Capabilities::default();
    let request =
        Request { values: &values, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false };
    Engine::new(chart(files)).render(&request)
}

/// What the single template prints.
fn check(template: &str, values: &str, wanted: &str) {
    let rendered = render(&[("templates/t", template)], values).unwrap();
    assert_eq!(rendered.manifests[0].content, wanted);
}

fn error(files: &[(&str, &str)]) -> String {
    render(files, "").unwrap_err().to_string()
}

#[test]
fn include_and_tpl_see_definitions_of_their_callers() {
    check(
        "{{ define \"a\" }}{{ .x }}{{ end }}k: {{ tpl \"{{ define \\\"b\\\" }}<{{ include \\\"a\\\" . }}>{{ end }}{{ include \\\"b\\\" .Values }}\" . }}",
        "x: 1",
        "k: <1>",
    );
}

#[test]
fn values_that_a_template_changes_stay_changed_for_later_ones() {
    let files = [
        ("templates/b.yaml", "{{- $_ := set .Values \"x\" 2 -}}b: {{ .Values.x }}"),
        ("templates/a.yaml", "a: {{ .Values.x }}"),
    ];
    let rendered = render(&files, "x: 1").unwrap();
    let contents: Vec<_> = rendered.manifests.iter().map(|m| m.content.as_str()).collect();
    assert_eq!(contents, ["a: 2", "b: 2"]);
}

#[test]
fn missing_values_print_nothing() {
    check("k: [{{ .Values.missing }}]", "", "k: []");
}

#[test]
fn a_failing_include_shows_each_location() {
    let text = error(&[("templates/t", "{{ define \"d\" }}\n{{ .Values.a.b }}{{ end }}{{ include \"d\" . }}")]);
    assert_eq!(
        text,
        "c/templates/t:2:29\n  executing \"c/templates/t\" at <include \"d\" .>:\n    error calling include:\nc/templates/t:2:10\n  executing \"d\" at <.Values.a.b>:\n    nil pointer evaluating interface {}.b"
    );
}

#[test]
fn fail_and_required_say_their_message_alone() {
    assert_eq!(error(&[("templates/t", "{{ fail \"no: way\" }}")]), "execution error at (c/templates/t:1:3): no: way");
    assert_eq!(
        error(&[("templates/t", "\n{{ required \"give x\" .Values.x }}")]),
        "execution error at (c/templates/t:2:3): give x"
    );
}

#[test]
fn a_text_that_is_no_template_names_its_line() {
    assert_eq!(error(&[("templates/t", "a\n{{ if }}")]), "parse error at (c/templates/t:2): missing value for if");
}

#[test]
fn endless_recursion_is_an_error() {
    let text = error(&[("templates/t", "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}")]);
    assert!(text.contains("rendering template has a nested reference name: a: unable to execute template"), "{text}");
    let text = error(&[(
        "templates/t",
        "{{ define \"a\" }}{{ tpl \"{{ template \\\"a\\\" . }}\" . }}{{ end }}{{ template \"a\" . }}",
    )]);
    assert!(text.contains("limit"), "{text}");
}

#[test]
fn an_endless_range_runs_out_of_steps() {
    let text = error(&[("templates/t", "{{ range 1000000000 }}{{ range 1000000000 }}{{ end }}{{ end }}")]);
    assert!(text.contains("limit steps exceeded"), "{text}");
}

#[test]
fn an_alias_gets_its_own_names_and_values() {
    let chart_yaml = "apiVersion: v2\nname: c\nversion: 1.2.3\ndependencies:\n- {name: s, version: 1.0.0, alias: one}\n- {name: s, version: 1.0.0, alias: two}\n";
    let files = [
        ("Chart.yaml", chart_yaml),
        ("values.yaml", "one: {k: 1}\ntwo: {k: 2}\n"),
        ("charts/s/Chart.yaml", "apiVersion: v2\nname: s\nversion: 1.0.0\n"),
        ("charts/s/templates/t.yaml", "{{ .Chart.Name }}{{ .Chart.IsRoot }}: {{ .Values.k }} # {{ .Template.Name }}"),
    ];
    let files = files.iter().map(|(name, data)| ChartFile { name: (*name).to_owned(), data: (*data).into() });
    let engine = Engine::new(Chart::load_files(files.collect()).unwrap());
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let capabilities = Capabilities::default();
    let values = Map::default();
    let request =
        Request { values: &values, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false };
    let rendered = engine.render(&request).unwrap();
    let contents: Vec<_> = rendered.manifests.iter().map(|m| m.content.as_str()).collect();
    assert_eq!(
        contents,
        ["onefalse: 1 # c/charts/one/templates/t.yaml", "twofalse: 2 # c/charts/two/templates/t.yaml"]
    );
}
