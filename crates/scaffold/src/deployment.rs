//! Finds how the project deploys the operator: its ServiceAccount and the namespaces that it serves.

use serde_json::Value as Json;

use crate::documents::{self, Document};
use crate::{Error, Project, kustomize};

/// The account of pods that do not name one.
const DEFAULT_ACCOUNT: &str = "default";

/// The account and namespace that operator-sdk writes, for projects without a Deployment.
const SDK_ACCOUNT: &str = "controller-manager";
const SDK_NAMESPACE: &str = "system";

/// The folders to search for Deployments: today's layout, then the one before kustomize.
const FOLDERS: [&str; 3] = ["config/manager", "config", "deploy"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deployment {
    /// The ServiceAccount's name.
    pub(crate) account: String,
    /// The namespace in the project's files; kustomize may replace it later.
    pub(crate) namespace: String,
    /// The namespaces that the operator serves.
    pub(crate) watched: Watched,
}

/// The namespaces that an operator serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    All,
    Own,
    /// A list, or known only in the cluster.
    Some,
}

impl Deployment {
    /// Finds the operator's Deployment. A project without one gets operator-sdk's names.
    pub(crate) fn of(project: &Project) -> Result<Deployment, Error> {
        let found = find(project)?;
        let pod = found.as_ref().map(|one| &one.content["spec"]["template"]["spec"]);
        let Some((document, pod)) = found.as_ref().zip(pod) else {
            let (account, namespace) = (SDK_ACCOUNT.to_owned(), SDK_NAMESPACE.to_owned());
            return Ok(Deployment { account, namespace, watched: Watched::All });
        };
        let account = ["serviceAccountName", "serviceAccount"].iter().find_map(|key| pod[*key].as_str());
        let account = account.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_ACCOUNT);
        let namespace = Some(document.text("/metadata/namespace")).filter(|name| !name.is_empty());
        Ok(Deployment {
            account: account.to_owned(),
            namespace: namespace.unwrap_or(SDK_NAMESPACE).to_owned(),
            watched: watched(pod),
        })
    }
}

/// Returns whether the project deploys the operator.
pub(crate) fn exists(project: &Project) -> Result<bool, Error> {
    Ok(find(project)?.is_some())
}

/// Returns the labels that select the operator's pods: operator-sdk's for a project without a Deployment.
pub(crate) fn selector(project: &Project) -> Result<Json, Error> {
    let labels = find(project)?.map(|one| one.content["spec"]["selector"]["matchLabels"].clone());
    let labels = labels.filter(Json::is_object);
    Ok(labels.unwrap_or_else(|| serde_json::json!({"control-plane": "controller-manager"})))
}

/// Returns the arguments of the operator's container; empty for a project without a Deployment.
pub(crate) fn arguments(project: &Project) -> Result<Vec<String>, Error> {
    let Some(document) = find(project)? else { return Ok(Vec::new()) };
    let manager = containers(&document).find(|one| one["name"] == "manager").or_else(|| containers(&document).next());
    let arguments = manager.and_then(|one| one["args"].as_array()).into_iter().flatten();
    Ok(arguments.filter_map(Json::as_str).map(str::to_owned).collect())
}

/// Returns the Deployment of a manager, or the only one.
fn find(project: &Project) -> Result<Option<Document>, Error> {
    for folder in FOLDERS {
        let mut paths = kustomize::files(project, folder)?;
        let below = project.below(folder).map(|(path, _)| format!("{folder}/{path}"));
        paths.extend(below.filter(|path| path.ends_with(".yaml") || path.ends_with(".yml")));
        let documents = paths.iter().flat_map(|path| documents::valid(project, path));
        let mut found: Vec<Document> = documents.filter(|one| one.is("apps", "Deployment") && is_whole(one)).collect();
        let manager = found.iter().position(|one| containers(one).any(|container| container["name"] == "manager"));
        if !found.is_empty() {
            return Ok(Some(found.swap_remove(manager.unwrap_or(0))));
        }
    }
    Ok(None)
}

/// Returns whether the document is a whole Deployment: patches lack most fields.
fn is_whole(document: &Document) -> bool {
    document.content["spec"]["selector"].is_object()
}

fn containers(document: &Document) -> impl Iterator<Item = &Json> {
    document.content["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten()
}

fn watched(pod: &Json) -> Watched {
    let containers = pod["containers"].as_array().into_iter().flatten();
    let variables = containers.flat_map(|one| one["env"].as_array().into_iter().flatten());
    let Some(variable) = variables.into_iter().find(|one| one["name"] == "WATCH_NAMESPACE") else {
        return Watched::All;
    };
    match (variable["value"].as_str(), variable["valueFrom"]["fieldRef"]["fieldPath"].as_str()) {
        (_, Some("metadata.namespace")) => Watched::Own,
        (Some(""), _) => Watched::All,
        (None, None) if variable.get("valueFrom").is_none() => Watched::All,
        _ => Watched::Some,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(name: &str, pod: &str) -> String {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: there}}\nspec:\n  selector: {{}}\n  template: {{spec: {pod}}}\n"
        )
    }

    fn of(files: &[(&str, &str)]) -> Deployment {
        Deployment::of(&Project::from_files(files.iter().map(|(path, text)| (*path, *text)))).unwrap()
    }

    #[test]
    fn the_account_is_the_one_that_the_managers_pod_runs_as() {
        let account = |pod: &str| of(&[("config/manager/manager.yaml", &deployment("a", pod))]).account;
        assert_eq!(account("{serviceAccountName: operator}"), "operator");
        assert_eq!(account("{serviceAccount: old}"), "old");
        assert_eq!(account("{}"), "default");
        assert_eq!(of(&[]).account, "controller-manager");
        let both = format!(
            "{}---\n{}",
            deployment("webhook", "{}"),
            deployment("a", "{serviceAccountName: b, containers: [{name: manager}]}")
        );
        let found = of(&[
            ("config/other/all.yaml", &both),
            ("config/default/patch.yaml", "apiVersion: apps/v1\nkind: Deployment\n"),
        ]);
        assert_eq!((found.account.as_str(), found.namespace.as_str()), ("b", "there"));
        let old = of(&[("deploy/operator.yaml", &deployment("a", "{serviceAccountName: c}"))]);
        assert_eq!(old.account, "c");
    }

    #[test]
    fn the_served_namespaces_follow_from_the_environment() {
        let check = |variable: &str, expected: Watched| {
            let pod = format!("{{containers: [{{name: manager, env: [{variable}]}}]}}");
            assert_eq!(of(&[("config/manager/manager.yaml", &deployment("a", &pod))]).watched, expected, "{variable}");
        };
        check("", Watched::All);
        check("{name: WATCH_NAMESPACE, value: ''}", Watched::All);
        check("{name: WATCH_NAMESPACE, value: 'a,b'}", Watched::Some);
        check("{name: WATCH_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}", Watched::Own);
        check(
            "{name: WATCH_NAMESPACE, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['olm.targetNamespaces']\"}}}",
            Watched::Some,
        );
    }
}
