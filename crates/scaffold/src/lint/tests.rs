//! Tests with projects that have one fault each.

use super::*;
use crate::{CreateApi, Existing, Init, Source, create_api, init};

const WEB: &str = "helm-charts/web";

/// Returns a new project with the starter chart and these files, which replace existing ones.
fn project(changes: &[(&str, &str)]) -> Project {
    let mut project = Project::default();
    let about = Init { name: "web-operator".into(), domain: "my.domain".into(), repo: None, hybrid: None };
    init(&mut project, &about).unwrap();
    let (group, version, kind) = (Some("web".into()), Some("v1".into()), Some("Web".into()));
    create_api(&mut project, &CreateApi { group, version, kind, source: Source::Starter }).unwrap();
    changes.iter().for_each(|(path, text)| project.write(*path, *text));
    project
}

fn lint(changes: &[(&str, &str)]) -> Vec<String> {
    check(&project(changes), &[]).unwrap().iter().map(Finding::to_string).collect()
}

/// Runs `lint` with definitions regenerated from the changed charts.
fn lint_generated(changes: &[(&str, &str)]) -> Vec<String> {
    let mut project = project(changes);
    crate::crd::generate(&mut project, &[], Existing::Keep).unwrap();
    check(&project, &[]).unwrap().iter().map(Finding::to_string).collect()
}

/// Checks that there is exactly one finding, with this position and message.
fn one(changes: &[(&str, &str)], place: &str, message: &str) {
    let found = lint(changes);
    let is_it = |finding: &String| finding.starts_with(place) && finding.contains(message);
    assert!(found.len() == 1 && found.iter().all(is_it), "{place}: {message}: {found:#?}");
}

fn sample(spec: &str) -> String {
    format!("apiVersion: web.my.domain/v1\nkind: Web\nmetadata:\n  name: web\nspec:\n{spec}")
}

const SAMPLE: &str = "config/samples/web_v1_web.yaml";

#[test]
fn a_fresh_project_has_no_findings() {
    assert_eq!(lint(&[]), Vec::<String>::new());
}

#[test]
fn a_watch_needs_its_chart_and_a_definition_that_serves_it() {
    let decided = "serviceAccountName: $(operator)\n  storageNamespace: $(release)";
    let watch =
        |rest: &str| format!("- group: web.my.domain\n  version: v1\n  kind: Web\n  chart: {rest}\n  {decided}\n");
    one(&[("watches.yaml", &watch("helm-charts/missing"))], "watches.yaml:4: error: ", "helm-charts/missing");
    let other = watch(WEB).replace("v1", "v2");
    one(&[("watches.yaml", &other)], "watches.yaml:3: error: ", "does not serve Web in version v2");
    let other = watch(WEB).replace("kind: Web", "kind: Site");
    let found = lint(&[("watches.yaml", &other)]);
    assert!(found[0].starts_with("watches.yaml:3: error: the project has no definition of Site"), "{found:#?}");
}

#[test]
fn a_kind_to_wait_for_is_one_of_those_that_its_group_has() {
    let watch = |kind: &str, group: &str| {
        format!(
            "- group: web.my.domain\n  version: v1\n  kind: Web\n  chart: {WEB}\n  serviceAccountName: $(operator)\n  \
             storageNamespace: $(release)\n  dependsOn:\n  - {{group: {group}, kind: {kind}, name: x}}\n"
        )
    };
    let told = |text: &str| {
        lint(&[("watches.yaml", text)]).into_iter().filter(|one| one.contains("names")).collect::<Vec<_>>()
    };
    let expected =
        "watches.yaml:7: warning: dependsOn names Wbe in group web.my.domain, of which the project defines Web";
    assert_eq!(told(&watch("Wbe", "web.my.domain")), [expected]);
    assert_eq!(told(&watch("Web", "web.my.domain")), [""; 0]);
    assert_eq!(told(&watch("Wbe", "other.domain")), [""; 0], "another project's");
}

#[test]
fn a_watch_says_whose_rights_count_and_where_records_are() {
    let watch = format!("- group: web.my.domain\n  version: v1\n  kind: Web\n  chart: {WEB}\n");
    let place = "watches.yaml:3: warning: ";
    one(&[("watches.yaml", &watch)], place, "serviceAccountName and storageNamespace are not set: ");
    one(&[("watches.yaml", &format!("{watch}  storageNamespace: a\n"))], place, "serviceAccountName is not set: ");
}

#[test]
fn a_broken_schema_or_template_is_one_finding_with_its_line_however_many_samples_it_fails() {
    let schema = "helm-charts/web/values.schema.json";
    one(&[(schema, "{\n  \"type\":\n")], "helm-charts/web/values.schema.json:3: error: ", "unexpected EOF");
    one(&[(schema, "{\n  \"type\": \"text\"\n}")], "helm-charts/web/values.schema.json:2: error: ", "at '/type'");
    let template = "helm-charts/web/templates/a.yaml";
    one(
        &[(template, "a: 1\n{{ nope }}\n")],
        "helm-charts/web/templates/a.yaml:2: error: ",
        "function \"nope\" not defined",
    );
}

#[test]
fn a_sample_must_fit_its_definition_and_fields_are_named_with_their_line() {
    let check = |spec: &str, place: &str, message: &str| one(&[(SAMPLE, &sample(spec))], place, message);
    check("  replicaCount: [1]\n", "config/samples/web_v1_web.yaml:6: error: spec.replicaCount: ", "got array");
    check("  image:\n    tag: {a: b}\n", "config/samples/web_v1_web.yaml:7: error: spec.image.tag: ", "got object");
    assert_eq!(lint(&[(SAMPLE, &sample("  replicaCount: null\n"))]), Vec::<String>::new());
    let beside = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n";
    let both = sample("  replicaCount: null\n") + beside;
    assert_eq!(lint(&[(SAMPLE, &both)]), Vec::<String>::new(), "a Namespace beside the resource");
    let unknown = sample("  replicaCount: 1\n").replace("kind: Web", "kind: Wab");
    one(&[(SAMPLE, &unknown)], "config/samples/web_v1_web.yaml:2: warning: ", "no definition of Wab");
    let old = sample("  replicaCount: 1\n").replace("/v1", "/v1beta1");
    one(&[(SAMPLE, &old)], "config/samples/web_v1_web.yaml:1: error: ", "does not serve version v1beta1");
}

#[test]
fn fields_that_a_closed_definition_lacks_are_errors() {
    let crd = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  group: web.my.domain
  names: {kind: Site}
  versions:
  - name: v1
    served: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 0}
              mode: {type: string, enum: [a, b], nullable: true}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
";
    let check = |spec: &str| {
        let text = format!("apiVersion: web.my.domain/v1\nkind: Site\nmetadata: {{name: x}}\nspec: {spec}\n");
        let mut project = project(&[("config/crd/site.yaml", crd), ("config/samples/site.yaml", &text)]);
        for folder in ["crd", "samples"] {
            let path = kustomize::path(&project, &format!("config/{folder}")).unwrap();
            project.edit(&path, |text| Ok(crate::yaml::push_entry(text, "resources", "site.yaml").unwrap())).unwrap();
        }
        let found = check(&project, &[]).unwrap();
        found.iter().map(Finding::to_string).collect::<Vec<_>>()
    };
    assert_eq!(check("{size: 1, mode: null, port: http}"), Vec::<String>::new());
    assert_eq!(check("{size: 1, port: 80}"), Vec::<String>::new());
    for (spec, complaint) in [
        ("{}", "size"),
        ("{size: -1}", "spec.size"),
        ("{size: 1.5}", "spec.size"),
        ("{size: 1, mode: c}", "spec.mode"),
        ("{size: 1, sise: 2}", "sise"),
    ] {
        let found = check(spec);
        assert!(
            found.len() == 1 && found[0].contains(complaint) && found[0].contains("site.yaml:4"),
            "{spec}: {found:?}"
        );
    }
}

#[test]
fn a_chart_that_does_not_render_is_shown_where_it_fails() {
    let broken = "kind: ConfigMap\ndata:\n  a: {{ .Values.missing.deep }}\n";
    one(
        &[("helm-charts/web/templates/broken.yaml", broken)],
        "helm-charts/web/templates/broken.yaml:3: error: does not render with config/samples/web_v1_web.yaml",
        "nil pointer",
    );
    let found = lint(&[("helm-charts/web/templates/broken.yaml", "{{ if }}\n")]);
    assert!(found[0].starts_with("helm-charts/web/templates/broken.yaml:1: error: "), "{found:#?}");
    let found = lint(&[("helm-charts/web/templates/text.yaml", "a: b: c\n")]);
    assert!(found[0].starts_with("helm-charts/web/templates/text.yaml: error: "), "{found:#?}");
}

#[test]
fn values_that_only_resources_can_give_are_a_warning() {
    let needs = "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ required \"a host is needed\" .Values.host }}\n";
    let given = sample("  host: example\n");
    let found = lint_generated(&[("helm-charts/web/templates/needs.yaml", needs), (SAMPLE, &given)]);
    let expected = "helm-charts/web: warning: does not render with its defaults";
    assert!(found.len() == 1 && found[0].starts_with(expected) && found[0].ends_with("a host is needed"), "{found:#?}");
}

#[test]
fn a_charts_schema_applies_to_samples() {
    let schema = r#"{"properties": {"replicaCount": {"maximum": 3}}}"#;
    let changes = [("helm-charts/web/values.schema.json", schema), (SAMPLE, &sample("  replicaCount: 5\n"))];
    one(&changes, "config/samples/web_v1_web.yaml:6: error: spec.replicaCount: ", "maximum");
}

#[test]
fn objects_need_names_and_known_hooks() {
    let object = |head: &str| format!("apiVersion: v1\nkind: Service\nmetadata:\n{head}");
    let path = "helm-charts/web/templates/more.yaml";
    let check = |head: &str, place: &str, message: &str| one(&[(path, &object(head))], place, message);
    check("  labels: {a: b}\n", "helm-charts/web/templates/more.yaml:2: error: ", "has no metadata.name");
    check("  generateName: x-\n", "helm-charts/web/templates/more.yaml:2: error: ", "only hooks may have");
    check("  name: Big_Name\n", "helm-charts/web/templates/more.yaml:2: error: ", "not a DNS name");
    let hook = "  name: x\n  annotations:\n    helm.sh/hook: pre-install,pre-upgade\n";
    check(hook, "helm-charts/web/templates/more.yaml:6: error: ", "no hook \"pre-upgade\"");
    let twice = object("  name: x\n");
    one(
        &[(path, &format!("{twice}---\n{twice}"))],
        "helm-charts/web/templates/more.yaml:2: warning: ",
        "the last one wins",
    );
    for good in ["  generateName: x-\n  annotations: {helm.sh/hook: post-install}\n", "  name: x\n"] {
        assert_eq!(lint(&[(path, &object(good))]), Vec::<String>::new(), "{good}");
    }
}

#[test]
fn rights_that_a_chart_needs_and_no_role_grants_are_named_at_the_object() {
    let object = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\n";
    let always = ("helm-charts/web/templates/job.yaml", object);
    let place = "helm-charts/web/templates/job.yaml:2: error: ";
    one(&[always], place, "grants no [get, list, watch, create, patch, delete] on cronjobs in group batch");
    let sometimes = format!("{{{{ if .Values.ingress.enabled }}}}\n{object}{{{{ end }}}}\n");
    let sometimes = ("helm-charts/web/templates/job.yaml", sometimes.as_str());
    one(&[sometimes], "helm-charts/web/templates/job.yaml:3: warning: ", "(with ingress.enabled=true)");
    let role = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: x}
rules: [{apiGroups: [''], resources: [nodes], verbs: [get]}]
";
    let found = lint(&[("helm-charts/web/templates/role.yaml", role)]);
    let grants = |finding: &String| finding.contains("[get] on nodes in the core group, which a Role in it grants");
    assert!(found.len() == 2 && found.iter().any(grants), "{found:#?}");
}

#[test]
fn a_right_of_the_programs_own_reconcilers_is_looked_for_if_the_project_defines_their_kind() {
    let native = |kind: &str| Native {
        group: "web.my.domain".into(),
        kind: kind.into(),
        plural: "webs".into(),
        owns_objects: false,
        rules: vec![crate::rbac::Rule { group: "batch".into(), resource: "jobs".into(), verbs: vec!["create".into()] }],
    };
    let found = |native: Native| check(&project(&[]), &[native]).unwrap();
    let expected = "config/rbac grants no [create] on jobs in group batch, which the reconciler of Web needs";
    let [only] = &found(native("Web"))[..] else { panic!("one finding") };
    assert!(only.level == Level::Error && only.message.starts_with(expected), "{only}");
    assert_eq!(found(native("Other")), []);
}

#[test]
fn a_role_that_no_binding_gives_to_the_operator_grants_nothing() {
    let path = "config/rbac/web_role.yaml";
    let text = project(&[]).text(path).unwrap().replace("name: controller-manager", "name: someone-else");
    let found = lint(&[(path, &text)]);
    assert!(found.iter().any(|finding| finding.contains("on webs in group web.my.domain")), "{found:#?}");
}

#[test]
fn a_listed_file_that_is_missing_or_broken_is_named() {
    let list = "resources: [missing.yaml]\n";
    let found = lint(&[("config/samples/kustomization.yaml", list)]);
    assert!(found.iter().any(|finding| finding.starts_with("config/samples/missing.yaml: error: ")), "{found:#?}");
    let found = lint(&[(SAMPLE, "a: b: c\n")]);
    assert!(found.iter().any(|finding| finding.starts_with("config/samples/web_v1_web.yaml:1: error: ")), "{found:#?}");
}

#[test]
fn keys_of_samples_that_no_template_reads_are_named_with_the_key_that_was_meant() {
    let warned = |spec: &str, place: &str, message: &str| one(&[(SAMPLE, &sample(spec))], place, message);
    let place = "config/samples/web_v1_web.yaml:7: warning: ";
    warned(
        "  image:\n    tga: x\n",
        place,
        "no template of the chart reads spec.image.tga; did you mean \"image.tag\"?",
    );
    assert_eq!(lint(&[(SAMPLE, &sample("  podAnnotations: {any: thing}\n"))]), Vec::<String>::new());
    // The chart documents the key, so it is not a mistake in the sample.
    let values = project(&[]).text("helm-charts/web/values.yaml").unwrap().to_owned() + "dead: 1\n";
    let files = [("helm-charts/web/values.yaml", values.as_str()), (SAMPLE, &sample("  dead: 2\n"))];
    assert_eq!(lint_generated(&files), Vec::<String>::new());
}

#[test]
fn a_key_that_a_closed_definition_lacks_is_an_error_that_says_what_to_do() {
    let place = "config/samples/web_v1_web.yaml:6: error: spec.";
    let found = lint(&[(SAMPLE, &sample("  replicaCout: 5\n  hots: 1\n"))]);
    let crd = "config/crd/bases/web.my.domain_webs.yaml has no such field, so the API server refuses or drops it";
    assert!(
        found.iter().any(|one| *one == format!("{place}replicaCout: {crd}; did you mean \"replicaCount\"?")),
        "{found:#?}"
    );
    assert!(found.iter().any(|one| one.ends_with("spec.hots: config/crd/bases/web.my.domain_webs.yaml has no such field, so the API server refuses or drops it; 'generate crds' writes it again if the chart has the value now")), "{found:#?}");
}

#[test]
fn rights_by_star_include_those_to_grant_rights() {
    let role = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: x}
rules: [{apiGroups: [''], resources: [nodes], verbs: [get]}, {nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: x}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: x}
";
    let found = |verbs: &str| {
        let own = project(&[]).text("config/rbac/web_role.yaml").unwrap().to_owned();
        let rule = format!(
            "rules:\n- {{apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles, clusterrolebindings], verbs: {verbs}}}\n"
        );
        let own = own.replacen("rules:\n", &rule, 1);
        lint(&[("helm-charts/web/templates/role.yaml", role), ("config/rbac/web_role.yaml", &own)])
    };
    assert_eq!(found("['*']"), Vec::<String>::new());
    assert_eq!(found("[get, list, watch, create, patch, delete, escalate, bind]"), Vec::<String>::new());
    let without_bind = found("[get, list, watch, create, patch, delete, escalate]");
    assert!(
        without_bind.len() == 2 && without_bind.iter().any(|one| one.contains("[get] on the URL /metrics")),
        "{without_bind:#?}"
    );
}

#[test]
fn rights_of_the_account_that_the_deployment_uses_count() {
    let manager = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, namespace: system}\nspec: {selector: {}, template: {spec: {containers: [{name: manager}]}}}\n";
    let role =
        project(&[]).text("config/rbac/web_role.yaml").unwrap().replace("name: controller-manager", "name: default");
    let found = lint(&[("config/manager/manager.yaml", manager), ("config/rbac/web_role.yaml", &role)]);
    assert!(found.iter().all(|finding| !finding.contains("on webs")), "{found:#?}");
    let found = lint(&[("config/manager/manager.yaml", manager)]);
    assert!(
        found.iter().any(|finding| finding.contains("on webs in group web.my.domain, to the account \"default\"")),
        "{found:#?}"
    );
}

#[test]
fn rights_that_are_unknown_or_local_make_no_false_error() {
    let role = |binding: &str, name: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {binding}\nmetadata: {{name: x}}\nroleRef: {{kind: ClusterRole, name: {name}}}\nsubjects: [{{kind: ServiceAccount, name: controller-manager}}]\n"
        )
    };
    let found = lint(&[("config/rbac/web_role.yaml", &role("ClusterRoleBinding", "edit"))]);
    assert!(
        found.iter().all(|one| one.contains(": warning: ") && one.contains("unless ClusterRole edit does")),
        "{found:#?}"
    );
    assert_eq!(
        lint(&[("config/rbac/web_role.yaml", &role("ClusterRoleBinding", "cluster-admin"))]),
        Vec::<String>::new()
    );
}

#[test]
fn the_items_of_a_list_count_as_objects() {
    let list = "apiVersion: v1\nkind: List\nmetadata: {name: x}\nitems:\n{{- range until 1 }}\n- apiVersion: v1\n  kind: Service\n  metadata: {name: in-list}\n{{- end }}\n";
    assert_eq!(lint(&[("helm-charts/web/templates/list.yaml", list)]), Vec::<String>::new());
    let empty = "apiVersion: v1\nkind: List\nitems:\n{{- range .Values.none }}{{ end }}\n";
    assert_eq!(lint(&[("helm-charts/web/templates/list.yaml", empty)]), Vec::<String>::new());
    let job = list.replace("v1\n  kind: Service", "batch/v1\n  kind: CronJob");
    let found = lint(&[("helm-charts/web/templates/list.yaml", &job)]);
    assert!(found.len() == 1 && found[0].contains("on cronjobs in group batch"), "{found:#?}");
}

#[test]
fn what_the_server_reads_as_absent_is_no_fault_of_a_definition() {
    let path = "config/crd/bases/web.my.domain_webs.yaml";
    let mut crd = crate::yaml::parse(project(&[]).text(path).unwrap()).unwrap();
    let version = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for pointer in ["", "/properties/spec", "/properties/spec/properties/replicaCount"] {
        let schema = version.pointer_mut(pointer).unwrap();
        for field in ["description", "pattern", "required", "example"] {
            schema[field] = serde_json::Value::Null;
        }
    }
    let with_null = crate::yaml::print(&crd);
    assert!(with_null.contains("description: null"), "{with_null}");
    assert_eq!(lint(&[(path, &with_null)]), Vec::<String>::new());
}

#[test]
fn lookups_in_other_namespaces_name_the_key_that_opens_them() {
    let chart = "helm-charts/web/templates/looks.yaml";
    let looks = "{{ $_ := lookup \"v1\" \"Secret\" (toString .Values.replicaCount) \"b\" }}";
    one(&[(chart, looks)], "watches.yaml:", "looks.yaml:1");
    one(&[(chart, looks)], "watches.yaml:", "add 'lookup: {all: true}' to the entry of Web");
    let watches =
        project(&[]).text("watches.yaml").unwrap().replacen("  kind: Web\n", "  kind: Web\n  lookup: {all: true}\n", 1);
    assert!(watches.contains("lookup"), "{watches}");
    assert_eq!(lint(&[(chart, looks), ("watches.yaml", &watches)]), Vec::<String>::new());
}

#[test]
fn a_chart_that_asks_the_cluster_is_no_error_where_no_cluster_is_asked() {
    let looks = "{{ $found := lookup \"v1\" \"Secret\" \"a\" \"b\" }}{{ if not $found }}{{ fail \"the Secret is missing\" }}{{ end }}";
    one(
        &[("helm-charts/web/templates/looks.yaml", looks)],
        "helm-charts/web/templates/looks.yaml:1: warning: does not render",
        "(the chart looks up Secret in the cluster, which is not asked here)",
    );
    let needs = "{{ if not (.Capabilities.APIVersions.Has \"monitoring.coreos.com/v1\") }}{{ fail \"no monitoring\" }}{{ end }}";
    one(
        &[("helm-charts/web/templates/needs.yaml", needs)],
        "helm-charts/web/templates/needs.yaml:1: warning: does not render",
        "(the cluster may serve the APIs that the chart asks for)",
    );
}

#[test]
fn an_order_that_cannot_be_kept_is_an_error() {
    let object = |name: &str, group: &str, on: &str| {
        let annotations = format!("helm.sh/resource-group: {group}, helm.sh/depends-on/resource-groups: '[\"{on}\"]'");
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n")
    };
    let lint = |template: &str| {
        let found = lint(&[("helm-charts/web/templates/order.yaml", template)]);
        found.into_iter().filter(|finding| finding.contains("wait")).collect::<Vec<_>>()
    };
    let ring = lint(&[object("a", "a", "b"), object("b", "b", "a")].concat());
    assert!(
        !ring.is_empty() && ring[0].contains("resource groups of chart web wait for each other: a → b → a"),
        "{ring:?}"
    );
    let unknown = lint(&object("a", "web", "databse"));
    assert!(!unknown.is_empty() && unknown[0].contains("waits for \"databse\", which no object is in"), "{unknown:?}");
}
