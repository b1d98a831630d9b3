use super::*;

fn spelled(template: &str) -> SpelledOut {
    let helpers = "{{- define \"ns\" -}}{{ default .Release.Namespace .Values.namespaceOverride }}{{- end }}";
    let chart = Chart::from_files([
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("values.yaml", "monitoring: {namespace: prometheus}\nempty: ''\nkind: DaemonSet\n"),
        ("templates/_helpers.tpl", helpers),
        ("templates/a.yaml", template),
    ]);
    spelled_out(&chart.unwrap())
}

fn words(set: &BTreeSet<String>) -> Vec<&str> {
    set.iter().map(String::as_str).collect()
}

#[test]
fn kinds_are_those_of_objects_and_not_of_references() {
    let check = |template: &str, expected: &[&str]| assert_eq!(words(&spelled(template).kinds), expected, "{template}");
    check("apiVersion: v1\nkind: Node\n", &["Node."]);
    check("kind: \"Node\" # why\n", &["Node"]);
    check(
        "apiVersion: rbac/v1\nkind: RoleBinding\nroleRef:\n  kind: ClusterRole\n  name: a\nsubjects:\n- kind: Group\n",
        &["RoleBinding.rbac"],
    );
    check("apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n", &["List.", "Node."]);
    check(
        "{{ define \"lib\" }}\n  apiVersion: {{ include \"v\" . }}\n  kind: ClusterRole\n{{ end }}",
        &["ClusterRole"],
    );
    check("kind: {{ if .Values.all }}Cluster{{ end }}Role\n", &["Cluster", "ClusterRole", "Role"]);
    check("kind: {{ ternary \"ClusterRole\" \"Role\" .Values.all }}\n", &["ClusterRole", "Role"]);
    check("{{- if .a }}kind: {{ .Values.kind }}{{ end }}\n", &["DaemonSet"]);
    check("{{ $o := dict \"kind\" \"Namespace\" }}{{ toYaml $o }}", &["Namespace"]);
    check("spec:\n  kind: ClusterRole\n", &[]);
    check("{{ range .Values.extra }}\n---\n{{ tpl (toYaml .) $ }}\n{{ end }}", &[]);
}

#[test]
fn a_kind_has_the_group_that_the_text_beside_it_determines() {
    let check = |template: &str, expected: &[&str]| assert_eq!(words(&spelled(template).kinds), expected, "{template}");
    check("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n", &["Role.rbac.authorization.k8s.io"]);
    check("kind: Role\napiVersion: \"rbac/v1\" # why\n", &["Role.rbac"]);
    check("{{- $x := 1 }}\n{{- /*\nwhy\n*/}}\napiVersion: a/v1\n# why\nkind: Role\n", &["Role.a"]);
    check("apiVersion: policy/{{ .Values.version }}\nkind: Role\n", &["Role.policy"]);
    check(
        "{{ if .a }}\napiVersion: a/v1\n{{ else }}\napiVersion: b/v1\n{{ end }}\nkind: Role\n",
        &["Role.a", "Role.b"],
    );
    check("apiVersion: a/v1\nkind: A\n---\napiVersion: b/v1\nkind: B\n", &["A.a", "B.b"]);
    check("apiVersion: v1\nkind: Pod\nspec:\n  of:\n    apiVersion: x/v1\n    kind: Role\n", &["Pod.", "Role.x"]);
    check(
        "{{ if .a }}apiVersion: a/v1{{ end }}\n{{ if .b }}apiVersion: b/v1{{ end }}\nkind: Role\n",
        &["Role.a", "Role.b"],
    );
    let definition = "{{ define \"a\" }}\n{{ if .a }}\napiVersion: a/v1\n{{ end }}\nkind: A\n{{ end }}\n";
    check(&format!("{definition}apiVersion: b/v1\nkind: B\n"), &["A.a", "B.b"]);
}

#[test]
fn a_kind_whose_group_the_text_leaves_open_has_any() {
    let check = |template: &str, expected: &[&str]| assert_eq!(words(&spelled(template).kinds), expected, "{template}");
    check("apiVersion: {{ include \"v\" . }}\nkind: Role\n", &["Role"]);
    check("apiVersion: {{ .Values.group }}/v1\nkind: Role\n", &["Role"]);
    check("apiVersion: v1{{ .Values.rest }}\nkind: Role\n", &["Role"]);
    check("{{ if .a }}\napiVersion: a/v1\n{{ else }}\napiVersion: {{ .v }}\n{{ end }}\nkind: Role\n", &["Role"]);
    check("kind: Role\nmetadata: {}\napiVersion: a/v1\n", &["Role"]);
    // What an expression prints may be the `apiVersion`, and that of the next object is not this one's.
    let next = "\nkind: Role\n{{ end }}\n{{ define \"b\" }}\napiVersion: b/v1\nkind: B\n";
    check(&format!("{{{{ include \"v\" . }}}}{next}"), &["B.b", "Role"]);
    check(&format!("{{{{ include \"v\" (dict\n\"a\" 1) }}}}{next}"), &["B.b", "Role"]);
    // Another definition, and another branch in the same line.
    check(
        "{{- define \"role.kind\" -}}\nkind: ClusterRole\n{{- end -}}\n\
         {{- define \"ingress.apiVersion\" -}}\napiVersion: networking.k8s.io/v1\n{{- end -}}",
        &["ClusterRole"],
    );
    for rest in ["apiVersion: b/v1{{ end }}", "{{ include \"v\" . }}{{ end }}", "apiVersion: {{ .v }} # why{{ end }}"] {
        check(&format!("{{{{ if .a }}}}apiVersion: a/v1{{{{ else }}}}{rest}\nkind: Role\n"), &["Role"]);
        check(&format!("kind: Role\n{{{{ if .a }}}}apiVersion: a/v1 # why{{{{ else }}}}{rest}\n"), &["Role"]);
    }
    check("apiVersion: a/v1\n{{ if .a }}kind: ClusterRole{{ else }}kind: Role{{ end }}\n", &["ClusterRole", "Role"]);
    check("  {{ if .a }}apiVersion: a/v1{{ end }}\n{{ if .b }}apiVersion: b/v1{{ end }}\nkind: Role\n", &["Role"]);
    check("{{/*\napiVersion: a/v1 */}}\nkind: Role\nmetadata: {}\napiVersion: b/v1\n", &["Role"]);
    check("items:\n- apiVersion: a/v1\n  kind: A\n- kind: B\n  metadata: {}\n  apiVersion: b/v1\n", &["A.a", "B"]);
    // Expressions may set the group of an object that was rendered.
    let role = "{{ define \"r\" }}\napiVersion: a/v1\nkind: Role\n{{ end }}{{ $r := include \"r\" . | fromYaml }}";
    check(&format!("{role}{{{{ $_ := set $r \"apiVersion\" \"b/v1\" }}}}{{{{ toYaml $r }}}}"), &["Role"]);
}

#[test]
fn a_kind_in_a_definition_has_no_group_of_the_lines_around_the_definition() {
    let check = |template: &str, expected: &[&str]| assert_eq!(words(&spelled(template).kinds), expected, "{template}");
    check("{{ define \"k\" }}kind: A{{ end }}{{ define \"v\" }}apiVersion: a/v1{{ end }}\n", &["A"]);
    let next = "apiVersion: v1\nkind: Node\n";
    check(&format!("{{{{ define \"k\" }}}}\nkind: A\n{{{{ end }}}}\n{next}"), &["A", "Node."]);
    let branches = "{{ if .a }}\nkind: A\n{{ else }}\nkind: B\n{{ end }}";
    check(&format!("{{{{ define \"k\" }}}}{branches}{{{{ end }}}}\n{next}"), &["A", "B", "Node."]);
    check(&format!("{{{{ block \"k\" . }}}}\nmetadata: {{}}\nkind: A\n{{{{ end }}}}\n{next}"), &["A", "Node."]);
}

#[test]
fn what_the_chart_sets_in_a_table_of_values_is_known_and_what_only_users_set_is_not() {
    let check = |sets: &str, expected: &[&str], computed: bool| {
        let object = "kind: A\nmetadata:\n  name: x\n  namespace: {{ $config.service.namespace }}\n";
        let range = "{{- $default := .Values.monitoring }}{{- range $name, $config := .Values }}\n";
        let found = spelled(&format!("{range}{sets}\n{object}{{{{- end }}}}\n"));
        assert_eq!((words(&found.namespaces), !found.computed.is_empty()), (expected.to_vec(), computed), "{sets}");
    };
    check("", &[], true);
    check("{{ $_ := set $config.service \"namespace\" $default.namespace }}", &["prometheus"], false);
    check("{{ $_ := set $config.service \"namespace\" \"far\" }}", &["far"], false);
    check("{{ $_ := set $config.service \"namespace\" $.Release.Namespace }}", &[], false);
    check("{{ $_ := set $config.service \"namespace\" $.Values.mine }}", &[], true);
    check("{{ $_ := set $config.service \"namespace\" (tpl $.Values.mine $) }}", &[], true);
    check("{{ $_ := set $config.service \"name\" \"far\" }}", &[], true);
    check("{{ $_ := set $config.service $name \"far\" }}", &[], true);
}

#[test]
fn namespaces_are_those_of_objects_their_defaults_included() {
    let check = |value: &str, expected: &[&str], computed: bool| {
        let found = spelled(&format!("kind: A\nmetadata:\n  name: x\n  namespace: {value}\n"));
        assert_eq!((words(&found.namespaces), !found.computed.is_empty()), (expected.to_vec(), computed), "{value}");
    };
    check("kube-system", &["kube-system"], false);
    check("\"kube-system\" # the system's", &["kube-system"], false);
    check("{{ .Release.Namespace }}", &[], false);
    check("{{ .Release.Namespace | quote }}", &[], false);
    check("{{ include \"ns\" . | quote }}", &[], false);
    check("{{ .Values.monitoring.namespace }}", &["prometheus"], false);
    check("{{ .Values.monitoring.namespace | default .Release.Namespace }}", &["prometheus"], false);
    check("{{ .Values.other | default .Release.Namespace }}", &[], false);
    check("{{ default \"far\" .Values.other }}", &["far"], false);
    check("{{ if .Values.x }}far{{ else }}{{ .Release.Namespace }}{{ end }}", &["far"], false);
    check("{{ .Values.empty }}", &[], true);
    check("{{ . }}", &[], true);
    check("{{ $ns }}", &[], true);
    check("{{ .Release.Name }}-system", &[], true);
    check("{{ .Release.Namespace", &[], true);
    check("", &[], false);
}

/// Evaluates a chart whose partials determine what a line of a template sets.
fn by_helpers(line: &str) -> SpelledOut {
    let helpers = "
{{- define \"scope\" -}}{{- if .Values.all -}}Cluster{{- end -}}{{- end -}}
{{- define \"kind\" -}}
  {{- if eq .Values.mode \"one\" -}}
    Role
  {{- else -}}
    {{ printf \"%sRole\" (include \"scope\" .) }}
  {{- end -}}
{{- end -}}
{{- define \"checked\" -}}{{- if .Values.bad -}}{{ fail \"bad\" }}{{- end -}}{{- end -}}
{{- define \"ns\" -}}
  {{- include \"checked\" . -}}
  {{- $Release := (.helm).Release | default .Release -}}
  {{- $Values := (.helm).Values | default .Values -}}
  {{- $Values.namespaceOverride | default $Release.Namespace -}}
{{- end -}}
{{- define \"handed\" -}}{{ .kind }}{{- end -}}
{{- define \"endless\" -}}{{ include \"endless\" . }}{{ include \"endless\" . }}{{- end -}}
{{- define \"named\" -}}{{ include .helper . }}{{- end -}}
";
    let chart = Chart::from_files([
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        (
            "values.yaml",
            "mode: daemonSet\nroutes: [{kind: Gateway}, {}]\nat: '{{ .Release.Namespace }}'\nwith: {ns: prometheus}\n",
        ),
        ("templates/_helpers.tpl", helpers),
        ("templates/a.yaml", line),
    ]);
    spelled_out(&chart.unwrap())
}

#[test]
fn kinds_that_the_charts_own_helpers_decide_are_known() {
    let check = |template: &str, expected: &[&str]| {
        let found = by_helpers(template);
        assert_eq!(
            (words(&found.kinds), found.computed.is_empty()),
            (expected.to_vec(), !expected.is_empty()),
            "{template}"
        );
    };
    check("kind: {{ include \"kind\" . }}", &["ClusterRole", "Role"]);
    check("kind: {{ template \"kind\" . }}", &["ClusterRole", "Role"]);
    check("kind: {{ include \"scope\" . | printf \"%sRoleBinding\" }}", &["ClusterRoleBinding", "RoleBinding"]);
    check("kind: {{ include \"scope\" . }}Role", &["ClusterRole", "Role"]);
    check("kind: {{ print (include \"scope\" .) \"Role\" }}", &["ClusterRole", "Role"]);
    check("kind: {{ include \"handed\" (dict \"kind\" \"Node\") }}", &["Node"]);
    check("kind: {{ include \"named\" (dict \"helper\" \"handed\" \"kind\" \"Node\") }}", &["Node"]);
    check("kind: {{ .Values.mode | title }}", &["DaemonSet"]);
    check("{{- $mode := .Values.mode }}\nkind: {{ title $mode }}", &["DaemonSet"]);
    check(
        "{{- range $kind := list \"Role\" \"ClusterRole\" }}\nkind: {{ $kind }}\n{{- end }}",
        &["ClusterRole", "Role"],
    );
    check("{{- range list \"Role\" \"ClusterRole\" }}\nkind: {{ . }}\n{{- end }}", &["ClusterRole", "Role"]);
    check(
        "{{- range .Values.routes }}\nkind: {{ .kind | default \"HTTPRoute\" }}\n{{- end }}",
        &["Gateway", "HTTPRoute"],
    );
    check("{{- $kinds := dict \"a\" \"Role\" }}\nkind: {{ get $kinds \"a\" }}", &["Role"]);
    check("kind: {{ required \"a kind\" (coalesce .Values.kind \"Node\") }}", &["Node"]);
    // Whatever only a user's values determine stays unknown.
    check("kind: {{ .Values.kind }}", &[]);
    check("kind: {{ tpl .Values.kind . }}", &[]);
    check("{{- range .Values.more }}\nkind: {{ .kind }}\n{{- end }}", &[]);
    check("kind: {{ include .Values.helper . }}", &[]);
    check("kind: {{ include \"endless\" . }}", &[]);
    check("kind: {{ printf \"%sRole\" .Values.scope }}", &[]);
    check("kind: {{ (lookup \"v1\" \"ConfigMap\" \"a\" \"b\").data.kind }}", &[]);
}

#[test]
fn namespaces_that_the_charts_own_helpers_decide_are_known() {
    let check = |value: &str, expected: &[&str], computed: bool| {
        let found = by_helpers(&format!("kind: A\nmetadata:\n  namespace: {value}\n"));
        assert_eq!((words(&found.namespaces), !found.computed.is_empty()), (expected.to_vec(), computed), "{value}");
    };
    check("{{ include \"ns\" . }}", &[], false);
    check("{{ include \"ns\" (dict \"helm\" .) }}", &[], false);
    let found = by_helpers(
        "{{- $ctx := dict \"helm\" . }}\n{{- range .Values.routes }}\n{{- $ns := include \"ns\" $ctx }}\nmetadata:\n  namespace: {{ $ns }}\n{{- end }}",
    );
    assert_eq!(found.computed, []);
    check("{{ .Values.at }}", &[], false);
    check("{{ tpl .Values.at . | quote }}", &[], false);
    check("{{ printf \"%s-system\" \"istio\" }}", &["istio-system"], false);
    check("{{ .Values.with.ns | trimSuffix \"-x\" | trunc 63 }}", &["prometheus"], false);
    check("{{ with .Values.with }}{{ .ns }}{{ end }}", &["prometheus"], false);
    check("{{ printf \"%s-system\" .Release.Namespace }}", &[], true);
    check("{{ .Release.Name }}", &[], true);
    check("{{ with .Values.none }}{{ .ns }}{{ end }}", &[], true);
}

#[test]
fn objects_in_files_that_templates_print_count() {
    let chart = |template: &str| {
        Chart::from_files([
            ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            (
                "conf/crd.yaml",
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  namespace: {{ .x }}\n",
            ),
            ("conf/notes.md", "kind: Node\n"),
            ("templates/a.yaml", template),
        ])
    };
    let found = |template: &str| spelled_out(&chart(template).unwrap());
    let kinds = found("{{ .Files.Get \"conf/crd.yaml\" }}").kinds;
    assert_eq!(words(&kinds), ["CustomResourceDefinition.apiextensions.k8s.io"]);
    assert_eq!(found("{{ .Files.Get \"conf/crd.yaml\" }}").computed, []);
    assert_eq!(words(&found("a: b\n").kinds), [""; 0]);
}

#[test]
fn a_property_named_kind_is_no_object() {
    assert_eq!(spelled("properties:\n  apiVersion:\n    type: string\n  kind:\n    type: string\n").computed, []);
}

#[test]
fn only_an_objects_own_namespace_counts() {
    let check = |template: &str, expected: &[&str]| {
        assert_eq!(words(&spelled(template).namespaces), expected, "{template}");
    };
    check("metadata: {name: a, namespace: far}\n", &["far"]);
    check("metadata: {name: a, namespace: {{ .Values.monitoring.namespace }}, labels: {}}\n", &["prometheus"]);
    check("metadata:\n  name: a\nsubjects:\n- kind: ServiceAccount\n  namespace: kube-system\n", &[]);
    check("metadata:\n  labels:\n    namespace: kube-system\n", &[]);
    check("data:\n  namespace: kube-system\n", &[]);
    check("{{ $ns := .Values.monitoring.namespace }}\nmetadata:\n  namespace: {{ $ns }}\n", &["prometheus"]);
    check("items:\n- metadata:\n    {{- if .x }}\n    namespace: near\n    {{- end }}\n    name: a\n", &["near"]);
}

#[test]
fn what_only_values_decide_is_placed() {
    let found = spelled("kind: {{ .Values.which }}\nmetadata:\n  namespace: {{ .Values.where }}\n");
    let places: Vec<String> = found.computed.iter().map(ToString::to_string).collect();
    let expected = [
        "web/templates/a.yaml:1 computes the kind of an object",
        "web/templates/a.yaml:3 computes the namespace of an object",
    ];
    assert_eq!(places, expected);
}

/// A scan that restarts at each action or line takes minutes for these texts.
#[test]
fn each_part_of_a_text_is_read_a_few_times_at_most() {
    let found = |text: &str| Lines::of(text).len();
    assert_eq!(found(&format!("x{}", "{{end".repeat(200_000))), 0);
    assert_eq!(found(&format!("{}{}", "x{{end}}".repeat(100_000), "x".repeat(500_000))), 0);
    assert_eq!(found(&format!("{}{}", "  apiVersion: v1\n".repeat(100_000), " kind: A\n".repeat(100_000))), 0);
}

#[test]
fn very_many_computed_kinds_take_a_bounded_time() {
    let lines = 20_000;
    assert_eq!(spelled(&"kind: {{ .Values.other }}\n".repeat(lines)).computed.len(), lines);
}

#[test]
fn a_kind_beside_very_many_groups_has_any() {
    for (groups, expected) in [(64, 64), (65, 0)] {
        let lines: String = (0..groups).map(|at| format!("apiVersion: g{at}.io/v1\n")).collect();
        let text = format!("{lines}kind: A\n");
        assert_eq!(Lines::of(&text)[0].groups.len(), expected, "{groups}");
    }
}

#[test]
fn any_text_is_read_to_its_end() {
    for text in [
        "kind: {{",
        "kind: }}{{ $",
        "metadata: {namespace",
        "metadata: {namespace: {{",
        "- - - kind: é{{ \"é }}",
        "namespace: \u{feff}",
        "{{ {{ }}kind:",
    ] {
        let _ = spelled(text);
    }
}
