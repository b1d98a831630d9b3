//! Recognizes objects that are deleted once they finished, by the server or by their controller: Jobs and objects of
//! custom kinds with a TTL.

use serde_json::Value;

use super::decoded::is_built_in;

/// The field of a Job's spec that makes the server delete it some seconds after it finished. Custom kinds that finish
/// have it as well: JobSets, and Jobs of Volcano.
pub(in crate::kube) const TTL: &str = "ttlSecondsAfterFinished";
/// The field of Kubeflow's jobs that contains [`TTL`].
pub(in crate::kube) const RUN_POLICY: &str = "runPolicy";
/// The field of an Argo Workflow with a TTL for each way to finish.
pub(in crate::kube) const TTL_STRATEGY: &str = "ttlStrategy";
/// The field of a `SparkApplication` that is its TTL.
pub(in crate::kube) const TIME_TO_LIVE: &str = "timeToLiveSeconds";

/// Returns whether an object of this kind and spec is deleted after it finished. Once deleted, it does not count as
/// missing: only its TTL or a person can have deleted it.
pub(in crate::kube) fn expires(group: &str, kind: &str, spec: &Value) -> bool {
    match (group, kind) {
        _ if is_built_in(group) => kind == "Job" && spec[TTL].is_number(),
        ("argoproj.io", "Workflow") => has_numbers(&spec[TTL_STRATEGY]),
        ("sparkoperator.k8s.io", "SparkApplication") => spec[TIME_TO_LIVE].is_number(),
        // A template is never deleted, and the TTL of a RayJob is its cluster's.
        ("flow.volcano.sh", "JobTemplate") | ("ray.io", "RayJob") => false,
        _ => spec[TTL].is_number() || spec[RUN_POLICY][TTL].is_number(),
    }
}

fn has_numbers(fields: &Value) -> bool {
    fields.as_object().is_some_and(|fields| fields.values().any(Value::is_number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kube::live_state::live::Live;
    use crate::kube::objects::object::Object;

    #[test]
    fn of_the_built_in_kinds_only_a_job_with_a_ttl_expires() {
        let ttl = json!({TTL: 0});
        assert!(expires("batch", "Job", &ttl));
        assert!(!expires("batch", "Job", &json!({})) && !expires("batch", "Job", &json!({TTL: "0"})));
        assert!(!expires("batch", "CronJob", &ttl) && !expires("", "Pod", &ttl));
        assert!(!expires("batch", "Job", &json!({RUN_POLICY: ttl, TIME_TO_LIVE: 1})));
    }

    #[test]
    fn custom_kinds_with_a_ttl_expire() {
        for (group, kind, spec) in [
            ("jobset.x-k8s.io", "JobSet", json!({"ttlSecondsAfterFinished": 60})),
            ("batch.volcano.sh", "Job", json!({"ttlSecondsAfterFinished": 60})),
            ("kubeflow.org", "PyTorchJob", json!({"runPolicy": {"ttlSecondsAfterFinished": 60}})),
            ("argoproj.io", "Workflow", json!({"ttlStrategy": {"secondsAfterSuccess": 60}})),
            ("sparkoperator.k8s.io", "SparkApplication", json!({"timeToLiveSeconds": 60})),
        ] {
            assert!(expires(group, kind, &spec), "{kind}");
            assert!(!expires(group, kind, &json!({})), "{kind} without a TTL");
            let metadata = json!({"name": "a"});
            let body = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "spec": spec});
            let live: Live = serde_json::from_value(body.clone()).unwrap();
            assert!(live.expires(group, kind) && Object::new(body).unwrap().expires(), "{kind}");
        }
    }

    #[test]
    fn templates_of_objects_that_expire_do_not() {
        for (group, kind, spec) in [
            ("argoproj.io", "WorkflowTemplate", json!({"ttlStrategy": {"secondsAfterSuccess": 60}})),
            ("argoproj.io", "Workflow", json!({"ttlStrategy": {}})),
            ("keda.sh", "ScaledJob", json!({"jobTargetRef": {"ttlSecondsAfterFinished": 60}})),
            ("sparkoperator.k8s.io", "ScheduledSparkApplication", json!({"template": {"timeToLiveSeconds": 60}})),
            ("example.com", "Cache", json!({"timeToLiveSeconds": 60})),
            ("flow.volcano.sh", "JobTemplate", json!({"ttlSecondsAfterFinished": 60})),
            ("ray.io", "RayJob", json!({"ttlSecondsAfterFinished": 60})),
        ] {
            assert!(!expires(group, kind, &spec), "{kind}");
        }
    }

    #[test]
    fn a_ttl_that_the_server_added_counts_too() {
        let job =
            |spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec});
        let live = |spec: Value| serde_json::from_value::<Live>(job(spec)).unwrap();
        assert!(!Object::new(job(json!({}))).unwrap().expires());
        assert!(live(json!({TTL: 60})).expires("batch", "Job") && !live(json!({})).expires("batch", "Job"));
    }
}
