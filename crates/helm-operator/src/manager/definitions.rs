//! Builds the definitions of the program's own kinds, with all their versions.

use controller::webhooks::Webhooks;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::crd::merge_crds;
use scaffold::webhooks::Service;
use serde_json::Value;

use super::Error;
use super::integers::bounded;

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
    let merged = merge_crds(versions.into_iter().map(bounded).collect(), version(first));
    let kind = &first.spec.names.kind;
    let merged = merged.map_err(|source| Error::Versions { kind: kind.clone(), source: Box::new(source) })?;
    serde_json::to_value(merged).map_err(|source| Error::Versions { kind: kind.clone(), source: Box::new(source) })
}

/// Makes each definition whose objects the program converts name the Service of its webhooks, from the first apply on.
/// Until a process serves it, objects can be read and written only in the stored version.
pub(super) fn convert_at(service: &Service, webhooks: &Webhooks, definitions: &mut [Value]) {
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(conversion) = webhooks.conversion(name, (&service.name, &service.namespace)) {
            definition["spec"]["conversion"] = conversion;
        }
    }
}

fn version(definition: &CustomResourceDefinition) -> &str {
    definition.spec.versions.first().map_or("", |version| &version.name)
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt as _;
    use serde_json::json;

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

    impl From<v1::Alpha> for v2::Alpha {
        fn from(old: v1::Alpha) -> v2::Alpha {
            v2::Alpha { metadata: old.metadata, spec: v2::AlphaSpec {} }
        }
    }

    impl From<v2::Alpha> for v1::Alpha {
        fn from(new: v2::Alpha) -> v1::Alpha {
            v1::Alpha { metadata: new.metadata, spec: v1::AlphaSpec {} }
        }
    }

    #[test]
    fn no_version_is_served_without_its_conversion() {
        let mut definitions = merged(&[v1::Alpha::crd(), v1::Beta::crd(), v2::Alpha::crd()]).unwrap();
        let webhooks = Webhooks::new().convert::<v1::Alpha, v2::Alpha>();
        let service = Service { name: "alpha-webhook".into(), namespace: "alpha-system".into() };
        convert_at(&service, &webhooks, &mut definitions);
        let path = "/convert/example.com/alphas";
        let service = json!({"name": "alpha-webhook", "namespace": "alpha-system", "path": path, "port": 443});
        let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}});
        assert_eq!(definitions[0]["spec"]["conversion"], json!({"strategy": "Webhook", "webhook": webhook}));
        assert!(definitions[1]["spec"].get("conversion").is_none(), "it has one version");
    }

    #[test]
    fn versions_with_different_scopes_are_an_error() {
        let error = merged(&[v1::Beta::crd(), v2::Beta::crd()]).unwrap_err();
        assert!(error.to_string().contains("versions of Beta"), "{error}");
    }
}
