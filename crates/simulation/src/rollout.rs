//! The invariant of a rollout, one release at a time, of a chart that never becomes ready.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::names;
use crate::world::Change;

/// The image of the chart that never becomes ready.
const BROKEN: &str = "web:3.0.0";

/// How long a release surely keeps its permit: an unready release may stall later and then releases it.
const KEPT: Duration = Duration::from_secs(500);

/// The upgrades that must wait for each other.
#[derive(Clone, Default)]
pub struct Rollout {
    /// Whether every process is limited to one upgrade at a time.
    pub is_limited: bool,
    /// Whether a process takes, or took, a chart back for all releases once one of them fails.
    pub takes_back: bool,
    /// The releases with the broken chart, and since when.
    broken: BTreeMap<String, Instant>,
    /// Whether a resource was edited since it was deployed; upgrades after an edit need no permit.
    edited: BTreeMap<String, bool>,
}

impl Rollout {
    /// Records that a person edited a resource.
    pub fn edited(&mut self, name: &str) {
        self.edited.insert(name.to_owned(), true);
    }

    /// Records that a revision is deployed.
    pub fn deployed(&mut self, name: &str) {
        self.edited.insert(name.to_owned(), false);
    }

    /// Forgets a resource that is being deleted, which frees its permit.
    pub fn forget(&mut self, name: &str) {
        self.broken.remove(name);
    }

    /// Forgets everything: a process that keeps records elsewhere knows of no permit before it has imported the release.
    pub fn forget_all(&mut self) {
        self.broken.clear();
    }

    /// Checks (k) that no second release gets the broken chart while a first one has it.
    pub fn written(&mut self, change: &Change) -> Option<String> {
        let name = names::owner(&change.path).filter(|_| change.path.contains("/deployments/"))?;
        if !change.after.as_ref().is_some_and(|after| is_broken(after)) {
            self.broken.remove(name);
            return None;
        }
        // Installs need no permit.
        if change.before.as_ref().is_none_or(|before| is_broken(before)) {
            return None;
        }
        let waits = self.is_limited && !self.edited.get(name).copied().unwrap_or(true);
        let other = self.broken.iter().find(|(_, since)| since.elapsed() < KEPT).map(|(other, _)| other.clone());
        if !waits {
            // It took no permit that another could wait for.
            return None;
        }
        self.broken.insert(name.to_owned(), change.at);
        let other = other.filter(|other| other != name)?;
        Some(format!("(k) {name} got the broken chart while {other} had it and was not ready"))
    }
}

/// Returns whether a Deployment is of the chart that never becomes ready.
pub(crate) fn is_broken(deployment: &Value) -> bool {
    deployment.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str) == Some(BROKEN)
}
