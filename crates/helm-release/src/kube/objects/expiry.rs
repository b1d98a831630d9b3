//! Recognizes objects that the server deletes by itself once they finished: Jobs with a TTL.

use serde_json::Value;

/// The field of a Job's spec that makes the server delete it some seconds after it finished.
pub(in crate::kube) const TTL: &str = "ttlSecondsAfterFinished";

/// Returns whether the server deletes an object of this kind and spec after it finished. A deleted one does not count
/// as missing: only its TTL, or a person, can have deleted it.
pub(in crate::kube) fn expires(kind: &str, spec: &Value) -> bool {
    kind == "Job" && spec[TTL].is_number()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kube::{Live, Object};

    #[test]
    fn only_a_job_with_a_ttl_expires() {
        let ttl = json!({TTL: 0});
        assert!(expires("Job", &ttl));
        assert!(!expires("CronJob", &ttl) && !expires("Job", &json!({})) && !expires("Job", &json!({TTL: "0"})));
    }

    #[test]
    fn a_ttl_that_the_server_added_counts_too() {
        let job =
            |spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec});
        let live = |spec: Value| serde_json::from_value::<Live>(job(spec)).unwrap();
        assert!(!Object::new(job(json!({}))).unwrap().expires());
        assert!(live(json!({TTL: 60})).expires("Job") && !live(json!({})).expires("Job"));
    }
}
