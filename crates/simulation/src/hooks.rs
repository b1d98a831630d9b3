//! Hooks whose Jobs fail, do not end, or take long to go, and what the checks know of hooks that failed.

use std::time::Duration;

use helm_release::kube::HOOK_RUN_ANNOTATION;
use jiff::Timestamp;
use memory_api::controllers::Fate;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::checks::{Checks, Objects, Resource};
use crate::names;
use crate::process::Setup;
use crate::quiet::{records, status_of};
use crate::world::Change;

/// The key of watches.yaml that limits how long a hook may take.
const KEY: &str = "hookTimeout: ";

/// That limit, which hooks without trouble keep.
const LIMIT: Duration = Duration::from_secs(30);

/// The most revisions that follow a failed hook: the rollback, and the next attempt.
const REVISIONS: u32 = 2;

/// What goes wrong with the Jobs of hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// They fail.
    Fails,
    /// They do not end.
    Hangs,
    /// They stay for long once they are deleted, as if their pods took long to end.
    Lingers,
}

/// The trouble that hooks have now.
#[derive(Default)]
pub struct Hooks(Option<(Trouble, Instant)>);

impl Hooks {
    /// Begins a trouble, which replaces another one.
    pub fn begin(&mut self, trouble: Trouble, for_ms: u64) {
        self.0 = Some((trouble, Instant::now() + Duration::from_millis(for_ms)));
    }

    /// Ends the trouble.
    pub fn end(&mut self) {
        self.0 = None;
    }

    fn trouble(&self) -> Option<Trouble> {
        self.0.filter(|(_, until)| Instant::now() < *until).map(|(trouble, _)| trouble)
    }

    /// Returns how the Job of a hook ends now.
    pub fn fate(&self) -> Fate {
        match self.trouble() {
            Some(Trouble::Fails) => Fate::Fails,
            Some(Trouble::Hangs) => Fate::Waits,
            Some(Trouble::Lingers) | None => Fate::Ready,
        }
    }

    /// Returns whether deleted Jobs of hooks stay.
    pub fn linger(&self) -> bool {
        self.trouble() == Some(Trouble::Lingers)
    }
}

impl Setup {
    /// Limits how long a hook may take.
    pub fn limit_hooks(&mut self) {
        self.add(&format!("{KEY}{}s", LIMIT.as_secs()));
    }

    /// Returns whether it limits how long a hook may take.
    pub fn limits_hooks(&self) -> bool {
        self.watch.contains(KEY)
    }
}

impl Resource {
    /// Records that hooks failed. Each failure is a cause of further revisions.
    fn fail_hooks(&mut self, count: u32) {
        self.failed_hooks += count;
        self.causes += REVISIONS * count;
    }

    /// Records the hooks that failed since a backup that the server was restored from: processes remember them.
    pub(crate) fn remember_failures(&mut self, failed_hooks: u32) {
        self.fail_hooks(failed_hooks.saturating_sub(self.failed_hooks));
    }
}

impl Checks {
    /// Records that the server refused to show this object. If it is a hook, its action fails, and the next one runs it
    /// again.
    pub fn hide(&mut self, path: &str) {
        let resource = names::owner(path).filter(|_| path.ends_with("-hook"));
        if let Some(resource) = resource.and_then(|name| self.resources.get_mut(name)) {
            resource.hook = None;
        }
    }

    /// Notes that the Job of a hook failed, or that its time is up. Its action has failed, and the next one runs the hook
    /// again: for a revision with the same number if the failed install was removed. In a rollout, the other releases may
    /// return to the chart before.
    pub(crate) fn note_hook(&mut self, change: &Change) {
        let Some(name) = names::owner(&change.path).filter(|_| names::is_hook(&change.path)) else { return };
        let has_failed = fails(change) || self.limits_hooks && is_given_up(change);
        let Some(resource) = self.resources.get_mut(name).filter(|_| has_failed) else { return };
        resource.fail_hooks(1);
        if change.path.ends_with("-hook") {
            resource.hook = None;
        }
        if self.rollout.takes_back {
            self.resources.values_mut().for_each(|resource| resource.causes += REVISIONS);
        }
    }
}

/// Returns whether a release whose hook failed may lose its objects: no revision is deployed that they could stay for, or
/// `onFailure` says so, and its uninstall has begun.
pub(crate) fn may_be_removed(name: &str, resource: &Resource, objects: &Objects) -> bool {
    let has = |status| records(name, objects).any(|(_, record)| status_of(Some(record)) == Some(status));
    resource.failed_hooks > 0 && (!has("deployed") || has("uninstalling"))
}

/// Returns whether a Job fails with this change.
fn fails(change: &Change) -> bool {
    let has_failed = |job: &Value| !job["status"]["failed"].is_null();
    change.after.as_ref().is_some_and(|job| has_failed(job))
        && !change.before.as_ref().is_some_and(|job| has_failed(job))
}

/// Returns whether the operator deletes a Job because its time is up. The Job may still run, or may have ended too late, for
/// example while no operator ran.
fn is_given_up(change: &Change) -> bool {
    let Some(job) = change.goes().filter(|_| change.by.starts_with("op-")) else { return false };
    let run = job["metadata"]["annotations"][HOOK_RUN_ANNOTATION].as_str();
    let began = run.and_then(|run| run.split_once('.')).map(|(_, began)| began);
    let Some(began) = began.and_then(age) else { return false };
    let took = match job["status"]["completionTime"].as_str() {
        Some(end) => began.saturating_sub(age(end).unwrap_or_default()),
        None => began,
    };
    job["status"]["failed"].is_null() && took >= LIMIT
}

/// Returns how long ago this time was.
fn age(time: &str) -> Option<Duration> {
    let time: Timestamp = time.parse().ok()?;
    outside::now().duration_since(time).try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_deletion_of_a_job_that_took_too_long_gives_its_hook_up() {
        let ago = |seconds| (outside::now() - Duration::from_secs(seconds)).to_string();
        for (behaviour, began, status, by, expected) in [
            ("it takes too long", 40, json!({"active": 1}), "op-0", true),
            ("it finishes meanwhile", 40, json!({"succeeded": 1, "completionTime": ago(0)}), "op-0", true),
            ("it finished too late", 50, json!({"succeeded": 1, "completionTime": ago(9)}), "op-0", true),
            ("it finished in time", 40, json!({"succeeded": 1, "completionTime": ago(15)}), "op-0", false),
            ("it failed", 40, json!({"failed": 1}), "op-0", false),
            ("it is interrupted", 20, json!({"active": 1}), "op-0", false),
            ("a person deletes it", 40, json!({"active": 1}), "person", false),
        ] {
            let annotations = json!({HOOK_RUN_ANNOTATION: format!("3.{}", ago(began))});
            let job = Arc::new(json!({"metadata": {"annotations": annotations}, "status": status}));
            let path = "/apis/batch/v1/namespaces/default/jobs/a-hook";
            let (at, by, path) = (Instant::now(), by.into(), path.into());
            let change = Change { at, by, path, before: Some(job), after: None };
            assert_eq!(is_given_up(&change), expected, "{behaviour}");
        }
    }
}
