//! Builds the definitions of the program's own kinds, with all their versions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::crd::merge_crds;
use serde_json::Value;

use super::Error;

/// Returns each kind's definition as JSON, in the order of their first versions, which are the stored ones.
///
/// # Errors
/// Versions of a kind differ in something that they must share, such as the scope.
pub(super) fn merged(all: &[CustomResourceDefinition]) -> Result<Vec<Value>, Error> {
    let is_first = |at: usize| all[..at].iter().all(|earlier| earlier.metadata.name != all[at].metadata.name);
    (0..all.len()).filter(|at| is_first(*at)).map(|at| with_versions(&all[at], &all[at + 1..])).collect()
}

/// Returns a kind's definition, merged with its later versions.
fn with_versions(first: &CustomResourceDefinition, later: &[CustomResourceDefinition]) -> Result<Value, Error> {
    let mut versions = vec![first.clone()];
    for other in later.iter().filter(|other| other.metadata.name == first.metadata.name) {
        if versions.iter().all(|known| version(known) != version(other)) {
            versions.push(other.clone());
        }
    }
    // The merge takes them from the end.
    versions[1..].reverse();
    let merged = merge_crds(versions, version(first));
    let kind = &first.spec.names.kind;
    let merged = merged.map_err(|source| Error::Versions { kind: kind.clone(), source: Box::new(source) })?;
    serde_json::to_value(merged).map_err(|source| Error::Versions { kind: kind.clone(), source: Box::new(source) })
}

fn version(definition: &CustomResourceDefinition) -> &str {
    definition.spec.versions.first().map_or("", |version| &version.name)
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt as _;

    use super::*;

    mod v1 {
        #[derive(Clone, Debug, kube::CustomResource, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[kube(group = "example.com", version = "v1", kind = "Alpha", namespaced)]
        pub(super) struct AlphaSpec {}

        #[derive(Clone, Debug, kube::CustomResource, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[kube(group = "example.com", version = "v1", kind = "Beta")]
        pub(super) struct BetaSpec {}
    }

    mod v2 {
        #[derive(Clone, Debug, kube::CustomResource, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[kube(group = "example.com", version = "v2", kind = "Alpha", namespaced)]
        pub(super) struct AlphaSpec {}

        #[derive(Clone, Debug, kube::CustomResource, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[kube(group = "example.com", version = "v2", kind = "Beta", namespaced)]
        pub(super) struct BetaSpec {}
    }

    #[test]
    fn versions_of_a_kind_share_a_definition_and_the_first_is_stored() {
        let merged = merged(&[v1::Alpha::crd(), v1::Beta::crd(), v2::Alpha::crd(), v1::Alpha::crd()]).unwrap();
        let name = |definition: &Value| definition["metadata"]["name"].clone();
        assert_eq!(merged.iter().map(name).collect::<Vec<_>>(), ["alphas.example.com", "betas.example.com"]);
        let versions = merged[0]["spec"]["versions"].as_array().unwrap();
        let versions: Vec<_> = versions.iter().map(|v| (v["name"].as_str().unwrap(), &v["storage"] == true)).collect();
        assert_eq!(versions, [("v1", true), ("v2", false)]);
    }

    #[test]
    fn versions_with_different_scopes_are_an_error() {
        let error = merged(&[v1::Beta::crd(), v2::Beta::crd()]).unwrap_err();
        assert!(error.to_string().contains("versions of Beta"), "{error}");
    }
}
