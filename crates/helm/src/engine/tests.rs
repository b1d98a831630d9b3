use std::sync::Arc;

use go_template::Map;

use super::*;

fn chart(files: &[(&str, &str)]) -> Arc<Chart> {
    let mut all = vec![("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.2.3\n")];
    all.extend_from_slice(files);
    Chart::from_files(all).unwrap()
}

fn render(files: &[(&str, &str)], values: &str) -> Result<Rendered, Error> {
    render_again(&Engine::new(chart(files)), &crate::values::read(values.as_bytes()).unwrap())
}

fn render_again(engine: &Engine, values: &Map) -> Result<Rendered, Error> {
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let capabilities = Capabilities::default();
    engine.render(&Request { values, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false })
}

fn contents(rendered: &Rendered) -> Vec<&str> {
    rendered.manifests.iter().map(|manifest| manifest.content.as_str()).collect()
}

/// Renders one template and compares its output.
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
fn templates_see_changes_that_earlier_templates_made_to_values() {
    let files = [
        ("templates/b.yaml", "{{- $_ := set .Values \"x\" 2 -}}b: {{ .Values.x }}"),
        ("templates/a.yaml", "a: {{ .Values.x }}"),
    ];
    let rendered = render(&files, "x: 1").unwrap();
    assert_eq!(contents(&rendered), ["a: 2", "b: 2"]);
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
fn fail_and_required_show_only_their_message() {
    assert_eq!(error(&[("templates/t", "{{ fail \"no: way\" }}")]), "execution error at (c/templates/t:1:3): no: way");
    assert_eq!(
        error(&[("templates/t", "\n{{ required \"give x\" .Values.x }}")]),
        "execution error at (c/templates/t:2:3): give x"
    );
}

#[test]
fn a_range_names_the_struct_behind_a_pointer_without_its_ampersand() {
    let text = error(&[("templates/t", "{{ range .Capabilities }}{{ end }}")]);
    assert!(text.contains("range can't iterate over {{v"), "{text}");
}

#[test]
fn syntax_errors_name_their_line() {
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
fn a_file_has_at_most_a_million_lines() {
    let print = |lines: usize| {
        let files = [("x", &*"\n".repeat(lines)), ("templates/t", "n: {{ len (.Files.Lines \"x\") }}")];
        render(&files, "").map(|rendered| rendered.manifests[0].content.clone()).map_err(|e| e.to_string())
    };
    assert_eq!(print(1_000_000).unwrap(), "n: 1000000");
    let error = print(1_000_001).unwrap_err();
    assert!(error.contains("limit MAX_LIST_ITEMS exceeded: Lines would make more than 1000000 items"), "{error}");
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
    let engine = Engine::new(Chart::from_files(files).unwrap());
    let rendered = render_again(&engine, &Map::default()).unwrap();
    assert_eq!(
        contents(&rendered),
        ["onefalse: 1 # c/charts/one/templates/t.yaml", "twofalse: 2 # c/charts/two/templates/t.yaml"]
    );
}

/// A chart with a subchart, each with defaults and globals.
const FAMILY: &[(&str, &str)] = &[
    ("values.yaml", "a: {b: {c: 1}, l: [{m: 1}]}\nsub: {t: {x: 1}}\nglobal: {g: {h: {d: 1}}}\n"),
    ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
    ("charts/sub/values.yaml", "own: {o: 1}\nt: {y: 2}\n"),
];

/// Compares what the templates of the subchart and of the root chart print, in a first and a second render by one engine.
fn check_family(sub: &str, root: &str, wanted: [&str; 2]) {
    let mut files = FAMILY.to_vec();
    files.extend([("charts/sub/templates/t", sub), ("templates/t", root)]);
    let engine = Engine::new(chart(&files));
    for values in ["", "", "a: {b: {d: 1}}", ""] {
        let user = crate::values::read(values.as_bytes()).unwrap();
        let before = format!("{user:?}");
        let rendered = render_again(&engine, &user).unwrap();
        let mut got: Vec<_> = rendered.manifests.iter().map(|m| (m.path.as_str(), m.content.as_str())).collect();
        got.sort_unstable();
        let got: Vec<_> = got.into_iter().map(|(_, content)| content).collect();
        assert_eq!(got, wanted, "{sub} | {root} | {values}");
        assert_eq!(format!("{user:?}"), before);
    }
}

#[test]
fn what_templates_change_is_seen_in_that_render_and_never_in_the_next() {
    let cases = [
        // Nested values, lists, and maps that were passed around before they are changed.
        ("k: 1", "k: {{ $_ := set .Values.a.b \"c\" (add .Values.a.b.c 1) }}{{ .Values.a.b.c }}", ["k: 1", "k: 2"]),
        ("k: 1", "k: {{ $b := .Values.a.b }}{{ $_ := set .Values.a.b \"n\" 3 }}{{ $b.n }}", ["k: 1", "k: 3"]),
        (
            "k: 1",
            "k: {{ range .Values.a.l }}{{ $_ := set . \"m\" (add .m 1) }}{{ end }}{{ (first .Values.a.l).m }}",
            ["k: 1", "k: 2"],
        ),
        (
            "k: 1",
            "k: {{ range $k, $v := .Values.a.b }}{{ $_ := set $.Values.a.b \"z\" 1 }}{{ end }}{{ .Values.a.b.z }}",
            ["k: 1", "k: 1"],
        ),
        ("k: 1", "k: {{ $_ := unset .Values.a \"b\" }}{{ hasKey .Values.a \"b\" }}", ["k: 1", "k: false"]),
        (
            "k: 1",
            "k: {{ $_ := mergeOverwrite .Values (dict \"a\" (dict \"x\" 1)) }}{{ .Values.a.x }}{{ .Values.a.l | len }}",
            ["k: 1", "k: 11"],
        ),
        // The subchart's values are the parent's table with its name; its templates are executed first.
        (
            "k: {{ $_ := set .Values.t \"z\" 5 }}{{ .Values.own.o }}",
            "k: {{ .Values.sub.t.z }}{{ .Values.sub.own.o }}",
            ["k: 1", "k: 51"],
        ),
        (
            "k: {{ $_ := set .Values.global.g.h \"i\" 7 }}{{ .Values.global.g.h.i }}",
            "k: {{ .Values.global.g.h.i }}",
            ["k: 7", "k: 7"],
        ),
        // A subchart gets a copy of each global table, but only of its first level.
        (
            "k: {{ $_ := set .Values.global.g \"i\" 7 }}{{ .Values.global.g.i }}",
            "k: {{ .Values.global.g.i }}",
            ["k: 7", "k: "],
        ),
        // The other top-level objects.
        ("k: 1", "k: {{ $_ := set .Chart \"Name\" (print .Chart.Name \"x\") }}{{ .Chart.Name }}", ["k: 1", "k: cx"]),
        ("k: {{ $_ := set .Release \"X\" (len .Release) }}{{ .Release.X }}", "k: {{ .Release.X }}", ["k: 6", "k: 6"]),
        (
            "k: {{ .Template.X }}",
            "k: {{ $_ := set .Template \"X\" (len .Template) }}{{ .Template.X }}",
            ["k: ", "k: 2"],
        ),
        (
            "k: 1",
            "k: {{ $_ := set .Subcharts.sub.Chart \"Name\" (print .Subcharts.sub.Chart.Name \"w\") }}{{ .Subcharts.sub.Chart.Name }}",
            ["k: 1", "k: subw"],
        ),
    ];
    for (sub, root, wanted) in cases {
        check_family(sub, root, wanted);
    }
}

#[test]
fn what_holds_itself_is_freed_after_the_render() {
    for template in [
        "{{ $_ := set $x \"own\" $x }}",
        "{{ $_ := set $x \"list\" (list 1 (list $x)) }}",
        "{{ $y := dict \"x\" $x }}{{ $_ := set $x \"y\" $y }}",
        "{{ $_ := set .Values.m \"x\" $x }}{{ $_ := set $x \"values\" .Values }}",
        "{{ $_ := set . \"top\" . }}{{ $_ := set .Values \"x\" $x }}",
        "{{ $_ := merge $x (dict \"own\" $x) }}",
        "{{ $_ := mergeOverwrite $x (dict \"own\" (dict \"x\" $x)) }}",
        "{{ $_ := set $x \"own\" $x }}{{ $_ := unset $x \"f\" }}{{ $_ := set $x \"f\" .Values.f }}",
        "{{ $_ := set $x \"own\" $x }}{{ fail \"half way\" }}",
        "{{ $_ := set $x \"own\" $x }}{{ tpl \"{{ include `none` . }}\" . }}",
    ] {
        let held = Arc::new(go_template::Function::new(Vec::new(), None, |_, _| Ok(Value::Nil)));
        let inner: Map = [("f", Value::Func(Arc::clone(&held)))].into_iter().collect();
        let values: Map = [("f", Value::Func(Arc::clone(&held))), ("m", Value::Map(inner))].into_iter().collect();
        let chart = chart(&[("templates/t", &format!("{{{{ $x := dict \"f\" .Values.f }}}}{template}"))]);
        let engine = Engine::new(Arc::clone(&chart));
        let view = crate::view::resolve(&chart, &Map::default(), &mut Vec::new()).unwrap();
        let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
        let _ = engine.execute(&view, &values, &release, &Capabilities::default(), None);
        drop(values);
        assert_eq!(Arc::strong_count(&held), 1, "{template}");
    }
}

#[test]
fn an_engine_keeps_to_the_limits_that_it_is_given() {
    let engine = Engine::new(chart(&[("templates/t", "{{ range 1000 }}{{ end }}")]));
    let few = engine.with_limits(Limits { steps: 100, ..Limits::default() });
    let view = crate::view::resolve(few.chart(), &Map::default(), &mut Vec::new()).unwrap();
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let error = few.execute(&view, &Map::default(), &release, &Capabilities::default(), None).unwrap_err();
    assert!(error.to_string().contains("limit steps exceeded"), "{error}");
}

#[test]
fn a_template_that_asks_for_a_kind_of_a_silent_server_learns_nothing() {
    let silent = Arc::new(vec!["x.y/v1".into()]);
    let capabilities = Capabilities::new(Capabilities::default().kube_version, ["v1/Pod", "x.y/v1", "x.y/v1/Known"]);
    let capabilities = Capabilities { silent, ..capabilities };
    let render = |name: &str, template: &str| {
        let engine = Engine::new(chart(&[(name, template)]));
        let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
        let values = &Map::default();
        let request =
            Request { values, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false };
        match engine.render(&request) {
            Ok(rendered) => Ok(rendered.manifests[0].content.clone()),
            Err(Error::Template(error)) => Err((error.is_unanswered(), error.to_string())),
            Err(error) => panic!("{error}"),
        }
    };
    let has = |entry: &str| render("templates/t", &format!("k: {{{{ .Capabilities.APIVersions.Has {entry:?} }}}}"));
    for (entry, expected) in
        [("v1/Pod", "true"), ("x.y/v1", "true"), ("x.y/v1/Known", "true"), ("x.y/v10/Route", "false"), ("", "false")]
    {
        assert_eq!(has(entry), Ok(format!("k: {expected}")), "{entry}");
    }
    let why = "cannot find out whether \"x.y/v1/Route\" is served: the API server behind APIService \"v1.x.y\" does not answer";
    let included =
        "{{ define \"a\" }}{{ .Capabilities.APIVersions.Has \"x.y/v1/Route\" }}{{ end }}k: {{ include \"a\" . }}";
    for failed in [
        has("x.y/v1/Route"),
        render("templates/t", included),
        render("templates/t.yaml.hbs", "{{#if (invoke Capabilities.APIVersions \"Has\" \"x.y/v1/Route\")}}k: 1{{/if}}"),
    ] {
        let (is_unanswered, message) = failed.unwrap_err();
        assert!(is_unanswered && message.contains(why), "{message}");
    }
    let (is_unanswered, message) = render("templates/t", "{{ fail \"no\" }}").unwrap_err();
    assert!(!is_unanswered, "{message}");
}
