//! Tests with charts in memory, and with the public charts beside the repository.

use super::*;

fn chart(files: &[(&str, &str)]) -> Arc<Chart> {
    let about = ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    Chart::from_files([about].iter().chain(files).map(|(path, text)| (*path, *text))).unwrap()
}

fn values(text: &str) -> Map {
    crate::values::read(text.as_bytes()).unwrap()
}

/// Returns the given keys that a chart with one template does not read.
fn unread(template: &str, given: &str) -> Vec<String> {
    of(&[("templates/a.yaml", template)], given)
}

fn of(files: &[(&str, &str)], given: &str) -> Vec<String> {
    Reads::of(&chart(files)).unread(&values(given)).iter().map(Unread::to_string).collect()
}

#[test]
fn keys_that_no_template_names_are_found_with_the_key_that_was_meant() {
    let files = [
        ("values.yaml", "replicaCount: 1\nimage: {tag: a, repository: b}\nservice: {port: 80}\n"),
        (
            "templates/a.yaml",
            "{{ .Values.replicaCount }} {{ .Values.image.tag }} {{ .Values.image.repository }} {{ .Values.service.port }}",
        ),
    ];
    assert_eq!(of(&files, "replicaCount: 2\nimage: {tag: x}\n"), Vec::<String>::new());
    assert_eq!(
        of(&files, "replicaCout: 5\nimage: {tga: b}\nport: 8080\nunheard: {of: 1}\n"),
        [
            "image.tga; did you mean \"image.tag\"?",
            "port; did you mean \"service.port\"?",
            "replicaCout; did you mean \"replicaCount\"?",
            "unheard",
        ]
    );
}

#[test]
fn values_that_are_used_as_a_whole_are_read() {
    for template in [
        "{{ toYaml .Values }}",
        "{{ .Values }}",
        "{{ .Values.YAML }}",
        "{{ include \"a\" . }}{{ define \"a\" }}{{ toJson .Values }}{{ end }}",
        "{{ toYaml . }}",
        "{{ range $k, $v := .Values }}{{ $v }}{{ end }}",
        "{{ index .Values (printf \"%s\" .Release.Name) }}",
        "{{ $x := dict \"a\" . }}{{ $x | toYaml }}",
        "{{ with merge (dict) .Values }}{{ toYaml . }}{{ end }}",
        "{{ $all := list .Values | first }}{{ $all | quote }}",
    ] {
        assert_eq!(unread(template, "x: 1\nw: {z: 1}\n"), Vec::<String>::new(), "{template}");
    }
}

#[test]
fn only_what_lies_below_a_value_that_is_used_as_a_whole_is_read() {
    for (template, expected) in [
        ("{{ toYaml .Values.a }}", "b"),
        ("{{ with .Values.a }}{{ . | quote }}{{ end }}", "b"),
        ("{{ .Values.a.x }}{{ toYaml .Values.a.w }}", "a.z b"),
        ("{{ range .Values.a }}{{ .name }}{{ end }}", "a.w.other a.x.other a.z.other b"),
        ("{{ range $k, $v := .Values.a }}{{ $v }}{{ end }}", "b"),
        (
            "{{ get .Values.a \"x\" }}{{ (index .Values \"a\" \"w\").q }}{{ dig \"z\" \"name\" 0 .Values.a }}",
            "a.w.name a.w.other a.z.other b",
        ),
        ("{{ hasKey .Values.a \"x\" }}", "a.w a.x.name a.x.other a.z b"),
        ("{{ if .Values.a }}{{ end }}", "b"),
        ("{{ $a := .Values.a }}{{ $a = .Values.b }}{{ $a.x }}", "a.w a.z b.name b.other"),
    ] {
        let given =
            "a: {x: {name: 1, other: 2}, w: {name: 1, other: 2}, z: {name: 1, other: 2}}\nb: {name: 1, other: 2}\n";
        let found = unread(template, given).join(" ");
        assert_eq!(found, expected, "{template}");
    }
}

#[test]
fn dicts_and_variables_carry_values_to_other_templates() {
    let helpers = "
{{ define \"image\" }}{{ .root.registry }}/{{ .image.name }}:{{ .image.tag | default .fallback }}{{ end }}
{{ define \"outer\" }}{{ $ctx := dict \"image\" .Values.image \"root\" .Values.global \"fallback\" .Chart.AppVersion }}{{ include \"image\" $ctx }}{{ end }}
";
    let files = [("templates/_h.tpl", helpers), ("templates/a.yaml", "{{ include \"outer\" $ }}")];
    let given = "image: {name: a, tag: b, pull: c}\nglobal: {registry: a, proxy: b}\n";
    assert_eq!(of(&files, given), ["global.proxy", "image.pull"]);
}

#[test]
fn what_templates_set_or_merge_is_read_where_it_arrives() {
    for (template, expected) in [
        ("{{ $_ := set .Values \"x\" .Values.a }}{{ .Values.x.name }}", "a.other b"),
        ("{{ $d := dict }}{{ $_ := set $d \"inner\" .Values.a }}{{ $d.inner.name }}", "a.other b"),
        ("{{ $d := dict }}{{ $e := dict \"d\" $d }}{{ $_ := merge $d .Values.a }}{{ $e.d.name }}", "a.other b"),
        ("{{ $d := mustMergeOverwrite (dict) (deepCopy .Values.a) .Values.b }}{{ $d.name }}", "a.other b.other"),
        ("{{ $l := list }}{{ $l = append $l .Values.a }}{{ range $l }}{{ .name }}{{ end }}", "a.other b"),
        ("{{ range concat (list .Values.a) (list .Values.b) }}{{ .name }}{{ end }}", "a.other b.other"),
        ("{{ range pluck \"name\" .Values.a .Values.b }}{{ . }}{{ end }}", "a.other b.other"),
    ] {
        let found = unread(template, "a: {name: 1, other: 2}\nb: {name: 1, other: 2}\n").join(" ");
        assert_eq!(found, expected, "{template}");
    }
}

#[test]
fn computed_names_of_templates_and_keys_count_as_far_as_they_are_unknown() {
    let helpers = "{{ define \"a.one\" }}{{ .one }}{{ end }}{{ define \"a.two\" }}{{ .two }}{{ end }}";
    for (template, expected) in [
        ("{{ include \"a.one\" .Values }}", "three two"),
        ("{{ include (printf \"%s.two\" .Chart.Name) .Values }}", "one three"),
        ("{{ include (print .Template.BasePath \".two\") .Values }}", "one three"),
        ("{{ include .Chart.Name .Values }}", "three"),
        ("{{ $n := \"a.one\" }}{{ template \"a.two\" .Values }}{{ include $n .Values }}", "three"),
        ("{{ range list \"one\" \"two\" }}{{ index $.Values . }}{{ end }}", "three"),
    ] {
        let files = [("templates/_h.tpl", helpers), ("templates/a.yaml", template)];
        assert_eq!(of(&files, "one: 1\ntwo: 2\nthree: 3\n").join(" "), expected, "{template}");
    }
}

#[test]
fn texts_that_tpl_runs_read_values_too() {
    let files = [
        ("values.yaml", "text: \"{{ .Values.fromDefault }}\"\n"),
        ("templates/a.yaml", "{{ tpl .Values.text $ }}{{ tpl \"{{ .constant }}\" .Values }}"),
    ];
    assert_eq!(of(&files, "fromDefault: 1\nconstant: 1\nother: 1\n"), ["other"]);
    let given = "text: '{{ .Values.other }}'\nother: 1\nmore: 1\n";
    assert_eq!(of(&files, given), ["more"]);
    assert_eq!(of(&files, "text: '{{ broken'\nother: 1\n"), Vec::<String>::new());
    let file =
        [("files/a.txt", "{{ .Values.inFile }}"), ("templates/a.yaml", "{{ tpl (.Files.Get \"files/a.txt\") . }}")];
    assert_eq!(of(&file, "inFile: 1\nother: 1\n"), ["other"]);
}

#[test]
fn subcharts_read_their_own_table_and_globals() {
    let files = [
        (
            "Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: db, version: 1.0.0, alias: store, condition: useStore, tags: [back]}]\n",
        ),
        ("templates/a.yaml", "{{ .Values.own }}{{ .Values.store.shared }}"),
        ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n"),
        ("charts/db/values.yaml", "size: 1\n"),
        ("charts/db/templates/a.yaml", "{{ .Values.size }}{{ .Values.global.zone }}"),
    ];
    let given = "own: 1\nuseStore: true\ntags: {back: true}\nstore: {size: 2, shared: 1, sise: 3, global: {zone: a}}\ndb: {size: 1}\nglobal: {zone: b, zome: c}\n";
    let found = of(&files, given);
    assert_eq!(found, ["db", "global.zome; did you mean \"global.zone\"?", "store.sise; did you mean \"store.size\"?"]);
}

#[test]
fn keys_that_the_chart_documents_are_marked() {
    let schema =
        r##"{"properties": {"inSchema": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"properties": {"deep": {}}}}}"##;
    let files = [
        ("values.yaml", "dead: 1\nlist: [{dead: 1}]\n"),
        ("values.schema.json", schema),
        (
            "templates/a.yaml",
            "{{ range .Values.list }}{{ .name }}{{ end }}{{ with .Values.inSchema }}{{ .x }}{{ end }}",
        ),
    ];
    let found = Reads::of(&chart(&files)).unread(&values("dead: 2\nlist: [{dead: 1, daed: 1}]\ninSchema: {deep: 1}\n"));
    let found: Vec<(String, bool)> = found.iter().map(|one| (one.to_string(), one.is_documented)).collect();
    let daed = "list.0.daed; did you mean \"list.0.dead\"?";
    assert_eq!(found, [("dead".into(), true), (daed.into(), false), ("list.0.dead".into(), true)]);
}

#[test]
fn nothing_is_named_if_a_chart_cannot_be_followed() {
    assert_eq!(of(&[("templates/a.hbs", "{{ Values.a }}")], "b: 1\n"), Vec::<String>::new());
    assert_eq!(of(&[("templates/a.yaml", "{{ if }}")], "b: 1\n"), Vec::<String>::new());
    let recursive =
        "{{ define \"a\" }}{{ include \"a\" .x }}{{ include \"a\" .w }}{{ end }}{{ include \"a\" .Values }}";
    assert_eq!(unread(recursive, "x: {w: {x: 1}}\n"), Vec::<String>::new());
}

#[test]
fn the_top_level_is_known_unless_any_key_may_be_read() {
    let top_level = |template: &str| {
        let files = [("values.yaml", "a: 1\n"), ("templates/a.yaml", template)];
        Reads::of(&chart(&files)).top_level().map(|keys| keys.into_iter().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(top_level("{{ .Values.b }}").as_deref(), Some("a b global"));
    assert_eq!(top_level("{{ tpl .Values.a .Values.b }}").as_deref(), Some("a b global"));
    for open in [
        "{{ toYaml .Values }}",
        "{{ tpl .Values.a $ }}",
        "{{ tpl .Values.a (dict \"x\" .) }}",
        "{{ index .Values .Release.Name }}",
    ] {
        assert_eq!(top_level(open), None, "{open}");
    }
}
