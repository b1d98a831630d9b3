//! The kinds of definitions that a rehearsal created: discovery names them, and requests for their objects, which the API
//! server would not know, are answered from memory.

use outside::Target;
use serde_json::{Value, json};

/// What can be done with a custom resource.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// A kind in one version of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Defined {
    group: String,
    version: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) namespaced: bool,
}

impl Defined {
    /// Returns the kinds of a CustomResourceDefinition, one for each version that it serves; none of another object.
    pub(super) fn of(definition: &Value) -> Vec<Defined> {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
        let of = |version: &Value| Defined {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            kind: text(&spec["names"]["kind"]),
            plural: text(&spec["names"]["plural"]),
            namespaced: spec["scope"] == "Namespaced",
        };
        if definition["kind"] == "CustomResourceDefinition" { versions.map(of).collect() } else { Vec::new() }
    }

    pub(super) fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Returns whether a path leads to objects of this kind.
    pub(super) fn has(&self, path: &str) -> bool {
        Target::of(path).is_some_and(|target| target.plural == self.plural && target.api_version == self.api_version())
    }

    /// Adds it to an `APIGroupDiscoveryList`.
    pub(super) fn add_to(&self, discovery: &mut Value) {
        let group = entry(
            &mut discovery["items"],
            |item| item["metadata"]["name"] == *self.group,
            || json!({"metadata": {"name": self.group}}),
        );
        let version = entry(
            &mut group["versions"],
            |one| one["version"] == *self.version,
            || json!({"version": self.version, "freshness": "Current"}),
        );
        entry(
            &mut version["resources"],
            |one| one["resource"] == *self.plural,
            || {
                json!({
                    "resource": self.plural,
                    "responseKind": {"group": self.group, "version": self.version, "kind": self.kind},
                    "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                    "verbs": VERBS,
                })
            },
        );
    }
}

/// Returns the first entry of a list that is meant, after adding it if there was none.
fn entry(list: &mut Value, is_meant: impl Fn(&Value) -> bool, new: impl Fn() -> Value) -> &mut Value {
    if !list.is_array() {
        *list = json!([]);
    }
    let known = list.as_array().into_iter().flatten().position(is_meant);
    let at = known.unwrap_or_else(|| list.as_array().map_or(0, Vec::len));
    if let (None, Some(list)) = (known, list.as_array_mut()) {
        list.push(new());
    }
    &mut list[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(scope: &str) -> Value {
        json!({"kind": "CustomResourceDefinition", "spec": {
            "group": "a.b", "scope": scope, "names": {"kind": "Shop", "plural": "shops"},
            "versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}, {"name": "v2", "served": true}],
        }})
    }

    #[test]
    fn a_definition_adds_the_versions_that_it_serves_to_discovery() {
        let mut discovery = json!({"items": [{"metadata": {"name": "apps"}, "versions": []}]});
        let defined = Defined::of(&definition("Namespaced"));
        for _ in 0..2 {
            defined.iter().for_each(|one| one.add_to(&mut discovery));
        }
        let versions = discovery["items"][1]["versions"].as_array().unwrap();
        let names: Vec<&str> = versions.iter().filter_map(|version| version["version"].as_str()).collect();
        assert_eq!((names, discovery["items"].as_array().unwrap().len()), (vec!["v1", "v2"], 2));
        let resource = &versions[1]["resources"][0];
        assert_eq!((&resource["resource"], &resource["scope"]), (&json!("shops"), &json!("Namespaced")));
        assert_eq!(resource["responseKind"], json!({"group": "a.b", "version": "v2", "kind": "Shop"}));
        let mut nothing = Value::Null;
        Defined::of(&definition("Cluster"))[0].add_to(&mut nothing);
        assert_eq!(nothing["items"][0]["versions"][0]["resources"][0]["scope"], "Cluster");
    }

    #[test]
    fn its_objects_are_those_of_its_group_version_and_plural() {
        let defined = &Defined::of(&definition("Namespaced"))[0];
        for (path, expected) in [
            ("/apis/a.b/v1/namespaces/n/shops/s", true),
            ("/apis/a.b/v1/namespaces/n/shops", true),
            ("/apis/a.b/v2/namespaces/n/shops/s", false),
            ("/apis/a.c/v1/namespaces/n/shops/s", false),
            ("/apis/a.b/v1/namespaces/n/carts/s", false),
            ("/apis", false),
        ] {
            assert_eq!(defined.has(path), expected, "{path}");
        }
        assert!(Defined::of(&json!({"kind": "ConfigMap", "spec": {"versions": [{"served": true}]}})).is_empty());
    }
}
