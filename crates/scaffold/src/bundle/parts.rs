//! Assigns manifests to parts of the bundle. OLM creates the account and its roles itself, from the CSV.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::Error;

/// Kinds that OLM creates from separate files, next to the CSV.
const SUPPORTED: [&str; 14] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ConsoleYAMLSample",
    "CustomResourceDefinition",
    "PodDisruptionBudget",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
];

/// The manifests of an operator.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) deployments: Vec<Json>,
    pub(super) definitions: Vec<Json>,
    /// `{serviceAccountName, rules}` with cluster-wide scope.
    pub(super) cluster_permissions: Vec<Json>,
    /// `{serviceAccountName, rules}` with the scope of the operator's namespace.
    pub(super) permissions: Vec<Json>,
    /// A CSV among the manifests.
    pub(super) base: Option<Json>,
    /// Custom resources among the manifests.
    pub(super) examples: Vec<Json>,
    /// Manifests for separate files, next to the CSV.
    others: Vec<Json>,
}

impl Parts {
    /// Sorts the manifests into parts.
    ///
    /// # Errors
    /// Fails if there is no Deployment.
    pub(super) fn of(documents: Vec<Json>) -> Result<Parts, Error> {
        let mut parts = Parts::default();
        for document in documents {
            match document["kind"].as_str().unwrap_or_default() {
                "Deployment" => parts.deployments.push(document),
                "CustomResourceDefinition" => parts.definitions.push(document),
                "ClusterServiceVersion" => parts.base = Some(document),
                "Namespace" | "Kustomization" => {}
                _ => parts.others.push(document),
            }
        }
        if parts.deployments.is_empty() {
            return Err(Error::read("the standard input", "no Deployment is among the manifests"));
        }
        let others = std::mem::take(&mut parts.others);
        let (examples, others) = others.into_iter().partition(|document| parts.defines(document));
        (parts.examples, parts.others) = (examples, others);
        parts.take_permissions();
        Ok(parts)
    }

    /// Returns whether the document is of a kind that the bundle defines.
    pub(super) fn defines(&self, document: &Json) -> bool {
        let group = document["apiVersion"].as_str().and_then(|version| version.split_once('/')).map(|(group, _)| group);
        let of_kind = |crd: &&Json| crd["spec"]["names"]["kind"] == document["kind"];
        self.definitions.iter().filter(of_kind).any(|crd| crd["spec"]["group"].as_str() == group)
    }

    /// Moves the rules that bindings grant the operator's accounts into permissions.
    fn take_permissions(&mut self) {
        let account = |deployment: &Json| {
            let name = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
            name.as_str().unwrap_or("default").to_owned()
        };
        let accounts: BTreeSet<String> = self.deployments.iter().map(account).collect();
        let mut taken = BTreeSet::new();
        for (at, binding) in self.others.iter().enumerate() {
            let is_cluster = match binding["kind"].as_str() {
                Some("ClusterRoleBinding") => true,
                Some("RoleBinding") => false,
                _ => continue,
            };
            let subjects = binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
            let bound = |subject: &Json| {
                let name = subject["name"].as_str().filter(|_| subject["kind"] == "ServiceAccount")?;
                accounts.get(name)
            };
            let Some(role) = self.others.iter().position(|role| is_role(role, &binding["roleRef"])) else { continue };
            let mut subjects = subjects.iter().filter_map(bound).peekable();
            if subjects.peek().is_some() {
                taken.extend([at, role]);
            }
            let list = if is_cluster { &mut self.cluster_permissions } else { &mut self.permissions };
            subjects.for_each(|account| grant(list, account, &self.others[role]["rules"]));
        }
        let mut at = 0;
        self.others.retain(|document| {
            at += 1;
            let is_account = document["kind"] == "ServiceAccount";
            let name = document["metadata"]["name"].as_str().unwrap_or_default();
            !(taken.contains(&(at - 1)) || is_account && accounts.contains(name))
        });
    }

    /// Returns the files next to the CSV, named as operator-sdk names them.
    pub(super) fn files(&self) -> Vec<(String, Json)> {
        let definition = |crd: &Json| {
            let spec = &crd["spec"];
            (format!("{}_{}.yaml", text(&spec["group"]), text(&spec["names"]["plural"])), crd.clone())
        };
        let definitions = self.definitions.iter().map(definition);
        definitions.chain(self.others.iter().map(|document| (file(document), without_namespace(document)))).collect()
    }

    /// Returns warnings for the user.
    pub(super) fn notes(&self) -> Vec<String> {
        let refused = |document: &&Json| !SUPPORTED.contains(&text(&document["kind"]));
        let mut notes: Vec<String> = self
            .others
            .iter()
            .filter(refused)
            .map(|document| {
                let (kind, name) = (text(&document["kind"]), text(&document["metadata"]["name"]));
                format!("OLM may refuse the {kind} {name}: bundles hold only some kinds")
            })
            .collect();
        let images = self.deployments.iter().flat_map(|deployment| {
            deployment["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten()
        });
        for image in images.map(|container| text(&container["image"])).filter(|image| *image == "controller:latest") {
            notes.push(format!("the image is {image}; 'make bundle IMG=…' names one that clusters can pull"));
        }
        notes
    }
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_role(document: &Json, reference: &Json) -> bool {
    document["kind"] == reference["kind"] && document["metadata"]["name"] == reference["name"]
}

/// Adds rules to an account's entry.
fn grant(list: &mut Vec<Json>, account: &str, rules: &Json) {
    let rules = rules.as_array().cloned().unwrap_or_default();
    match list.iter_mut().find(|entry| entry["serviceAccountName"] == account) {
        Some(entry) => {
            if let Some(known) = entry["rules"].as_array_mut() {
                known.extend(rules);
            }
        }
        None => list.push(json!({"serviceAccountName": account, "rules": rules})),
    }
}

/// Returns the file name `NAME_GROUP_VERSION_KIND.yaml`.
fn file(document: &Json) -> String {
    let (version, kind) = (text(&document["apiVersion"]).replace('/', "_"), text(&document["kind"]).to_lowercase());
    format!("{}_{version}_{kind}.yaml", text(&document["metadata"]["name"]))
}

/// Removes the namespace: OLM installs into one of the user's choice.
fn without_namespace(document: &Json) -> Json {
    let mut document = document.clone();
    document["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
    document
}
