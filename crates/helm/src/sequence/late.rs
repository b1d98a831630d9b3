//! Finds pods that need an object of the same chart that comes in a later round. If the later rounds wait for the pod,
//! a first install never gets there.

use std::collections::BTreeMap;
use std::fmt;

use go_encoding::{json, yaml};
use serde_json::Value;

use super::Sequence;
use crate::manifest::Manifest;

/// A pod waits for what comes only after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Late {
    /// The object with the pod: kind and name.
    pub object: (String, String),
    /// Its round, which counts from 1.
    pub round: u16,
    /// What the pod needs: kind and name.
    pub needs: (&'static str, String),
    /// The round of that.
    pub comes: u16,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Late { object, round, needs, comes } = self;
        write!(
            f,
            "{} {} of round {round} needs {} {}, which comes in round {comes} only: put that into the same group, or one before",
            object.0, object.1, needs.0, needs.1
        )
    }
}

impl Sequence {
    /// Returns what pods of these objects, which the order is of, need too early. Only rounds that others wait for
    /// count.
    pub fn late(&self, manifests: &[Manifest]) -> Vec<Late> {
        let turns = self.turns(manifests.len());
        let known: BTreeMap<(&str, &str), u16> = manifests
            .iter()
            .zip(&turns)
            .map(|(one, turn)| ((one.head.kind.as_str(), one.head.name.as_str()), turn.round()))
            .collect();
        let mut late = Vec::new();
        for (one, turn) in manifests.iter().zip(&turns).filter(|(_, turn)| turn.is_awaited()) {
            let Ok(object) = yaml::parse(one.content.as_bytes()) else { continue };
            for (kind, name) in needs(&json::to_serde(&object)) {
                let comes = known.get(&(kind, name.as_str())).copied().unwrap_or_default();
                if comes > turn.round() {
                    let object = (one.head.kind.clone(), one.head.name.clone());
                    late.push(Late { object, round: turn.round(), needs: (kind, name), comes });
                }
            }
        }
        late.sort();
        late.dedup();
        late
    }
}

/// Returns what the pods of an object cannot run without.
fn needs(object: &Value) -> Vec<(&'static str, String)> {
    let spec = match object["kind"].as_str() {
        Some("Pod") => &object["spec"],
        Some("CronJob") => &object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        _ => &object["spec"]["template"]["spec"],
    };
    let mut needs = Needs(Vec::new());
    needs.add("ServiceAccount", spec, "serviceAccountName");
    for volume in items(&spec["volumes"]) {
        needs.add("PersistentVolumeClaim", &volume["persistentVolumeClaim"], "claimName");
        needs.add("ConfigMap", &volume["configMap"], "name");
        needs.add("Secret", &volume["secret"], "secretName");
        for source in items(&volume["projected"]["sources"]) {
            needs.add("ConfigMap", &source["configMap"], "name");
            needs.add("Secret", &source["secret"], "name");
        }
    }
    for container in ["initContainers", "containers"].into_iter().flat_map(|key| items(&spec[key])) {
        for from in items(&container["envFrom"]) {
            needs.add("ConfigMap", &from["configMapRef"], "name");
            needs.add("Secret", &from["secretRef"], "name");
        }
        for from in items(&container["env"]).map(|variable| &variable["valueFrom"]) {
            needs.add("ConfigMap", &from["configMapKeyRef"], "name");
            needs.add("Secret", &from["secretKeyRef"], "name");
        }
    }
    needs.0
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Kinds and names.
struct Needs(Vec<(&'static str, String)>);

impl Needs {
    /// Adds the object that a reference names, unless the pod also runs without it.
    fn add(&mut self, kind: &'static str, reference: &Value, key: &str) {
        if let Some(name) = reference[key].as_str().filter(|name| !name.is_empty() && reference["optional"] != true) {
            self.0.push((kind, name.to_owned()));
        }
    }
}
