//! `generate policies`: writes ValidatingAdmissionPolicies that enforce watches.yaml at the API server.
//!
//! One policy per kind restricts what a resource may request; another restricts what the operator's account writes. The
//! operator enforces the same rules itself. The policies refuse earlier, and still hold if the operator has a bug. CEL
//! cannot measure the size of a `spec`.

use std::collections::BTreeSet;

use helm::engine::spelled_out;
use serde_json::{Value as Json, json};

use crate::annotations::{self, PREFIX};
use crate::crd::{HEADER, kept};
use crate::definitions::Definitions;
use crate::deployment::Deployment;
use crate::watches::{self, Watch};
use crate::{Error, Existing, Project, chart, kustomize, yaml};

/// The folder of the policies. `config/default` does not list it, because policies require permissions that the
/// operator's installer may not have.
const FOLDER: &str = "config/policies";

/// The start of the folder's kustomization.
const LIST: &str = "# kubectl apply -k config/policies\nresources:\n- __entry__\n";

/// The annotation on each object of a release.
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Writes the policies of all kinds in watches.yaml, and of the operator's writes. Returns notes.
///
/// # Errors
/// Fails if a chart does not load, or a list of `config` cannot be edited.
pub fn generate(project: &mut Project, existing: Existing) -> Result<Vec<String>, Error> {
    let (watches, definitions) = (watches::read(project)?, Definitions::of(project)?);
    let (mut notes, mut done) = (Vec::new(), BTreeSet::new());
    for watch in &watches {
        if done.insert((watch.gvk.group.clone(), watch.gvk.kind.clone())) {
            let plural = definitions.plural(&watch.gvk.group, &watch.gvk.kind);
            let file = format!("{}_resources.yaml", watch.gvk.lower());
            notes.extend(write(project, &file, &of_resources(watch, &plural), existing)?);
        }
    }
    let account = account(project)?;
    let objects = of_objects(project, &watches, &account)?;
    notes.extend(write(project, "objects.yaml", &objects, existing)?);
    Ok(notes)
}

/// Writes and lists a file, unless it belongs to the user.
fn write(project: &mut Project, file: &str, documents: &[Json], existing: Existing) -> Result<Vec<String>, Error> {
    let path = format!("{FOLDER}/{file}");
    if let Some(kept) = kept(project, &path, existing) {
        return Ok(vec![kept]);
    }
    let texts: Vec<String> = documents.iter().map(yaml::print).collect();
    project.write(path, format!("{HEADER} policies' from watches.yaml; do not edit.\n{}", texts.join("---\n")));
    kustomize::add(project, FOLDER, ("kustomization.yaml", LIST), file)?;
    Ok(Vec::new())
}

/// Returns the operator's username at the API server, with the names that kustomize generates.
fn account(project: &Project) -> Result<String, Error> {
    let (deployment, default) = (Deployment::of(project)?, kustomize::content(project, "config/default")?);
    let namespace = default["namespace"].as_str().unwrap_or(&deployment.namespace);
    let prefix = default["namePrefix"].as_str().unwrap_or_default();
    Ok(format!("system:serviceaccount:{namespace}:{prefix}{}", deployment.account))
}

fn policy(name: &str, spec: Json) -> [Json; 2] {
    let (api, metadata) = ("admissionregistration.k8s.io/v1", json!({"name": name}));
    let bound = json!({"policyName": name, "validationActions": ["Deny"]});
    [
        json!({"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec}),
        json!({"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": bound}),
    ]
}

/// Returns the policy for requests about resources. An unchanged annotation is never refused, because finalizers must
/// remain removable.
fn of_resources(watch: &Watch, plural: &str) -> [Json; 2] {
    let changed = "has(object.metadata.annotations) ? object.metadata.annotations.filter(k, k in variables.known \
        && !(oldObject != null && has(oldObject.metadata.annotations) && k in oldObject.metadata.annotations \
        && oldObject.metadata.annotations[k] == object.metadata.annotations[k])) : []";
    let variables = json!([
        {"name": "known", "expression": list(watch.refused_annotations.iter())},
        {"name": "changed", "expression": changed},
    ]);
    let gvk = &watch.gvk;
    let rule = json!({
        "apiGroups": [gvk.group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [plural],
    });
    let validation = json!({
        "expression": "variables.changed.size() == 0",
        "messageExpression": "'watches.yaml of the operator does not allow the annotation ' + variables.changed[0]",
        "reason": "Forbidden",
    });
    let name = format!("{plural}.{}", if gvk.group.is_empty() { "core" } else { &gvk.group });
    policy(
        &format!("helm-operator-{name}"),
        json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "variables": variables,
            "validations": [validation],
        }),
    )
}

/// Returns the policy for the writes of the operator's account.
fn of_objects(project: &Project, watches: &[Watch], account: &str) -> Result<[Json; 2], Error> {
    let (mut namespaces, mut kinds) = (Some(BTreeSet::new()), Some(BTreeSet::new()));
    for watch in watches {
        let spelled = spelled_out(&*chart::of(project, &watch.place)?);
        join(&mut namespaces, &watch.objects["namespaces"], &spelled.namespaces);
        join(&mut kinds, &watch.objects["clusterScoped"], &spelled.kinds);
    }
    let mut validations = Vec::new();
    if let Some(namespaces) = namespaces {
        let is_open = format!("object.metadata.namespace in {}", list(namespaces.iter()));
        validations.push(json!({
            "expression": format!("!has(object.metadata.namespace) || object.metadata.namespace == variables.release || {is_open}"),
            "message": "objects: {namespaces: […]} in watches.yaml of the operator does not allow this namespace",
            "reason": "Forbidden",
        }));
    }
    if let Some(kinds) = kinds {
        validations.push(json!({
            "expression": format!("has(object.metadata.namespace) || object.kind in {}", list(kinds.iter())),
            "message": "objects: {clusterScoped: […]} in watches.yaml of the operator does not allow this kind",
            "reason": "Forbidden",
        }));
    }
    if validations.is_empty() {
        // A policy needs at least one validation.
        validations.push(json!({"expression": "true"}));
    }
    let rule =
        json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["*"]});
    let is_ours = format!(
        "request.userInfo.username == {} && has(object.metadata.annotations) && {} in object.metadata.annotations",
        text(account),
        text(RELEASE_NAMESPACE)
    );
    let release = format!("object.metadata.annotations[{}]", text(RELEASE_NAMESPACE));
    let name =
        format!("helm-operator-objects-{}", account.trim_start_matches("system:serviceaccount:").replace(':', "."));
    Ok(policy(
        &name,
        json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "objects-of-releases", "expression": is_ours}],
            "variables": [{"name": "release", "expression": release}],
            "validations": validations,
        }),
    ))
}

/// Adds the permissions of one watch to those of others; `None` means any.
fn join(all: &mut Option<BTreeSet<String>>, granted: &Json, chart: &BTreeSet<String>) {
    let Some(names) = all else { return };
    // The policy compares kinds without their group.
    let kind = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    let chart = chart.iter().map(|name| kind(name));
    match granted {
        Json::String(word) if word == "any" => *all = None,
        Json::String(word) if word != "chart" => {}
        Json::Array(more) => names.extend(chart.chain(more.iter().filter_map(Json::as_str).map(kind))),
        _ => names.extend(chart),
    }
}

/// Returns a list of strings in CEL.
fn list<'a>(texts: impl Iterator<Item = &'a String>) -> String {
    format!("[{}]", texts.map(|one| text(one)).collect::<Vec<_>>().join(", "))
}

/// Returns a string in CEL, which has JSON's escapes.
fn text(text: &str) -> String {
    Json::from(text).to_string()
}

/// Returns the annotations, with their prefix, that the entry of watches.yaml does not allow.
pub(crate) fn refused_annotations(entry: &Json) -> Vec<String> {
    let named = |key: &str| format!("{PREFIX}{key}");
    let renamed: BTreeSet<&str> =
        entry["annotations"].as_object().into_iter().flatten().map(|(key, _)| &**key).collect();
    let allowed: Option<Vec<&str>> =
        entry["allowedAnnotations"].as_array().map(|keys| keys.iter().filter_map(Json::as_str).collect());
    let is_refused = |key: &&str| {
        renamed.contains(key)
            || allowed.as_ref().is_some_and(|allowed| !allowed.contains(key))
            || (*key == "adopt" && entry["adopt"] == "never")
            || (*key == "depends-on" && !entry["dependsOnAnnotation"].is_object())
            || (*key == "values-from" && matches!(entry["valuesFromAnnotation"], Json::Null | Json::Bool(false)))
    };
    annotations::all().filter(is_refused).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(keys: &str, template: &str) -> Project {
        let watches = format!("- {{group: c.a.b, version: v1, kind: Web, chart: web{keys}}}\n");
        let mut project = Project::from_files([
            ("watches.yaml", watches.as_str()),
            ("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            ("web/templates/a.yaml", template),
            ("config/default/kustomization.yaml", "namespace: web-system\nnamePrefix: web-\n"),
        ]);
        assert_eq!(generate(&mut project, Existing::Keep).unwrap(), [""; 0]);
        project
    }

    #[test]
    fn a_policy_names_the_annotations_that_the_watch_refuses() {
        let text = |keys: &str| project(keys, "").text("config/policies/web_resources.yaml").unwrap().to_owned();
        let default = text("");
        assert!(default.starts_with(HEADER) && default.contains("name: helm-operator-webs.c.a.b"), "{default}");
        let refused = "[\"helm.sdk.operatorframework.io/depends-on\", \"helm.sdk.operatorframework.io/values-from\"]";
        assert!(default.contains(refused), "{default}");
        assert!(!text(", valuesFromAnnotation: true").contains("values-from"));
        assert!(!text(", dependsOnAnnotation: {kinds: [Secret]}").contains("depends-on"));
        assert!(text(", adopt: never").contains("helm.sdk.operatorframework.io/adopt"));
        let few = text(", allowedAnnotations: [suspend], annotations: {pause: a/b}");
        assert!(few.contains("/retry-now") && few.contains("/pause") && !few.contains("/suspend"), "{few}");
    }

    #[test]
    fn a_policy_holds_the_operators_account_to_what_charts_and_watches_name() {
        let template =
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  namespace: kube-system\n";
        let objects = |keys: &str| project(keys, template).text("config/policies/objects.yaml").unwrap().to_owned();
        let default = objects("");
        for part in
            ["system:serviceaccount:web-system:web-controller-manager", "[\"kube-system\"]", "[\"ClusterRole\"]"]
        {
            assert!(default.contains(part), "{part}: {default}");
        }
        let more = objects(", objects: {namespaces: [far], clusterScoped: none}");
        assert!(more.contains("[\"far\", \"kube-system\"]") && more.contains("object.kind in []"), "{more}");
        let any = objects(", objects: {namespaces: any, clusterScoped: any}");
        assert!(any.contains("expression: 'true'") || any.contains("expression: \"true\""), "{any}");
        assert_eq!(project("", "").text("config/policies/kustomization.yaml").unwrap().matches("- ").count(), 2);
    }
}
