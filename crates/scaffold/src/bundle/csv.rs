//! The ClusterServiceVersion: the base's fields, and those that follow from manifests, samples and charts.

use heck::ToTitleCase as _;
use serde_json::{Map, Value as Json, json};

use super::descriptors;
use super::parts::Parts;
use crate::gvk::Gvk;

/// A kind that a chart serves, and the (API version, kind) of the objects that the chart creates.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) gvk: Gvk,
    pub(super) kinds: Vec<(String, String)>,
}

/// Returns the CSV without its name.
pub(super) fn assemble(base: &Json, parts: &Parts, examples: &[Json], charts: &[Chart]) -> Json {
    let mut csv = base.clone();
    csv["apiVersion"] = "operators.coreos.com/v1alpha1".into();
    csv["kind"] = "ClusterServiceVersion".into();
    let annotations = &mut csv["metadata"]["annotations"];
    annotations["alm-examples"] = serde_json::to_string_pretty(examples).unwrap_or_default().into();
    if annotations["capabilities"].is_null() {
        annotations["capabilities"] = "Basic Install".into();
    }
    annotations["containerImage"] = parts.deployments[0]["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let spec = &mut csv["spec"];
    let known = spec["customresourcedefinitions"]["owned"].as_array().cloned().unwrap_or_default();
    let owned: Vec<Json> = parts.definitions.iter().flat_map(|crd| owned(crd, charts, &known)).collect();
    spec["customresourcedefinitions"]["owned"] = owned.into();
    spec["install"] = install(parts);
    csv
}

/// Names the CSV after the package and its version.
pub(super) fn name(csv: &mut Json, package: &str, version: &str) {
    csv["metadata"]["name"] = format!("{package}.v{version}").into();
    csv["metadata"]["namespace"] = "placeholder".into();
    csv["spec"]["version"] = version.into();
}

fn install(parts: &Parts) -> Json {
    let deployment = |deployment: &Json| {
        let (name, labels) = (&deployment["metadata"]["name"], &deployment["metadata"]["labels"]);
        json!({"name": name, "label": labels, "spec": deployment["spec"]})
    };
    let mut spec = json!({"deployments": parts.deployments.iter().map(deployment).collect::<Vec<_>>()});
    for (key, list) in [("clusterPermissions", &parts.cluster_permissions), ("permissions", &parts.permissions)] {
        if !list.is_empty() {
            spec[key] = list.clone().into();
        }
    }
    json!({"strategy": "deployment", "spec": spec})
}

/// Returns the entries of a definition: one per served version. Fields of a `known` entry win.
fn owned(crd: &Json, charts: &[Chart], known: &[Json]) -> Vec<Json> {
    let (spec, name) = (&crd["spec"], &crd["metadata"]["name"]);
    let kind = spec["names"]["kind"].as_str().unwrap_or_default();
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let entry = |version: &Json| {
        let chart = charts.iter().find(|chart| {
            chart.gvk.kind == kind && spec["group"] == chart.gvk.group && version["name"] == chart.gvk.version
        });
        let schema = &version["schema"]["openAPIV3Schema"];
        let status = match chart {
            Some(_) => descriptors::of_chart_status(),
            None => descriptors::of_status(&schema["properties"]["status"]),
        };
        let mut entry = json!({
            "name": name,
            "kind": kind,
            "version": version["name"],
            "displayName": kind.to_title_case(),
            "description": schema["description"].as_str().unwrap_or(kind),
            "specDescriptors": descriptors::of_spec(&schema["properties"]["spec"]),
            "statusDescriptors": status,
        });
        if let Some(chart) = chart {
            entry["resources"] = chart.kinds.iter().map(resource).collect();
        }
        let known = known.iter().find(|known| known["name"] == *name && known["version"] == version["name"]);
        known.and_then(Json::as_object).into_iter().for_each(|known| overlay(&mut entry, known));
        entry
    };
    versions.iter().filter(|version| version["served"] == true).map(entry).collect()
}

fn resource((api_version, kind): &(String, String)) -> Json {
    let version = api_version.rsplit('/').next().unwrap_or(api_version);
    json!({"kind": kind, "name": "", "version": version})
}

/// Merges the user's fields into an entry. Descriptors replace those with the same path and keep the others.
fn overlay(entry: &mut Json, known: &Map<String, Json>) {
    for (key, value) in known {
        let Some(given) = value.as_array().filter(|_| key.ends_with("Descriptors")) else {
            entry[key.as_str()] = value.clone();
            continue;
        };
        let mut merged = given.clone();
        let generated = entry[key.as_str()].as_array().cloned().unwrap_or_default();
        merged.extend(generated.into_iter().filter(|one| given.iter().all(|own| own["path"] != one["path"])));
        entry[key.as_str()] = merged.into();
    }
}
