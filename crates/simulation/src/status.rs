//! What the status of a resource says of its release must be the case at rest (j).

use helm_release::release::Release;
use serde_json::Value;

use crate::checks::{Objects, Resource};
use crate::quiet::{newest, status_of};

/// Returns what the status says that is not the case. `deployed` is the newest deployed revision.
pub(crate) fn untrue(
    name: &str,
    (seen, resource): (&Resource, &Value),
    deployed: Option<&(u32, Release)>,
    objects: &Objects,
) -> Vec<String> {
    // A person's helm is answered before the resource is ready again. Until then, the status may be that of before.
    let is_answered = !seen.is_helms || Said::by(resource).is_ready;
    let release = if is_answered { release(name, resource, deployed) } else { None };
    let attempt = if is_answered { attempt(name, resource, objects) } else { None };
    let found = [generation(resource), release, contradiction(resource), attempt, values(resource)];
    found.into_iter().flatten().map(|what| format!("(j) the status of {name} {what}")).collect()
}

/// The conditions that are true.
struct Said {
    is_deployed: bool,
    is_ready: bool,
    is_failed: bool,
    is_reconciling: bool,
    is_stalled: bool,
}

impl Said {
    fn by(resource: &Value) -> Said {
        let is_true = |kind| condition(resource, kind)["status"] == "True";
        Said {
            is_deployed: is_true("Deployed"),
            is_ready: is_true("Ready"),
            is_failed: is_true("ReleaseFailed") || is_true("Irreconcilable"),
            is_reconciling: is_true("Reconciling"),
            is_stalled: is_true("Stalled"),
        }
    }
}

fn conditions(resource: &Value) -> impl Iterator<Item = &Value> {
    resource["status"]["conditions"].as_array().into_iter().flatten()
}

fn condition<'r>(resource: &'r Value, kind: &str) -> &'r Value {
    conditions(resource).find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Returns whether the status describes an earlier generation.
fn generation(resource: &Value) -> Option<String> {
    let own = &resource["metadata"]["generation"];
    let mut all = conditions(resource).chain([&resource["status"]]).map(|said| &said["observedGeneration"]);
    let other = all.find(|observed| *observed != own)?;
    Some(format!("describes generation {other}, not {own}"))
}

/// Returns how the deployed release differs from the deployed revision.
fn release(name: &str, resource: &Value, deployed: Option<&(u32, Release)>) -> Option<String> {
    let said = &resource["status"]["deployedRelease"];
    let Some((revision, release)) = deployed else {
        return said.is_object().then(|| format!("names a release, and none is deployed: {said}"));
    };
    let chart = format!("{}-{}", release.chart.name, release.chart.version);
    // The chart stays empty if the record could not be read when the revision was first shown.
    let is_chart = said["chart"] == "" || said["chart"] == chart;
    // operator-sdk also kept the manifest there.
    let is_true = said["name"] == name && said["revision"] == *revision && is_chart && said["manifest"].is_null();
    (!is_true).then(|| format!("names {said}, not revision {revision} of {name} with {chart}"))
}

/// Returns which conditions, or which condition and field, cannot both be true.
fn contradiction(resource: &Value) -> Option<String> {
    let said = Said::by(resource);
    let release = &resource["status"]["deployedRelease"];
    if said.is_deployed != release.is_object() {
        return Some(format!("says Deployed={}, and names {release}", said.is_deployed));
    }
    if said.is_ready && (said.is_failed || said.is_stalled) {
        return Some("says that the resource is ready, and that it failed or stalled".to_owned());
    }
    // One that is ready may still wait for its turn in a rollout.
    let is_one = said.is_reconciling != said.is_stalled;
    (!said.is_ready && !is_one).then(|| format!("says neither or both of Reconciling and Stalled: {}", said.is_stalled))
}

/// Returns whether the status conceals that the newest revision failed.
fn attempt(name: &str, resource: &Value, objects: &Objects) -> Option<String> {
    let (revision, _) = newest(name, objects).filter(|(_, record)| status_of(Some(record)) == Some("failed"))?;
    let said = Said::by(resource);
    // The failure was of earlier inputs, and the next attempt waits for its turn.
    let is_queued = condition(resource, "Reconciling")["reason"] == "UpgradeQueued";
    let is_told = is_queued || said.is_failed && !said.is_ready;
    (!is_told).then(|| format!("does not say that revision {revision} failed"))
}

/// Returns whether the status conceals that the values do not render.
fn values(resource: &Value) -> Option<String> {
    let said = Said::by(resource);
    // A resource that waits for its turn in a rollout has yet to be rendered.
    let is_told = !said.is_ready || said.is_reconciling;
    (resource["spec"]["broken"] == true && !is_told).then(|| "says that broken values are ready".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helm_release::release::{ChartDocument, Info};
    use serde_json::json;

    use super::*;

    fn deployed() -> (u32, Release) {
        let chart = ChartDocument::from_json(r#"{"metadata":{"name":"web","version":"1.0.0"}}"#).unwrap();
        let release = Release {
            name: "a".into(),
            namespace: "default".into(),
            version: 2,
            info: Info::default(),
            chart: Arc::new(chart),
            config: json!({}),
            manifest: String::new(),
            hooks: Vec::new(),
            apply_method: "ssa".into(),
            labels: Default::default(),
            record_uid: None,
            more: Default::default(),
        };
        (2, release)
    }

    fn resource(release: Value, conditions: &[(&str, &str)]) -> Value {
        let condition =
            |(kind, status): &(&str, &str)| json!({"type": kind, "status": status, "observedGeneration": 3});
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        let status = json!({"observedGeneration": 3, "deployedRelease": release, "conditions": conditions});
        json!({"metadata": {"generation": 3}, "spec": {}, "status": status})
    }

    fn failed() -> Objects {
        let record = json!({"metadata": {"labels": {"status": "failed"}}});
        Objects::from([("/api/v1/namespaces/default/secrets/sh.helm.release.v1.a.v3".into(), Arc::new(record))])
    }

    #[test]
    fn a_status_that_says_what_is_not_the_case_is_untrue() {
        let named = |revision: u32, chart: &str| json!({"name": "a", "revision": revision, "chart": chart});
        let second = || named(2, "web-1.0.0");
        let ready = [("Deployed", "True"), ("Ready", "True")];
        let failing = [("Deployed", "True"), ("Ready", "False"), ("ReleaseFailed", "True"), ("Stalled", "True")];
        let (deployed, none) = (deployed(), Objects::new());
        let of_before = |mut resource: Value| {
            resource["metadata"]["generation"] = 4.into();
            resource
        };
        for (behaviour, resource, deployed, objects, is_true) in [
            ("ready", resource(second(), &ready), Some(&deployed), &none, true),
            ("without a chart", resource(named(2, ""), &ready), Some(&deployed), &none, true),
            ("an earlier revision", resource(named(1, "web-1.0.0"), &ready), Some(&deployed), &none, false),
            ("another chart", resource(named(2, "web-2.0.0"), &ready), Some(&deployed), &none, false),
            ("nothing is deployed", resource(second(), &ready), None, &none, false),
            ("an earlier generation", of_before(resource(second(), &ready)), Some(&deployed), &none, false),
            ("no condition for it", resource(second(), &ready[1..]), Some(&deployed), &none, false),
            ("failed and said", resource(second(), &failing), Some(&deployed), &failed(), true),
            ("failed and not said", resource(second(), &ready), Some(&deployed), &failed(), false),
            ("failed and nothing follows", resource(second(), &failing[..3]), Some(&deployed), &none, false),
        ] {
            let found = untrue("a", (&Resource::default(), &resource), deployed, objects);
            assert_eq!(found.is_empty(), is_true, "{behaviour}: {found:?}");
        }
    }
}
