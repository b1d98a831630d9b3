//! Tests of roles for charts in memory.

use serde_json::{Value as Json, json};

use super::*;
use crate::yaml;

const WATCH: &str = "- {group: web.my.domain, version: v1, kind: Web, chart: helm-charts/web}\n";

fn generated(files: &[(&str, &str)]) -> (String, Vec<String>) {
    generated_for(WATCH, files)
}

fn generated_for(watch: &str, files: &[(&str, &str)]) -> (String, Vec<String>) {
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    let fixed = [("watches.yaml", watch), ("helm-charts/web/Chart.yaml", chart)];
    let mut project = Project::from_files(fixed.iter().chain(files).map(|(path, text)| (*path, *text)));
    let notes = generate(&mut project, &[], Existing::Keep).unwrap();
    (project.text("config/rbac/web_role.yaml").unwrap().to_owned(), notes)
}

/// Returns the rules that the chart adds to those on the custom resource.
fn rules(text: &str) -> Vec<Json> {
    let role = yaml::parse(text).unwrap();
    role["rules"].as_array().unwrap()[3..].to_vec()
}

fn objects(group: &str, resources: &[&str]) -> Json {
    json!({"apiGroups": [group], "resources": resources, "verbs": needs::OBJECT_VERBS})
}

fn object(kind: &str) -> String {
    let api = if kind == "Ingress" { "networking.k8s.io/v1" } else { "v1" };
    format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: x}}\n")
}

#[test]
fn each_rule_names_the_template_and_the_value_that_needs_it() {
    let ingress = format!("{{{{ if .Values.ingress.enabled }}}}\n{}{{{{ end }}}}\n", object("Ingress"));
    let (text, notes) = generated(&[
        ("helm-charts/web/values.yaml", "ingress: {enabled: false}\n"),
        ("helm-charts/web/templates/service.yaml", &object("Service")),
        ("helm-charts/web/templates/ingress.yaml", &ingress),
    ]);
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(rules(&text), [objects("", &["services"]), objects("networking.k8s.io", &["ingresses"])]);
    assert!(text.contains("  - services # templates/service.yaml\n"), "{text}");
    assert!(text.contains("  - ingresses # templates/ingress.yaml with ingress.enabled=true\n"), "{text}");
}

#[test]
fn values_that_a_chart_requires_together_are_filled() {
    let required = ["a", "b", "c"].map(|key| format!("{{{{ required \"no {key}\" .Values.{key} }}}}"));
    let secret = format!("{{{{ if .Values.more }}}}\n{}{{{{ end }}}}", object("Secret"));
    let (text, notes) = generated(&[
        ("helm-charts/web/values.yaml", "{a: \"\", b: \"\", c: \"\", more: false}\n"),
        ("helm-charts/web/templates/pod.yaml", &format!("{}# {}", object("Pod"), required.join(" "))),
        ("helm-charts/web/templates/secret.yaml", &secret),
    ]);
    assert_eq!(rules(&text), [objects("", &["pods", "secrets"])]);
    let hint = "helm-charts/web: does not render with its defaults; put values that it needs into ci/NAME-values.yaml";
    assert_eq!(notes, [hint]);
}

#[test]
fn options_that_need_others_comparisons_and_asked_apis_are_reached() {
    let nested = format!("{{{{ if and .Values.a.enabled .Values.b.enabled }}}}\n{}{{{{ end }}}}", object("Secret"));
    let compared = format!("{{{{ if eq .Values.kind \"Set\" }}}}\n{}{{{{ end }}}}", object("ConfigMap"));
    let filled = format!("{{{{ range .Values.list }}}}\n---\n{}{{{{ end }}}}", object("Pod"));
    let not = format!(
        "{{{{ if not .Values.c.enabled }}}}{{{{ if .Values.a.enabled }}}}\n{}{{{{ end }}}}{{{{ end }}}}",
        object("Endpoints")
    );
    let asked = "{{ if .Capabilities.APIVersions.Has \"monitoring.coreos.com/v1\" }}\napiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: x}\n{{ end }}";
    let upgrade = format!("{{{{ if .Release.IsUpgrade }}}}\n{}{{{{ end }}}}", object("LimitRange"));
    let (text, notes) = generated(&[
        (
            "helm-charts/web/values.yaml",
            "a: {enabled: false}\nb: {enabled: false}\nc: {enabled: true}\nkind: Other\nlist: []\n",
        ),
        ("helm-charts/web/templates/nested.yaml", &nested),
        ("helm-charts/web/templates/compared.yaml", &compared),
        ("helm-charts/web/templates/filled.yaml", &filled),
        ("helm-charts/web/templates/not.yaml", &not),
        ("helm-charts/web/templates/asked.yaml", asked),
        ("helm-charts/web/templates/upgrade.yaml", &upgrade),
    ]);
    assert_eq!(notes, Vec::<String>::new());
    let core = ["configmaps", "endpoints", "limitranges", "pods", "secrets"];
    assert_eq!(rules(&text), [objects("", &core), objects("monitoring.coreos.com", &["servicemonitors"])]);
}

#[test]
fn objects_that_only_two_values_together_make_appear_are_found() {
    let both =
        format!("{{{{ if and (eq .Values.kind \"Set\") (not .Values.plain) }}}}\n{}{{{{ end }}}}", object("Secret"));
    let (text, notes) = generated(&[
        ("helm-charts/web/values.yaml", "kind: Other\nplain: true\nelse: true\n"),
        ("helm-charts/web/templates/both.yaml", &both),
        ("helm-charts/web/templates/plain.yaml", &object("ConfigMap")),
    ]);
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(rules(&text), [objects("", &["configmaps", "secrets"])]);
    assert!(text.contains("- secrets # templates/both.yaml with kind=Set and plain=false\n"), "{text}");
}

#[test]
fn hooks_lookups_and_definitions_are_included_and_tests_are_not() {
    let hook = |event: &str, kind: &str| {
        format!("apiVersion: batch/v1\nkind: {kind}\nmetadata:\n  name: x\n  annotations: {{helm.sh/hook: {event}}}\n")
    };
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {group: x.io, names: {kind: Proxy, plural: proxys}}\n";
    let both = object("Service") + "---\n" + &hook("post-upgrade", "Service").replace("batch/v1", "v1");
    let kept = hook("pre-install, helm.sh/hook-delete-policy: hook-succeeded", "Role").replace("batch/v1", "v1");
    let generated_name = hook("pre-delete", "Pod").replace("batch/v1", "v1").replace("name: x", "generateName: x");
    let (text, _) = generated(&[
        ("helm-charts/web/templates/both.yaml", &both),
        ("helm-charts/web/templates/generated.yaml", &generated_name),
        ("helm-charts/web/templates/job.yaml", &hook("pre-install", "Job")),
        ("helm-charts/web/templates/kept.yaml", &kept),
        ("helm-charts/web/templates/test.yaml", &hook("test", "CronJob")),
        (
            "helm-charts/web/templates/lookup.yaml",
            "{{ $x := lookup \"v1\" \"Secret\" \"a\" \"b\" }}{{ $y := lookup \"v1\" \"Node\" \"\" \"\" }}",
        ),
        ("helm-charts/web/templates/own.yaml", "apiVersion: x.io/v1\nkind: Proxy\nmetadata: {name: x}\n"),
        ("helm-charts/web/crds/proxy.yaml", crd),
    ]);
    let verbs = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let expected = [
        verbs("", "nodes", &["get", "list"]),
        verbs("", "pods", &["get", "list", "create", "delete"]),
        verbs("", "roles", &["get", "create", "patch", "delete"]),
        verbs("", "secrets", &["get"]),
        objects("", &["services"]),
        verbs("apiextensions.k8s.io", "customresourcedefinitions", &["get", "create", "patch"]),
        verbs("batch", "jobs", &["get", "create", "delete"]),
        objects("x.io", &["proxys"]),
    ];
    assert_eq!(rules(&text), expected);
}

#[test]
fn logs_are_readable_only_by_choice() {
    let watch = WATCH.replace("helm-charts/web}", "helm-charts/web, hookLogs: true}");
    let rule = |resource: &str, verb: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]});
    assert_eq!(rules(&generated(&[]).0), Vec::<Json>::new());
    assert_eq!(rules(&generated_for(&watch, &[]).0), [rule("pods", "list"), rule("pods/log", "get")]);
}

#[test]
fn tests_are_included_if_they_run() {
    let test = "apiVersion: v1\nkind: Pod\nmetadata: {name: x, annotations: {helm.sh/hook: test}}\n";
    let files = [("helm-charts/web/templates/test.yaml", test)];
    assert_eq!(rules(&generated(&files).0), Vec::<Json>::new());
    let watch = WATCH.replace("helm-charts/web}", "helm-charts/web, test: {enable: true}}");
    let (text, _) = generated_for(&watch, &files);
    let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create", "delete"]});
    assert_eq!(rules(&text), [pods]);
}

#[test]
fn what_the_charts_roles_grant_is_held_and_other_roles_may_be_bound() {
    let roles = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: '{{ .Release.Name }}-own'}
rules:
- {apiGroups: [''], resources: [nodes], verbs: [get]}
- {apiGroups: [''], resources: [configmaps], resourceNames: ['{{ .Release.Name }}-x'], verbs: [get]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: own}
roleRef: {kind: ClusterRole, name: '{{ .Release.Name }}-own'}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: other}
roleRef: {kind: ClusterRole, name: 'system:auth-delegator'}
";
    let (text, _) = generated(&[("helm-charts/web/templates/roles.yaml", roles)]);
    let expected = [
        objects("rbac.authorization.k8s.io", &["clusterrolebindings", "clusterroles", "rolebindings"]),
        json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}),
        json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
        json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["system:auth-delegator"], "verbs": ["bind"]}),
    ];
    assert_eq!(rules(&text), expected);
}

#[test]
fn what_could_not_be_rendered_is_said_and_examples_help() {
    let needs = format!(
        "{{{{ $x := required \"a name is needed\" .Values.name }}}}\n{{{{ if eq (len .Values.name) 9 }}}}\n{}{{{{ end }}}}",
        object("Secret")
    );
    let template = ("helm-charts/web/templates/secret.yaml", needs.as_str());
    let (text, notes) = generated(&[template]);
    assert_eq!(rules(&text), Vec::<Json>::new());
    assert!(notes[0].starts_with("helm-charts/web: renders with none of the values tried"), "{notes:?}");
    assert!(notes[1].contains("templates/secret.yaml"), "{notes:?}");
    let (text, notes) = generated(&[template, ("helm-charts/web/ci/long-values.yaml", "name: ninechars\n")]);
    assert_eq!(rules(&text), [objects("", &["secrets"])]);
    assert!(text.contains("# templates/secret.yaml with ci/long-values.yaml"), "{text}");
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn documents_without_an_object_need_no_rights() {
    let template = format!("{}---\n# Only a comment: {{{{ .Release.Name }}}}\n---\nkey: value\n", object("Secret"));
    let (text, _) = generated(&[("helm-charts/web/templates/secret.yaml", &template)]);
    assert_eq!(rules(&text), [objects("", &["secrets"])]);
}

#[test]
fn values_tried_in_place_of_a_kind_need_no_rights() {
    let template = "apiVersion: {{ .Values.api | default \"v1\" }}\nkind: {{ .Values.kind | default \"Secret\" }}\nmetadata: {name: x}\n";
    let (text, _) = generated(&[
        ("helm-charts/web/values.yaml", "api: ''\nkind: ''\n"),
        ("helm-charts/web/templates/route.yaml", template),
    ]);
    assert_eq!(rules(&text), [objects("", &["secrets"])]);
}

#[test]
fn override_values_always_apply() {
    let template = format!("{{{{ if not .Values.disabled }}}}\n{}{{{{ end }}}}", object("Secret"));
    let watch = WATCH.replace('}', ", overrideValues: {disabled: true}}");
    let mut project = Project::from_files([
        ("watches.yaml", watch.as_str()),
        ("helm-charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("helm-charts/web/templates/a.yaml", &template),
    ]);
    generate(&mut project, &[], Existing::Keep).unwrap();
    let text = project.text("config/rbac/web_role.yaml").unwrap();
    assert_eq!(rules(text), Vec::<Json>::new());
}

fn reconciler(kind: &str, verbs: &[&str]) -> Native {
    let plural = format!("{}s", kind.to_lowercase());
    let rule = |group: &str, resource: &str, verbs: &[&str]| Rule {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
    };
    let rules = vec![
        rule("web.my.domain", &plural, &["get", "list", "watch"]),
        rule("web.my.domain", &format!("{plural}/status"), &["patch"]),
        rule("apps", "deployments", verbs),
    ];
    Native { group: "web.my.domain".to_owned(), kind: kind.to_owned(), plural, owns_objects: true, rules }
}

#[test]
fn a_reconcilers_role_follows_from_its_rights() {
    let mut project = Project::from_files([("README.md", "")]);
    let natives = [reconciler("Note", &["get", "list"]), reconciler("Note", &["list", "delete"])];
    assert_eq!(generate(&mut project, &natives, Existing::Keep).unwrap(), Vec::<String>::new());
    let text = project.text("config/rbac/note_role.yaml").unwrap().to_owned();
    let role = yaml::parse(&text).unwrap();
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let expected = [
        rule("web.my.domain", "notes", &["get", "list", "watch"]),
        rule("web.my.domain", "notes/status", &["patch"]),
        rule("web.my.domain", "notes/finalizers", &["update"]),
        rule("apps", "deployments", &["get", "list", "delete"]),
        rule("events.k8s.io", "events", &["create", "patch"]),
    ];
    assert_eq!(role["rules"], json!(expected), "{text}");
    assert!(text.contains("kind: ClusterRoleBinding\nmetadata:\n  name: note-rolebinding\n"), "{text}");
    assert!(project.text("config/rbac/kustomization.yaml").unwrap().contains("- note_role.yaml"));

    let before = project.clone();
    generate(&mut project, &natives, Existing::Keep).unwrap();
    assert_eq!(project.text("config/rbac/note_role.yaml"), before.text("config/rbac/note_role.yaml"));
    project.write("config/rbac/note_role.yaml", "# mine\n");
    let notes = generate(&mut project, &natives, Existing::Keep).unwrap();
    assert_eq!(notes, ["config/rbac/note_role.yaml is kept: it was not generated; --force replaces it"]);
    assert_eq!(project.text("config/rbac/note_role.yaml"), Some("# mine\n"));
}

#[test]
fn a_reconciler_of_a_charts_kind_has_a_role_of_its_own() {
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    let mut project = Project::from_files([("watches.yaml", WATCH), ("helm-charts/web/Chart.yaml", chart)]);
    generate(&mut project, &[reconciler("Web", &["get"])], Existing::Keep).unwrap();
    assert!(project.text("config/rbac/web_role.yaml").unwrap().contains("from helm-charts/web"));
    assert!(project.text("config/rbac/web_controller_role.yaml").unwrap().contains("name: web-controller-role\n"));
}

#[test]
fn a_generated_role_never_has_the_name_of_another_one() {
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: web-role}\nrules: []\n";
    let files = [("watches.yaml", WATCH), ("helm-charts/web/Chart.yaml", chart), ("config/rbac/role.yaml", role)];
    let mut project = Project::from_files(files);
    for _ in 0..2 {
        generate(&mut project, &[], Existing::Keep).unwrap();
        let text = project.text("config/rbac/web_role.yaml").unwrap();
        assert_eq!(text.matches("  name: web-chart-role\n").count(), 2, "{text}");
    }
}

#[test]
fn a_service_account_writes_the_objects_and_the_operator_acts_as_it() {
    let watch =
        "- {group: web.my.domain, version: v1, kind: Web, chart: helm-charts/web, serviceAccountName: far/deployer}\n";
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: x}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n";
    let (text, _) = generated(&[
        ("watches.yaml", watch),
        ("helm-charts/web/templates/service.yaml", &object("Service")),
        ("helm-charts/web/templates/role.yaml", role),
        ("helm-charts/web/templates/lookup.yaml", "{{ $x := lookup \"v1\" \"Node\" \"\" \"\" }}"),
    ]);
    let watched = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch", "delete"]});
    let acts = json!({"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["deployer"], "verbs": ["get", "impersonate"]});
    assert_eq!(rules(&text), [acts, watched("", "services"), watched("rbac.authorization.k8s.io", "roles")]);
}

#[test]
fn the_exploration_of_a_chart_reports_each_step_and_plans_no_fewer() {
    let steps: std::sync::Arc<std::sync::Mutex<Vec<(String, usize, usize)>>> = Default::default();
    let template = "{{ if .Values.a.enabled }}\napiVersion: v1\nkind: Secret\nmetadata: {name: x}\n{{ end }}\n";
    let mut project = Project::from_files([
        ("watches.yaml", WATCH),
        ("helm-charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("helm-charts/web/values.yaml", "a: {enabled: false}\n"),
        ("helm-charts/web/templates/a.yaml", template),
    ]);
    let heard = steps.clone();
    project.report_to(move |step| heard.lock().unwrap().push((step.chart.to_owned(), step.done, step.planned)));
    generate(&mut project, &[], Existing::Keep).unwrap();
    let steps = steps.lock().unwrap();
    assert!(
        steps.len() > 2 && steps.iter().all(|(chart, done, planned)| chart == "helm-charts/web" && done <= planned)
    );
    assert!(steps.windows(2).all(|pair| pair[0].1 < pair[1].1), "{steps:?}");
}

#[test]
fn what_resources_depend_on_may_be_watched() {
    let watch = "- group: web.my.domain
  version: v1
  kind: Web
  chart: helm-charts/web
  dependsOn: [{group: db.example.com, kind: Database, name: db}]
  dependsOnAnnotation: {kinds: [Secret, Deployment.apps]}
";
    let (text, _) = generated(&[("watches.yaml", watch)]);
    let read = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]});
    let expected = [read("", "secrets"), read("apps", "deployments"), read("db.example.com", "databases")];
    assert_eq!(rules(&text), expected, "{text}");
    assert!(text.contains("- databases # dependsOn in watches.yaml"), "{text}");
}
