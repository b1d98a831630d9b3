use super::*;
use crate::chart::Chart;

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";

/// Returns the namespaces of the lookups in a template of a chart with these partials.
fn namespaces(template: &str, helpers: &str) -> Vec<LookupNamespace> {
    let chart = Chart::from_files([
        ("Chart.yaml", CHART),
        ("values.yaml", "operator: {namespace: far, empty: ''}\n"),
        ("templates/a.yaml", template),
        ("templates/_helpers.tpl", helpers),
    ]);
    lookups(&chart.unwrap()).into_iter().map(|call| call.namespace).collect()
}

fn check(namespace: &str, helpers: &str, expected: LookupNamespace) {
    let template = format!("{{{{ $own := .Release.Namespace }}}}{{{{ lookup \"v1\" \"Secret\" {namespace} \"a\" }}}}");
    assert_eq!(namespaces(&template, helpers), [expected], "{namespace}");
}

fn far() -> LookupNamespace {
    LookupNamespace::Default { path: "operator.namespace".into(), namespace: "far".into() }
}

#[test]
fn a_namespace_is_followed_to_where_it_comes_from() {
    let helpers = "{{ define \"own\" }}{{ default .Release.Namespace .Values.namespaceOverride }}{{ end }}\
        {{ define \"outer\" }}{{ include \"own\" .context }}{{ end }}{{ define \"fixed\" }}far{{ end }}";
    for own in [
        ".Release.Namespace",
        "$.Release.Namespace",
        "$own",
        "(.Release.Namespace | quote)",
        "(.Values.operator.empty | default .Release.Namespace)",
        "(include \"own\" .)",
        "(include \"outer\" (dict \"context\" $))",
    ] {
        check(own, helpers, LookupNamespace::Own);
    }
    check("\"kube-system\"", helpers, LookupNamespace::Constant("kube-system".into()));
    check("\"\"", helpers, LookupNamespace::Constant(String::new()));
    check(".Values.operator.namespace", helpers, far());
    check("(default .Release.Namespace $.Values.operator.namespace)", helpers, far());
    for computed in [".Values.other", ".Values.operator.empty", "(index .Values \"a\")", "(include \"fixed\" .)"] {
        check(computed, helpers, LookupNamespace::Computed);
    }
}

#[test]
fn arguments_of_a_helper_count_as_its_includers_hand_them_over() {
    let helper = "{{ define \"get\" }}{{ lookup \"v1\" .kind .namespace .name }}{{ end }}";
    let with = |namespace: &str| {
        namespaces(&format!("{{{{ include \"get\" (dict \"namespace\" {namespace} \"name\" \"x\") }}}}"), helper)
    };
    assert_eq!(with(".Release.Namespace"), [LookupNamespace::Own]);
    assert_eq!(with(".Values.operator.namespace"), [far()]);
    assert_eq!(namespaces("{{ include \"get\" . }}", helper), [LookupNamespace::Computed]);
    let twice = "{{ include \"get\" (dict \"namespace\" \"a\") }}{{ template \"get\" (dict \"namespace\" .Release.Namespace) }}";
    assert_eq!(namespaces(twice, helper), [LookupNamespace::Constant("a".into())]);
}

#[test]
fn a_call_has_its_place_and_the_parents_values_decide_in_a_subchart() {
    let chart = Chart::from_files([
        ("Chart.yaml", CHART),
        ("values.yaml", "sub: {ns: of-parent}\n"),
        ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        ("charts/sub/values.yaml", "ns: of-sub\n"),
        ("charts/sub/templates/a.yaml", "a\n{{ if (lookup \"v1\" \"Secret\" .Values.ns \"\").items }}{{ end }}\n"),
        ("templates/broken.yaml", "{{ lookup "),
    ]);
    let namespace = LookupNamespace::Default { path: "ns".into(), namespace: "of-parent".into() };
    let expected = LookupCall {
        template: "web/charts/sub/templates/a.yaml".into(),
        line: 2,
        api_version: Some("v1".into()),
        kind: Some("Secret".into()),
        name: Some(String::new()),
        namespace,
    };
    assert_eq!(lookups(&chart.unwrap()), [expected]);
}

#[test]
fn templates_that_include_each_other_are_followed_to_a_limit() {
    let helpers: String = (0..40)
        .map(|i| {
            format!(
                "{{{{ define \"h{i}\" }}}}{}{{{{ end }}}}",
                format!("{{{{ include \"h{}\" . }}}}", (i + 1) % 40).repeat(4)
            )
        })
        .collect();
    check("(include \"h0\" .)", &helpers, LookupNamespace::Computed);
}

#[test]
fn a_grant_opens_what_the_calls_of_a_chart_need() {
    let grant = |template: &str| {
        let chart = Chart::from_files([
            ("Chart.yaml", CHART),
            ("values.yaml", "operator: {namespace: far}\n"),
            ("templates/a.yaml", template),
        ]);
        let calls = lookups(&chart.unwrap());
        let needed: Vec<String> = calls.iter().filter(|call| !call.is_open()).map(ToString::to_string).collect();
        (LookupGrant::of(&calls).to_string(), needed.join("; "))
    };
    let none = ("{namespaces: []}".to_owned(), String::new());
    for open in [
        "{{ lookup \"v1\" \"Secret\" .Release.Namespace .Values.x }}",
        "{{ lookup \"v1\" \"Secret\" \"kube-system\" \"a\" }}",
        "{{ lookup \"v1\" \"Namespace\" \"\" \"\" }}",
        "{{ lookup \"v1\" \"Node\" \"\" .Values.x }}",
    ] {
        assert_eq!(grant(open), none, "{open}");
    }
    let named = "web/templates/a.yaml:1 looks up Secret in namespace \"kube-system\"";
    let constant = "{{ lookup \"v1\" \"Secret\" \"kube-system\" .Values.x }}";
    assert_eq!(grant(constant), ("{namespaces: [kube-system]}".to_owned(), named.to_owned()));
    let by_value = "web/templates/a.yaml:1 looks up Secret in the namespace that the value operator.namespace names (\"far\" by default)";
    let value = "{{ lookup \"v1\" \"Secret\" .Values.operator.namespace \"a\" }}";
    assert_eq!(grant(value), ("{namespaces: [far]}".to_owned(), by_value.to_owned()));
    let computed = "web/templates/a.yaml:1 looks up an object in a namespace that its templates compute";
    assert_eq!(grant("{{ lookup .a .b .c .d }}"), ("{all: true}".to_owned(), computed.to_owned()));
    let all = LookupGrant { all: true, ..LookupGrant::default() };
    assert!(all.covers(&LookupGrant::of(&[])) && !LookupGrant::default().covers(&all));
}
