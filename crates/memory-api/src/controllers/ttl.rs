//! Deletes finished Jobs when their time to live has passed. Counterpart: k8s.io/kubernetes
//! `pkg/controller/ttlafterfinished`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Controller, is_going, only, pick};
use crate::Server;

/// The controller of `ttlSecondsAfterFinished`.
#[derive(Debug, Default)]
pub struct TimeToLive;

impl Controller for TimeToLive {
    fn step(&mut self, server: &mut Server, choice: u64) -> bool {
        let now = server.time();
        let jobs = server.objects_of("batch/v1", "jobs");
        let over = jobs.into_iter().filter(|(_, job)| !is_going(job) && ends(job).is_some_and(|end| end <= now));
        let Some((path, job)) = pick(over.collect(), choice) else { return false };
        server.erase(&path, json!({"propagationPolicy": "Foreground", "preconditions": only(&job)}))
    }
}

/// Returns when a finished Job's time to live ends, in seconds since 1970.
fn ends(job: &Value) -> Option<i64> {
    let time_to_live = job["spec"]["ttlSecondsAfterFinished"].as_i64()?;
    let conditions = job["status"]["conditions"].as_array()?;
    let is_end = |condition: &&Value| {
        let kind = &condition["type"];
        (*kind == "Complete" || *kind == "Failed") && condition["status"] == "True"
    };
    let finished: Timestamp = conditions.iter().find(is_end)?["lastTransitionTime"].as_str()?.parse().ok()?;
    Some(finished.as_second() + time_to_live)
}
