//! Tests of bundles in memory.

use std::collections::BTreeSet;

use super::*;
use crate::{Change, CreateApi, Init, Source, create_api, init};

/// An excerpt of the output of `kubectl kustomize config/default`.
const MANIFESTS: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: web-operator-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web-operator-controller-manager, namespace: web-operator-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: lease, namespace: web-operator-system}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager}
rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: web}
rules: [{apiGroups: [apps], resources: [deployments], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: viewer}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: lease}
roleRef: {kind: Role, name: lease}
subjects: [{kind: ServiceAccount, name: web-operator-controller-manager}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {kind: ClusterRole, name: manager}
subjects: [{kind: ServiceAccount, name: web-operator-controller-manager}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: web}
roleRef: {kind: ClusterRole, name: web}
subjects: [{kind: ServiceAccount, name: web-operator-controller-manager}]
---
apiVersion: v1
kind: Service
metadata: {name: metrics, namespace: web-operator-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-operator-controller-manager, namespace: web-operator-system, labels: {a: b}}
spec:
  replicas: 1
  template:
    spec:
      serviceAccountName: web-operator-controller-manager
      containers: [{name: manager, image: 'example.com/web:v1'}]
---
";

fn options() -> Options {
    let channels = vec!["stable".to_owned(), "fast".to_owned()];
    let default_channel = Some("stable".into());
    Options { version: "1.2.3".into(), channels, default_channel, package: None, metadata: Existing::Replace }
}

/// Returns a project with one chart, and the manifests that its `make deploy` applies.
fn project() -> (Project, String) {
    let mut project = Project::default();
    let about = Init { name: "web-operator".into(), domain: "my.domain".into(), repo: None, hybrid: None };
    init(&mut project, &about).unwrap();
    let (group, version, kind) = (Some("web".into()), Some("v1".into()), Some("WebApp".into()));
    create_api(&mut project, &CreateApi { group, version, kind, source: Source::Starter }).unwrap();
    let crd = project.text("config/crd/bases/web.my.domain_webapps.yaml").unwrap();
    let manifests = format!("{MANIFESTS}{crd}");
    (project, manifests)
}

fn csv(project: &Project) -> Json {
    let path = "bundle/manifests/web-operator.clusterserviceversion.yaml";
    yaml::parse(project.text(path).unwrap()).unwrap()
}

fn files(project: &Project) -> BTreeSet<&str> {
    project.below("bundle").map(|(path, _)| path).collect()
}

#[test]
fn the_operator_is_installed_with_exactly_the_rules_bound_to_its_account() {
    let (mut project, manifests) = project();
    generate(&mut project, &manifests, &options()).unwrap();
    let csv = csv(&project);
    assert_eq!(csv["metadata"]["name"], "web-operator.v1.2.3");
    assert_eq!(csv["spec"]["version"], "1.2.3");
    assert_eq!(csv["metadata"]["annotations"]["containerImage"], "example.com/web:v1");
    let install = &csv["spec"]["install"];
    assert_eq!(install["strategy"], "deployment");
    let account = "web-operator-controller-manager";
    let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get"]});
    assert_eq!(
        install["spec"]["clusterPermissions"],
        json!([{"serviceAccountName": account, "rules": [rule("", "secrets"), rule("apps", "deployments")]}])
    );
    assert_eq!(
        install["spec"]["permissions"],
        json!([{"serviceAccountName": account, "rules": [rule("coordination.k8s.io", "leases")]}])
    );
    let deployment = &install["spec"]["deployments"][0];
    assert_eq!((&deployment["name"], &deployment["label"]), (&json!(account), &json!({"a": "b"})));
    assert_eq!(deployment["spec"]["replicas"], 1);
}

#[test]
fn what_olm_makes_itself_is_left_out_and_the_rest_lies_beside_the_csv() {
    let (mut project, manifests) = project();
    generate(&mut project, &manifests, &options()).unwrap();
    let expected = [
        "manifests/metrics_v1_service.yaml",
        "manifests/viewer_rbac.authorization.k8s.io_v1_clusterrole.yaml",
        "manifests/web-operator.clusterserviceversion.yaml",
        "manifests/web.my.domain_webapps.yaml",
        "metadata/annotations.yaml",
    ];
    assert_eq!(files(&project), BTreeSet::from(expected));
    assert!(!project.text("bundle/manifests/metrics_v1_service.yaml").unwrap().contains("namespace"));
}

#[test]
fn owned_kinds_have_descriptors_resources_and_examples() {
    let (mut project, manifests) = project();
    generate(&mut project, &manifests, &options()).unwrap();
    let csv = csv(&project);
    let owned = &csv["spec"]["customresourcedefinitions"]["owned"];
    assert_eq!(owned.as_array().map(Vec::len), Some(1));
    let kind = &owned[0];
    assert_eq!((&kind["name"], &kind["displayName"]), (&json!("webapps.web.my.domain"), &json!("Web App")));
    let field = |path: &str| {
        let all = kind["specDescriptors"].as_array().unwrap();
        all.iter().find(|field| field["path"] == path).unwrap_or_else(|| panic!("no {path}")).clone()
    };
    let hint = |name: &str| json!(format!("urn:alm:descriptor:com.tectonic.ui:{name}"));
    assert_eq!(field("replicaCount")["x-descriptors"], json!([hint("podCount")]));
    assert_eq!(field("ingress.enabled")["x-descriptors"], json!([hint("fieldGroup:ingress"), hint("booleanSwitch")]));
    // Each field of the sample is described, as operator-sdk's scorecard requires.
    let examples: Json =
        serde_json::from_str(csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap()).unwrap();
    assert_eq!((examples.as_array().map(Vec::len), &examples[0]["kind"]), (Some(1), &json!("WebApp")));
    examples[0]["spec"].as_object().unwrap().keys().for_each(|key| drop(field(key)));
    assert_eq!(kind["statusDescriptors"][0]["path"], "conditions");
    let resources = kind["resources"].as_array().unwrap();
    assert!(resources.contains(&json!({"kind": "Ingress", "name": "", "version": "v1"})), "{resources:?}");
}

#[test]
fn a_second_run_changes_nothing_and_a_new_version_only_replaces() {
    let (mut project, manifests) = project();
    let notes = generate(&mut project, &manifests, &options()).unwrap();
    assert!(notes[0].contains("config/manifests/bases/web-operator.clusterserviceversion.yaml"), "{notes:?}");
    let mut again = Project::from_files(project.files());
    assert_eq!(generate(&mut again, &manifests, &options()).unwrap(), Vec::<String>::new());
    assert_eq!(again.changes().count(), 0);
    let without_service = manifests.replace("kind: Service\n", "kind: ConfigMap\n");
    generate(&mut again, &without_service, &Options { version: "2.0.0".into(), ..options() }).unwrap();
    let changes: Vec<_> = again.changes().collect();
    let folder = |file: &str| format!("bundle/manifests/{file}");
    let expected = [
        (folder("metrics_v1_configmap.yaml"), Change::Created),
        (folder("metrics_v1_service.yaml"), Change::Removed),
        (folder("web-operator.clusterserviceversion.yaml"), Change::Changed),
    ];
    assert_eq!(changes, expected.each_ref().map(|(path, change)| (path.as_str(), *change)));
}

#[test]
fn a_file_that_was_not_generated_stays_in_the_bundle_and_is_named() {
    let (mut project, manifests) = project();
    generate(&mut project, &manifests, &options()).unwrap();
    let at = |file: &str| format!("bundle/manifests/{file}");
    let others = [
        ("copied.yaml", &b"# Generated by 'helm-operator generate crds' from charts/other; do not edit.\n"[..]),
        ("dashboard_v1_configmap.yaml", b"kind: ConfigMap\n"),
        ("icon.png", b"\xff"),
        ("more/a", b""),
    ];
    for (file, content) in others {
        project.write(at(file), content);
    }
    // An older run, or operator-sdk, has written this one.
    project.write(at("metrics_v1_service.yaml"), "kind: Service\n");
    let mut project = Project::from_files(project.files());
    let without_viewer = manifests.replace("metadata: {name: viewer}", "metadata: {name: reader}");
    let notes = generate(&mut project, &without_viewer, &options()).unwrap();
    for (file, content) in others {
        let kept = format!(
            "{} is kept: its first line does not say that it was generated; delete it unless it belongs to the bundle",
            at(file)
        );
        assert!(project.bytes(&at(file)) == Some(content) && notes.contains(&kept), "{file}: {notes:?}");
    }
    assert_eq!(notes.len(), others.len(), "{notes:?}");
    let role = |name: &str| at(&format!("{name}_rbac.authorization.k8s.io_v1_clusterrole.yaml"));
    let (reader, viewer, service) = (role("reader"), role("viewer"), at("metrics_v1_service.yaml"));
    let changes: Vec<_> = project.changes().collect();
    assert_eq!(changes, [(&*service, Change::Changed), (&*reader, Change::Created), (&*viewer, Change::Removed)]);
}

#[test]
fn what_the_user_says_about_the_operator_and_its_kinds_wins() {
    let (mut project, manifests) = project();
    generate(&mut project, &manifests, &options()).unwrap();
    let path = "config/manifests/bases/web-operator.clusterserviceversion.yaml";
    let mut base = yaml::parse(project.text(path).unwrap()).unwrap();
    base["spec"]["displayName"] = "Web".into();
    base["spec"]["replaces"] = "web-operator.v1.2.2".into();
    base["spec"]["customresourcedefinitions"] = json!({
        "required": [{"name": "other"}],
        "owned": [{"name": "webapps.web.my.domain", "version": "v1", "displayName": "Site",
            "specDescriptors": [{"path": "replicaCount", "displayName": "Pods"}]}],
    });
    base["spec"]["icon"] = json!([{"base64data": "eA==", "mediatype": "image/png"}]);
    project.write(path, yaml::print(&base));
    let annotations = "bundle/metadata/annotations.yaml";
    let more = project.text(annotations).unwrap().to_owned() + "  com.example.versions: v4\n";
    project.write(annotations, more);
    generate(&mut project, &manifests, &options()).unwrap();
    let csv = csv(&project);
    let spec = &csv["spec"];
    assert_eq!((&spec["displayName"], &spec["replaces"]), (&json!("Web"), &json!("web-operator.v1.2.2")));
    assert_eq!(spec["icon"][0]["mediatype"], "image/png");
    let kinds = &spec["customresourcedefinitions"];
    assert_eq!((&kinds["required"][0]["name"], &kinds["owned"][0]["displayName"]), (&json!("other"), &json!("Site")));
    let fields = kinds["owned"][0]["specDescriptors"].as_array().unwrap();
    assert_eq!(fields.iter().filter(|field| field["path"] == "replicaCount").count(), 1);
    assert!(fields.len() > 5 && fields[0]["displayName"] == "Pods");
    let image = project.text("bundle.Dockerfile").unwrap();
    for label in [
        "LABEL com.example.versions=\"v4\"",
        "bundle.channels.v1=\"stable,fast\"",
        "bundle.channel.default.v1=\"stable\"",
        "bundle.package.v1=\"web-operator\"",
    ] {
        assert!(image.contains(label), "{label}: {image}");
    }
}

#[test]
fn metadata_and_dockerfile_are_kept_on_request() {
    let (mut project, manifests) = project();
    let kept = Options { metadata: Existing::Keep, ..options() };
    generate(&mut project, &manifests, &kept).unwrap();
    let annotations = "bundle/metadata/annotations.yaml";
    assert!(project.text(annotations).is_some_and(|text| text.contains("stable,fast")), "what is missing is written");
    for path in ["bundle.Dockerfile", annotations] {
        let mine = format!("# Mine.\n{}", project.text(path).unwrap());
        project.write(path, &*mine);
        generate(&mut project, &manifests, &kept).unwrap();
        assert_eq!(project.text(path), Some(&*mine));
        generate(&mut project, &manifests, &options()).unwrap();
        assert_ne!(project.text(path), Some(&*mine));
    }
}

#[test]
fn the_icon_is_the_projects_and_stays_the_users() {
    let (mut project, manifests) = project();
    generate(&mut project, &manifests, &options()).unwrap();
    project.write(ICON, "<svg/>");
    generate(&mut project, &manifests, &options()).unwrap();
    assert_eq!(csv(&project)["spec"]["icon"], json!([{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}]));
}

#[test]
fn a_csv_and_samples_among_the_manifests_are_used() {
    let (mut project, manifests) = project();
    let sample = "---\napiVersion: web.my.domain/v1\nkind: WebApp\nmetadata: {name: more}\n";
    let base = "---\nkind: ClusterServiceVersion\nspec: {displayName: Piped}\n";
    generate(&mut project, &format!("{manifests}{sample}{base}"), &options()).unwrap();
    let csv = csv(&project);
    assert_eq!(csv["spec"]["displayName"], "Piped");
    assert!(csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap().contains("\"more\""));
    assert!(files(&project).iter().all(|file| !file.contains("more")));
}

#[test]
fn a_malformed_base_is_an_error() {
    let (mut project, manifests) = project();
    let base = "config/manifests/bases/web-operator.clusterserviceversion.yaml";
    for text in ["[]", "metadata: x", "metadata: {annotations: []}", "spec: {customresourcedefinitions: x}", "a: b: c"]
    {
        project.write(base, text);
        let error = generate(&mut project, &manifests, &options()).unwrap_err().to_string();
        assert!(error.contains("clusterserviceversion.yaml"), "{text}: {error}");
    }
}

#[test]
fn manifests_without_an_operator_are_refused_and_doubtful_ones_are_named() {
    let (mut project, manifests) = project();
    let error = generate(&mut project, "kind: Service\n", &options()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the standard input: no Deployment is among the manifests");
    let more = "---\napiVersion: x/v1\nkind: Odd\nmetadata: {name: odd}\n";
    let manifests = manifests.replace("example.com/web:v1", "controller:latest");
    let notes = generate(&mut project, &format!("{manifests}{more}"), &options()).unwrap();
    assert!(notes.iter().any(|note| note.contains("OLM may refuse the Odd odd")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("the image is controller:latest")), "{notes:?}");
}
