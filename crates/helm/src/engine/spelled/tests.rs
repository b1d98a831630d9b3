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
    check("apiVersion: v1\nkind: Node\n", &["Node"]);
    check("kind: \"Node\" # why\n", &["Node"]);
    check(
        "apiVersion: rbac/v1\nkind: RoleBinding\nroleRef:\n  kind: ClusterRole\n  name: a\nsubjects:\n- kind: Group\n",
        &["RoleBinding"],
    );
    check("apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n", &["List", "Node"]);
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
    check("{{ default \"far\" .Values.other }}", &["far"], true);
    check("{{ if .Values.x }}far{{ else }}{{ .Release.Namespace }}{{ end }}", &["far"], false);
    check("{{ .Values.empty }}", &[], true);
    check("{{ . }}", &[], true);
    check("{{ $ns }}", &[], true);
    check("{{ .Release.Name }}-system", &[], true);
    check("{{ .Release.Namespace", &[], true);
    check("", &[], false);
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
