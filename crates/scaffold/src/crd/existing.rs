//! The parts of an existing definition that regenerating it preserves: everything but the values' schema.

use serde_json::{Map, Value as Json, json};

/// Takes from an existing definition everything that a chart does not decide: names, scope, labels, conversion, other
/// versions, printer columns, the schema of the status, subresources, and the stored version.
pub(super) fn keep(mut new: Json, old: &Json) -> Json {
    let known: Vec<&Json> = old["spec"]["versions"].as_array().into_iter().flatten().collect();
    for pointer in ["/metadata/annotations", "/metadata/labels", "/metadata/name", "/spec/scope", "/spec/conversion"] {
        copy(&mut new, old, pointer);
    }
    for (name, value) in old["spec"]["names"].as_object().into_iter().flatten() {
        new["spec"]["names"][name.as_str()] = value.clone();
    }
    let Some(versions) = new["spec"]["versions"].as_array_mut() else { return new };
    let is_new = |version: &Json| !known.iter().any(|old| old["name"] == version["name"]);
    let has_new = versions.iter().any(is_new);
    for version in versions.iter_mut() {
        if let Some(old) = known.iter().find(|old| old["name"] == version["name"]) {
            keep_version(version, old);
        }
    }
    let names: Vec<Json> = versions.iter().map(|version| version["name"].clone()).collect();
    let others = known.iter().filter(|old| !names.contains(&old["name"])).map(|old| (*old).clone());
    let mut all: Vec<Json> = others.chain(versions.drain(..)).collect();
    all.sort_by_key(|version| known.iter().position(|old| old["name"] == version["name"]).unwrap_or(usize::MAX));
    let stored = known.iter().find(|old| old["storage"] == true).map(|old| &old["name"]);
    if let Some(stored) = stored.filter(|_| !has_new) {
        all.iter_mut().for_each(|version| version["storage"] = (version["name"] == *stored).into());
    } else {
        let last = names.last().cloned().unwrap_or_default();
        all.iter_mut().for_each(|version| version["storage"] = (version["name"] == last).into());
    }
    *versions = all;
    new
}

fn copy(new: &mut Json, old: &Json, pointer: &str) {
    let Some(value) = old.pointer(pointer).filter(|value| !value.is_null()) else { return };
    let (parents, key) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    if let Some(Json::Object(parent)) = new.pointer_mut(parents) {
        parent.insert(key.to_owned(), value.clone());
    }
}

fn keep_version(new: &mut Json, old: &Json) {
    for key in ["served", "deprecated", "deprecationWarning", "selectableFields"] {
        if let Some(value) = old.get(key) {
            new[key] = value.clone();
        }
    }
    let status = "/schema/openAPIV3Schema/properties/status";
    if old.pointer(status).is_some_and(Json::is_object) {
        copy(new, old, status);
    }
    for (name, value) in old["subresources"].as_object().into_iter().flatten() {
        new["subresources"][name.as_str()] = value.clone();
    }
    new["additionalPrinterColumns"] = columns(&new["additionalPrinterColumns"], &old["additionalPrinterColumns"]);
}

/// Merges printer columns. Existing columns precede our last one, the age; one with the name of ours replaces it.
fn columns(ours: &Json, old: &Json) -> Json {
    let list = |columns: &Json| columns.as_array().cloned().unwrap_or_default();
    let (ours, old) = (list(ours), list(old));
    let by_name = |columns: &[Json], name: &Json| columns.iter().find(|column| column["name"] == *name).cloned();
    let mut all: Vec<Json> =
        ours.iter().map(|column| by_name(&old, &column["name"]).unwrap_or_else(|| column.clone())).collect();
    let age = all.pop();
    all.extend(old.into_iter().filter(|column| by_name(&ours, &column["name"]).is_none()));
    all.extend(age);
    all.into()
}

/// Converts a definition from `apiextensions.k8s.io/v1beta1` to the API version that clusters serve; returns others
/// unchanged.
pub(super) fn upgraded(old: &Json) -> Json {
    let spec = &old["spec"];
    if old["apiVersion"] != "apiextensions.k8s.io/v1beta1" {
        return old.clone();
    }
    let mut new = old.clone();
    let listed = spec["versions"].as_array().cloned().unwrap_or_default();
    let only = json!({"name": spec["version"], "served": true, "storage": true});
    let versions = if listed.is_empty() { vec![only] } else { listed };
    let version = |version: &Json| {
        let mut version = version.as_object().cloned().unwrap_or_default();
        move_in(&mut version, spec, "subresources", "subresources");
        move_in(&mut version, spec, "additionalPrinterColumns", "additionalPrinterColumns");
        move_in(&mut version, &spec["validation"], "openAPIV3Schema", "schema");
        rename_paths(&mut version);
        Json::Object(version)
    };
    new["apiVersion"] = "apiextensions.k8s.io/v1".into();
    new["spec"]["versions"] = versions.iter().map(version).collect();
    new
}

/// Copies a field of the whole definition into a version that does not set it.
fn move_in(version: &mut Map<String, Json>, from: &Json, field: &str, into: &str) {
    let Some(value) = from.get(field).filter(|_| !version.contains_key(into)) else { return };
    let value = if into == "schema" { json!({field: value}) } else { value.clone() };
    version.insert(into.to_owned(), value);
}

/// Renames `JSONPath`, the field's name in v1beta1.
fn rename_paths(version: &mut Map<String, Json>) {
    for column in version.get_mut("additionalPrinterColumns").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(path) = column.as_object_mut().and_then(|column| column.remove("JSONPath")) {
            column["jsonPath"] = path;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> Json {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"name": "guesses.a.b"},
            "spec": {
                "names": {"kind": "Guess", "plural": "guesses", "singular": "guess"},
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "additionalPrinterColumns": [{"name": "Ready", "jsonPath": ".ours"}, {"name": "Age", "jsonPath": ".age"}],
                    "schema": {"openAPIV3Schema": {"properties": {"spec": {"description": "new"}, "status": {"description": "new"}}}},
                }],
            },
        })
    }

    #[test]
    fn what_a_chart_does_not_decide_stays() {
        let old = json!({
            "metadata": {"name": "guess.a.b", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {
                "names": {"plural": "guess", "shortNames": ["gs"], "categories": ["all"]},
                "scope": "Cluster",
                "conversion": {"strategy": "None"},
                "versions": [
                    {"name": "v1alpha1", "served": false, "storage": true},
                    {
                        "name": "v1", "served": true, "storage": false, "subresources": {"scale": {}},
                        "additionalPrinterColumns": [{"name": "Phase", "jsonPath": ".phase"}, {"name": "Ready", "jsonPath": ".theirs"}],
                        "schema": {"openAPIV3Schema": {"properties": {"spec": {"description": "old"}, "status": {"description": "old"}}}},
                    },
                ],
            },
        });
        let kept = keep(new(), &old);
        assert_eq!(kept["metadata"], old["metadata"]);
        let names = json!({"kind": "Guess", "plural": "guess", "singular": "guess", "shortNames": ["gs"], "categories": ["all"]});
        assert_eq!((&kept["spec"]["names"], &kept["spec"]["scope"]), (&names, &json!("Cluster")));
        assert_eq!(kept["spec"]["conversion"], old["spec"]["conversion"]);
        let versions = &kept["spec"]["versions"];
        assert_eq!(versions[0], old["spec"]["versions"][0]);
        assert_eq!((&versions[1]["name"], &versions[1]["storage"]), (&json!("v1"), &json!(false)));
        let columns: Vec<(&Json, &Json)> = versions[1]["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| (&c["name"], &c["jsonPath"]))
            .collect();
        assert_eq!(
            columns,
            [
                (&json!("Ready"), &json!(".theirs")),
                (&json!("Phase"), &json!(".phase")),
                (&json!("Age"), &json!(".age"))
            ]
        );
        assert_eq!(versions[1]["subresources"], json!({"status": {}, "scale": {}}));
        let schema = &versions[1]["schema"]["openAPIV3Schema"]["properties"];
        assert_eq!((&schema["spec"]["description"], &schema["status"]["description"]), (&json!("new"), &json!("old")));
        assert_eq!(keep(new(), &kept), kept);
    }

    #[test]
    fn a_definition_of_the_old_form_keeps_its_names_and_columns() {
        let old = json!({
            "apiVersion": "apiextensions.k8s.io/v1beta1",
            "spec": {
                "names": {"plural": "guess"}, "scope": "Namespaced", "version": "v1", "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Phase", "JSONPath": ".phase"}],
            },
        });
        let kept = keep(new(), &upgraded(&old));
        assert_eq!(kept["spec"]["versions"].as_array().unwrap().len(), 1);
        assert_eq!(
            kept["spec"]["versions"][0]["additionalPrinterColumns"][1],
            json!({"name": "Phase", "jsonPath": ".phase"})
        );
        assert_eq!(kept["apiVersion"], "apiextensions.k8s.io/v1");
    }
}
