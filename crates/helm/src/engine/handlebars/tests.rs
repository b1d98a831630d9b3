//! Handlebars templates in charts: functions, values, partials, errors and limits.

use std::time::Duration;

use super::bound::{MAX_NESTING, MAX_OPENERS, MAX_PARTIALS};
use crate::chart::Chart;
use crate::engine::{Capabilities, Engine, Error, ReleaseOptions, Rendered, Request};
use golibs::processor_time::processor_time;

const VALUES: &str = r#"
name: web
empty: ""
replicas: 3
big: 1000000
ratio: 0.5
enabled: true
ports: [80, 443]
labels: {tier: front, app: "yes"}
items:
- {name: a, size: 1}
- {name: b, size: 2}
text: "{{ .Release.Name }}-{{ .Values.name }}"
"#;

const HELPERS: &str = r#"{{- define "c.name" -}}{{ .Release.Name }}-{{ .Values.name }}{{- end }}
{{- define "c.kind" -}}{{ kindOf . }}{{- end }}"#;

fn render(files: &[(&str, &str)]) -> Result<Rendered, Error> {
    let mut all = vec![
        ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.2.3\n"),
        ("templates/_helpers.tpl", HELPERS),
        ("conf/a.ini", "x=1\n"),
    ];
    all.extend_from_slice(files);
    let values = crate::values::read(VALUES.as_bytes()).unwrap();
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let capabilities = Capabilities::default();
    let request =
        Request { values: &values, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false };
    Engine::new(Chart::from_files(all).unwrap()).render(&request)
}

fn printed(files: &[(&str, &str)]) -> Result<String, String> {
    let rendered = render(files).map_err(|error| error.to_string())?;
    let text = rendered.manifests.iter().find(|m| m.path == "c/templates/t.yaml.hbs").map(|m| m.content.clone());
    Ok(text.unwrap_or_default())
}

/// Compares the template's output below a key, which makes it a manifest.
fn check(template: &str, wanted: &str) {
    let text = printed(&[("templates/t.yaml.hbs", &format!("k: |\n  {template}\n"))]);
    assert_eq!(text.as_deref().map(|t| t.trim_start_matches("k: |\n  ").trim_end()), Ok(wanted), "{template}");
}

fn fails(template: &str, wanted: &str) {
    let error = printed(&[("templates/t.yaml.hbs", template)]).unwrap_err();
    assert!(error.contains(wanted), "{template}: {error}");
}

#[test]
fn data_is_printed_without_escapes() {
    check(
        "{{Values.name}} {{Values.replicas}} {{Values.big}} {{Values.ratio}} {{Values.enabled}}",
        "web 3 1000000 0.5 true",
    );
    check("[{{Values.missing}}] [{{Values.missing.deeper}}] [{{missing}}]", "[] [] []");
    check(
        "{{Release.Name}} {{Release.Namespace}} {{Chart.Name}} {{Chart.Version}} {{Template.Name}}",
        "rel ns c 1.2.3 c/templates/t.yaml.hbs",
    );
    check(r#"{{quote "<&>"}} {{{Values.name}}} {{Values.labels.tier}} {{Values.ports.[1]}}"#, r#""<&>" web front 443"#);
}

#[test]
fn functions_are_helpers_and_nest() {
    check("{{upper Values.name}} {{quote Values.name}}", r#"WEB "web""#);
    check(r#"{{quote (default "a" Values.empty)}} {{default "a" Values.name}}"#, r#""a" web"#);
    check(r#"{{trunc 2 (upper (printf "%s-%d" Values.name Values.replicas))}}"#, "WE");
    check("{{add Values.replicas 1}} {{mul 2 (add 1 2)}} {{divf 1 4}} {{quote Values.big}}", r#"4 6 0.25 "1000000""#);
    check(r#"{{join "," (list 1 "b" (list 2 3))}} {{len Values.ports}} {{first Values.ports}}"#, "1,b,[2 3] 2 80");
    check(
        "{{repeat Values.replicas \"ab\"}} {{until Values.replicas}} {{indent Values.replicas \"x\"}}",
        "ababab [0 1 2]    x",
    );
    check(r#"{{nindent 4 (toYaml Values.labels)}}"#, "\n    app: \"yes\"\n    tier: front".trim_start_matches(' '));
    check(r#"{{toJson (dict "a" Values.ports "b" (dict "c" 1.5))}}"#, r#"{"a":[80,443],"b":{"c":1.5}}"#);
    check(r#"{{get (fromYaml "a: {b: 7}") "a"}} {{date "2006" (toDate "2006-01-02" "2020-05-06")}}"#, "map[b:7] 2020");
    check(
        r#"{{regexReplaceAll "a(.)" "abac" "<$1>"}} {{b64enc "x"}} {{semverCompare ">=1.2.0" Chart.Version}}"#,
        "<b><c> eA== true",
    );
}

#[test]
fn helms_functions_shadow_handlebars_helpers() {
    check(
        "{{#if (eq Values.replicas 3)}}three{{else}}other{{/if}} {{and Values.enabled Values.name}} {{or Values.empty \"x\"}}",
        "three web x",
    );
    check(
        "{{#if (not Values.empty)}}yes{{/if}} {{#if (and (gt Values.replicas 2) (ne Values.name \"x\"))}}both{{/if}}",
        "yes both",
    );
    check(r#"{{lookup "v1" "Secret" "ns" "a"}}"#, "map[]");
}

#[test]
fn block_helpers_are_those_of_handlebars() {
    check(
        "{{#each Values.items}}{{@index}}{{name}}{{quote size}}{{#unless @last}},{{/unless}}{{/each}}",
        r#"0a"1",1b"2""#,
    );
    check("{{#each Values.labels as |v k|}}{{k}}={{upper v}};{{/each}}", "app=YES;tier=FRONT;");
    check("{{#with Values.labels}}{{tier}} {{@root.Release.Name}} {{../Release.Name}}{{/with}}", "front rel rel");
    check("{{#each (list 1 2)}}{{add this 1}} {{/each}}{{#each (splitList \",\" \"a,b\")}}{{this}}{{/each}}", "2 3 ab");
    check("{{#each Values.missing}}x{{else}}none{{/each}}", "none");
}

#[test]
fn data_shadows_functions_without_arguments() {
    check("{{#each Values.items}}{{#with this}}[{{title}}]{{/with}}{{/each}} {{list}}", "[][] []");
    check(r#"{{#with (dict "now" "then")}}{{now}}{{/with}}"#, "then");
}

#[test]
fn include_and_tpl_run_go_templates() {
    check(
        r#"{{include "c.name" this}} {{include "c.name" @root}} {{tpl Values.text this}}"#,
        "rel-web rel-web rel-web",
    );
    check(
        r#"{{#each Values.items}}{{include "c.name" @root}}{{include "c.kind" this}}{{/each}}"#,
        "rel-webmaprel-webmap",
    );
    check(r#"{{upper (include "c.name" this)}}"#, "REL-WEB");
}

#[test]
fn methods_are_called_through_invoke() {
    check(r#"{{invoke Files "Get" "conf/a.ini"}}"#, "x=1");
    check(
        r#"{{#if (invoke Capabilities.APIVersions "Has" "apps/v1")}}has{{/if}} {{Capabilities.KubeVersion.Major}}"#,
        "has 1",
    );
    fails(r#"{{invoke Files "Nope" "x"}}"#, "Nope");
    fails(r#"{{invoke Files "a b"}}"#, "invoke needs a value and a method name");
}

#[test]
fn values_that_json_cannot_represent_pass_between_calls() {
    check(
        r#"{{kindOf (float64 3)}} {{kindOf (int 3)}} {{kindOf (int64 3)}} {{kindOf (list)}}"#,
        "float64 int int slice",
    );
    check(r#"{{#with (genCA "x" 1)}}{{#if Cert}}{{substr 0 10 Cert}}{{/if}}{{/with}}"#, "-----BEGIN");
}

#[test]
fn partials_are_found_by_path_and_by_short_name() {
    let partial = ("templates/_labels.hbs", "name: {{Release.Name}}\ntier: {{Values.labels.tier}}{{extra}}\n");
    let text = |template: &str| printed(&[partial, ("templates/t.yaml.hbs", template)]);
    let expected = "a:\n  name: rel\n  tier: front\n";
    assert_eq!(text("a:\n  {{> _labels}}\n").as_deref(), Ok(expected));
    assert_eq!(text("a:\n  {{> c/templates/_labels.hbs}}\n").as_deref(), Ok(expected));
    assert_eq!(text("a:\n  {{> _labels extra=\"!\"}}\n").as_deref(), Ok("a:\n  name: rel\n  tier: front!\n"));
    let including = ("templates/_n.hbs", "{{include \"c.name\" this}}|{{invoke Files \"Get\" \"conf/a.ini\"}}");
    let text = printed(&[including, ("templates/t.yaml.hbs", "n: {{> _n x=1}}")]);
    assert_eq!(text.as_deref(), Ok("n: rel-web|x=1\n"));
}

#[test]
fn templates_see_changes_that_earlier_templates_made_to_values() {
    let files = [
        ("templates/z.yaml.hbs", "z: {{set Values \"name\" \"new\" | len}}"),
        ("templates/a.yaml", "a: {{ .Values.name }}"),
    ];
    let broken = render(&files).unwrap_err().to_string();
    assert!(broken.contains("templates/z.yaml.hbs"), "pipes are no Handlebars: {broken}");
    let files = [
        ("templates/z.yaml.hbs", "{{#if (set Values \"name\" \"new\")}}z: 1{{/if}}"),
        ("templates/a.yaml", "a: {{ .Values.name }}"),
    ];
    let rendered = render(&files).unwrap();
    assert!(rendered.manifests.iter().any(|m| m.content.trim() == "a: new"));
}

#[test]
fn errors_have_template_line_and_column() {
    let place = |template: &str| {
        let error = match render(&[("templates/t.yaml.hbs", template)]) {
            Err(Error::Template(error)) => error,
            other => unreachable!("{other:?}"),
        };
        (error.template().to_owned(), error.line(), error.places()[0].column, error.to_string())
    };
    let (template, line, column, text) = place("a: 1\nb: {{fail \"no: way\"}}\n");
    assert_eq!((template.as_str(), line, column), ("c/templates/t.yaml.hbs", 2, Some(3)));
    assert_eq!(text, "execution error at (c/templates/t.yaml.hbs:2:3): no: way");
    let (.., text) = place("a: {{upper 1 2}}\n");
    assert_eq!(
        text,
        "c/templates/t.yaml.hbs:1:3\n  executing \"c/templates/t.yaml.hbs\":\n    wrong number of args for upper: want 1 got 2"
    );
    let (_, line, _, text) = place("a: 1\n{{#if x}}\n");
    assert!(text.starts_with("parse error at (c/templates/t.yaml.hbs:") && line > 0, "{text}");
    fails("{{nope 1}}", "function \"nope\" not defined");
    fails("{{if2-x 1}}", "not defined");
    fails("{{upper a=1}}", "takes no named argument");
    fails("{{include \"none\" this}}", "no template \"none\"");
    fails("{{> none}}", "Partial not found none");
    fails("{{required \"give x\" Values.missing}}", "give x");
}

#[test]
fn limits_stop_templates_that_would_not_terminate() {
    let start = processor_time();
    let recursive =
        [("templates/_a.hbs", "{{> _b}}"), ("templates/_b.hbs", "{{#each @root.Values.ports}}{{> _a}}{{/each}}")];
    let mut files = recursive.to_vec();
    files.push(("templates/t.yaml.hbs", "{{> _a}}"));
    let error = printed(&files).unwrap_err();
    assert!(error.contains(&format!("limit partials exceeded: {MAX_PARTIALS} ")), "{error}");
    fails("{{#*inline \"x\"}}{{> y}}{{/inline}}{{#*inline \"y\"}}{{> x}}{{/inline}}{{> x}}", "limit partials exceeded");
    fails("{{> c/templates/t.yaml.hbs}}", "Can not include current template");
    let nested = |open: &str, close: &str| open.repeat(MAX_NESTING + 1) + &close.repeat(MAX_NESTING + 1);
    fails(&nested("{{#if 1}}", "{{/if}}"), "limit nesting exceeded");
    fails(&format!("{{{{upper {}}}}}", nested("(upper 1 ", ")")), "limit nesting exceeded");
    fails(&"{{#if 1}}".repeat(MAX_OPENERS + 1), "limit openers exceeded");
    fails(&("{{a ".to_owned() + &"(a ".repeat(MAX_OPENERS)), "parse error");
    let all = 2 * MAX_OPENERS - 2;
    fails(&("{{a ".to_owned() + &"(a ".repeat(all)), "parse error");
    fails(&("{{a ".to_owned() + &"[".repeat(all)), "parse error");
    fails(&("{{a ".to_owned() + &"{\"a\":".repeat(all)), "parse error");
    fails(&"{{#a}}".repeat(MAX_OPENERS), "parse error");
    fails(&("{{#if 1}}".to_owned() + &"{{else if 1}}".repeat(MAX_NESTING) + "{{/if}}"), "limit nesting exceeded");
    fails(&"{{#a}}".repeat(MAX_OPENERS / 2), "parse error");
    fails("{{> @partial-block}}", "@partial-block is not supported");
    fails("{{> (upper \"x\")}}", "a partial's name cannot be computed");
    let took = processor_time() - start;
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn loops_and_output_are_bounded() {
    let each = |count: usize, body: &str| format!("{{{{#each (until {count})}}}}{body}{{{{/each}}}}");
    fails(&each(10_000, &each(10_000, "")), "limit steps exceeded");
    let text = "x".repeat(100_000);
    fails(&each(10_000, &text), "limit output exceeded");
    fails(
        &format!("{{{{#*inline \"p\"}}}}{{{{/inline}}}}{{{{#> p}}}}{}{{{{/p}}}}", each(10_000, &text)),
        "limit output exceeded",
    );
    fails(&each(10_000, "{{repeat 100000 \"y\"}}"), "limit output exceeded");
}

#[test]
fn copies_of_shared_values_are_bounded() {
    let grow = "{{- range until 40 }}{{ $_ := set $.Values \"a\" (list $.Values.a $.Values.a) }}{{ end -}}";
    let error = printed(&[("templates/z.yaml", grow), ("templates/t.yaml.hbs", "a: 1")]).unwrap_err();
    assert!(error.contains("limit values exceeded"), "{error}");
}
