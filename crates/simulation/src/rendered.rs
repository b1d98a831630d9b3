//! What the objects of a release must be at rest (d): all that the chart renders from the resource's present values.
//!
//! A field that an actor of the simulation owns is first replaced by that actor's value. Objects that are missing or
//! left over are the subject of `quiet`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ::helm::chart::Chart;
use ::helm::engine::{Capabilities, Engine, ReleaseOptions, Request};
use helm_release::kube::{Object, objects_of};
use helm_release::release::Release;
use serde_json::Value;

use crate::actors::autoscaler;
use crate::checks::Objects;
use crate::generated::GENERATED;
use crate::names;
use crate::process::chart_files;
use crate::quiet::{End, newest, shared};

/// The annotation that puts an object into a group.
const GROUP: &str = "helm.sh/resource-group";

impl End {
    /// Checks (d) that live objects are as the chart renders them. `deployed` is the newest deployed revision.
    pub(crate) fn unlike(
        &self,
        name: &str,
        resource: &Value,
        (revision, deployed): &(u32, Release),
        objects: &Objects,
    ) -> Vec<String> {
        // If processes have different charts, or one that may wait before some releases, the record tells which one
        // counts. A later revision that failed may have changed any object.
        let has_failed = newest(name, objects).is_some_and(|(newest, _)| newest != *revision);
        if self.known_version().is_none() && has_failed {
            return Vec::new();
        }
        let version = self.known_version().unwrap_or(&deployed.chart.version);
        let is_ordered =
            self.chart.as_ref().map_or(deployed.manifest.contains(GROUP), |chart| chart.starts_with("tiers"));
        let chart = if is_ordered { "tiers" } else { "web" };
        let Some(values) = self.values(name, resource, objects) else { return Vec::new() };
        let recorded = objects_of(&deployed.manifest).unwrap_or_default();
        match rendered(name, &values, (chart, version)) {
            Ok(all) => all.iter().filter_map(|one| self.difference(name, one, &recorded, objects)).collect(),
            Err(why) => vec![format!("(d) the chart of {name} does not render: {why}")],
        }
    }

    /// Returns the values of a resource, if they are known.
    fn values(&self, name: &str, resource: &Value, objects: &Objects) -> Option<Value> {
        let mut values = self.overridden(resource)?;
        if let Some(shared) = shared(name, objects).filter(|_| self.takes_sources == Some(true)) {
            values["shared"] = shared.into();
        }
        Some(values)
    }

    /// Returns how a live object differs from a rendered one. `recorded` is what the deployed revision rendered.
    fn difference(&self, name: &str, object: &Object, recorded: &[Object], objects: &Objects) -> Option<String> {
        let path = names::object(&format!("{}s/{}", object.kind.to_lowercase(), object.name));
        let is_secret = object.kind == "Secret";
        // Only a watch that may be forbidden shows changes of these.
        let is_noticed = self.looks || !(is_secret || object.kind == "ConfigMap");
        let live = objects.get(&*path).filter(|_| is_noticed)?;
        let mut wanted = marked(name, object);
        match &*object.kind {
            "Secret" => keep_generated(&mut wanted, recorded, &object.name),
            "Deployment" => {
                if let Some(scaler) = objects.get(&*autoscaler(name)) {
                    wanted["spec"]["replicas"] = scaler["spec"]["minReplicas"].clone();
                }
            }
            // Which process rendered it last decides whether the value is that of the Secret.
            "ConfigMap" if self.takes_sources.is_none() && wanted["data"]["shared"].is_string() => {
                wanted["data"]["shared"] = live["data"]["shared"].clone();
            }
            _ => {}
        }
        let (at, found, expected) = differing(&wanted, live, "")?;
        Some(match is_secret {
            // Generated values differ between runs of one seed.
            true => format!("(d) {path}{at} is not as rendered"),
            false => format!("(d) {path}{at} is {found}, not {expected}"),
        })
    }
}

/// Replaces the generated fields of a Secret by those that a revision rendered. Each render generates others.
fn keep_generated(wanted: &mut Value, recorded: &[Object], name: &str) {
    let Some(secret) = recorded.iter().find(|object| object.kind == "Secret" && object.name == name) else { return };
    for key in GENERATED {
        if let (Some(field), Some(known)) = (wanted["data"].get_mut(key), secret.body["data"].get(key)) {
            field.clone_from(known);
        }
    }
}

/// Returns the object as it is sent, with the metadata by which Helm knows it.
fn marked(name: &str, object: &Object) -> Value {
    let mut body = object.as_sent();
    let metadata = &mut body["metadata"];
    metadata["labels"]["app.kubernetes.io/managed-by"] = "Helm".into();
    metadata["annotations"]["meta.helm.sh/release-name"] = name.into();
    metadata["annotations"]["meta.helm.sh/release-namespace"] = names::namespace(name).into();
    body
}

/// Returns the objects that a version of a chart renders for a release.
fn rendered(name: &str, values: &Value, (chart, version): (&str, &str)) -> Result<Vec<Object>, String> {
    let engine = engine(chart, version)?;
    let values = ::helm::values::read(values.to_string().as_bytes()).map_err(|error| error.to_string())?;
    let (name, namespace) = (name.to_owned(), names::namespace(name).to_owned());
    // Only hooks show the revision.
    let release = ReleaseOptions { name, namespace, revision: 1, is_upgrade: false };
    let capabilities = Capabilities::default();
    let request =
        Request { values: &values, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false };
    let rendered = engine.render(&request).map_err(|error| error.to_string())?;
    objects_of(&rendered.manifest()).map_err(|error| error.to_string())
}

/// Returns what renders a version of a chart, which all runs share.
fn engine(chart: &str, version: &str) -> Result<Arc<Engine>, String> {
    static ENGINES: Mutex<BTreeMap<(String, String), Arc<Engine>>> = Mutex::new(BTreeMap::new());
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (chart.to_owned(), version.to_owned());
    if let Some(known) = engines.get(&key) {
        return Ok(known.clone());
    }
    let chart = Chart::from_files(chart_files(chart, version)).map_err(|error| error.to_string())?;
    let made = Arc::new(Engine::new(chart));
    engines.insert(key, made.clone());
    Ok(made)
}

/// Returns the first place where a live value lacks something that is wanted or has another value, and both values.
/// What it has besides does not count, except items of lists.
fn differing<'v>(wanted: &'v Value, live: &'v Value, at: &str) -> Option<(String, &'v Value, &'v Value)> {
    match (wanted, live) {
        (Value::Object(fields), Value::Object(live)) => fields.iter().find_map(|(key, wanted)| {
            let live = live.get(key).unwrap_or(&Value::Null);
            differing(wanted, live, &format!("{at}/{key}"))
        }),
        (Value::Array(items), Value::Array(live)) if items.len() == live.len() => {
            let mut pairs = items.iter().zip(live).enumerate();
            pairs.find_map(|(index, (wanted, live))| differing(wanted, live, &format!("{at}/{index}")))
        }
        _ => (wanted != live).then(|| (at.to_owned(), live, wanted)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_others_add_do_not_count_and_missing_or_other_ones_do() {
        let wanted = json!({"data": {"a": "1"}, "list": [{"port": 80}]});
        for (live, at) in [
            (json!({"data": {"a": "1", "b": "2"}, "list": [{"port": 80, "protocol": "TCP"}], "kind": "X"}), None),
            (json!({"data": {"a": "2"}, "list": [{"port": 80}]}), Some("/data/a")),
            (json!({"data": {"b": "1"}, "list": [{"port": 80}]}), Some("/data/a")),
            (json!({"data": {"a": "1"}, "list": [{"port": 81}]}), Some("/list/0/port")),
            (json!({"data": {"a": "1"}, "list": []}), Some("/list")),
            (json!({"data": {"a": "1"}}), Some("/list")),
        ] {
            let found = differing(&wanted, &live, "").map(|(at, ..)| at);
            assert_eq!(found.as_deref(), at, "{live}");
        }
    }

    #[test]
    fn every_version_of_the_chart_renders() {
        let values = json!({"message": "m", "replicas": 2, "cache": true, "hooks": true, "shared": "s", "job": 1});
        for (chart, version, count, groups) in
            [("web", "1.0.0", 8, 0), ("tiers", "1.1.0", 8, 7), ("web", "2.0.0", 9, 0), ("tiers", "3.0.0", 9, 8)]
        {
            let all = rendered("a", &values, (chart, version)).unwrap();
            assert_eq!(all.len(), count, "{chart} {version}");
            let sent: Vec<Value> = all.iter().map(|object| marked("a", object)).collect();
            assert!(sent.iter().all(|sent| sent["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"));
            let has_group = |sent: &Value| sent["metadata"]["annotations"][GROUP].is_string();
            assert_eq!(sent.iter().filter(|sent| has_group(sent)).count(), groups, "{chart} {version}");
            let deployment = sent.iter().find(|sent| sent["kind"] == "Deployment").unwrap();
            assert_eq!(deployment["spec"]["replicas"], 2);
        }
    }

    #[test]
    fn a_wanted_certificate_is_rendered_with_its_issuer_and_key() {
        let values = json!({"message": "m", "replicas": 1, "tls": "guarded"});
        let all = rendered("a", &values, ("web", "1.0.0")).unwrap();
        let guarded = all.iter().find(|object| object.name == "a-guarded").unwrap();
        assert!(GENERATED.iter().all(|key| guarded.body["data"][*key].is_string()), "{}", guarded.body);
    }
}
