//! The custom resource's status: the conditions that follow from the facts, and the serialised form.
//!
//! Our fields are written by server-side apply, so that a native reconciler can share the resource, and only if they
//! differ from the server's. The counterparts are operator-sdk's `internal/helm/internal/types` and
//! helm-operator-plugins' `internal/updater`.

pub(crate) mod condition;
pub(crate) mod reason;

mod conditions;
mod entries;
pub(crate) mod history;
pub(crate) mod inventory;
pub(crate) mod summary;
mod test_report;

pub(crate) mod declared_fields;

use std::collections::BTreeMap;
use std::sync::Arc;

use helm_release::kube::intern;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::dependencies::Waiting;
use conditions::{initialized, new, wanted};
use history::HistoryEntry;
use inventory::Inventory;
use reason::Reason;
pub(crate) use test_report::{TEST_SUCCEEDED, TestReport};

/// The types of our conditions; others on the resource belong to someone else.
const OURS: &[&str] = &[
    condition::INITIALIZED,
    condition::DEPLOYED,
    condition::READY,
    condition::RELEASE_FAILED,
    condition::IRRECONCILABLE,
    condition::SUSPENDED,
    condition::RECONCILING,
    condition::PAUSED,
    condition::STALLED,
    condition::DRIFTED,
    condition::UNREAD_VALUES,
    condition::IGNORED_ANNOTATIONS,
    condition::UNPROVEN_RECORDS,
    condition::TEST_SUCCESS,
    condition::PINNED,
    condition::PLANNED,
];

fn is_ours(condition: &Condition) -> bool {
    OURS.contains(&&*condition.kind)
}

/// The maximum length of a message, in bytes. Conditions may have 32 KiB, but a whole list of resources must stay
/// small.
pub(crate) const MAX_MESSAGE: usize = 4096;
/// How many objects, hooks or records a message names, and how many objects one diagnosis examines.
pub(crate) const MAX_NAMED: usize = 3;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    /// Its type.
    #[serde(rename = "type", deserialize_with = "interned")]
    pub(crate) kind: Arc<str>,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "interned")]
    pub(crate) status: Arc<str>,
    /// The reason, in upper camel case.
    #[serde(default, deserialize_with = "interned")]
    pub(crate) reason: Arc<str>,
    #[serde(default, deserialize_with = "interned")]
    pub(crate) message: Arc<str>,
    /// When `status` last changed.
    #[serde(default, deserialize_with = "interned_if_any")]
    pub(crate) last_transition_time: Option<Arc<str>>,
    /// The generation of the resource that it describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// The text of a condition that is not ours. A write of the whole list repeats it, whatever it contains.
    #[serde(skip)]
    pub(crate) whole: Option<Box<str>>,
}

/// `status.deployedRelease`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeployedRelease {
    #[serde(deserialize_with = "interned")]
    pub(crate) name: Arc<str>,
    #[serde(default)]
    pub(crate) revision: u32,
    /// The chart and its version: `memcached-0.1.0`.
    #[serde(default, deserialize_with = "interned")]
    pub(crate) chart: Arc<str>,
    /// The chart's `appVersion`.
    #[serde(default, deserialize_with = "interned")]
    pub(crate) app_version: Arc<str>,
    /// Whether override values are strings in this release. The records say so as well, but users may write those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) override_values_are_strings: bool,
}

/// Decodes an interned string: most conditions have the same content, and those of one resource share their times.
fn interned<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(from).map(|text| intern(&text))
}

fn interned_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<str>>, D::Error> {
    Option::<String>::deserialize(from).map(|text| text.map(|text| intern(&text)))
}

/// Decodes as [`or_default`] does, for strings that many resources share.
fn interned_or_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    or_default::<D, String>(from).map(|text| intern(&text))
}

/// The content of `status.lastHandled`: the tokens of control annotations that were handled last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Handled {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reconcile_now: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_now: Option<Box<str>>,
}

/// The status fields that watches.yaml defines, by name.
pub(crate) type Fields = BTreeMap<Arc<str>, Value>;

/// Decodes a field; a field of an unexpected shape is not ours, and does not prevent the others from being decoded.
fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    let text = Box::<RawValue>::deserialize(from)?;
    Ok(serde_json::from_str(text.get()).unwrap_or_default())
}

/// How a schema treats a list: `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// Each entry has its own owner.
    #[default]
    Map,
    /// The whole list is one field.
    Atomic,
}

/// Our fields of a status, and the conditions of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    #[serde(default, deserialize_with = "entries::conditions")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) deployed_release: Option<DeployedRelease>,
    /// The generation of the resource that the status describes.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) observed_generation: Option<i64>,
    /// How many of the release's objects are ready, such as `3/4`: a column of `kubectl get`. Empty without a release.
    #[serde(default, deserialize_with = "interned_or_empty")]
    pub(crate) ready_objects: Arc<str>,
    /// The tokens that were handled; few resources have any.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) last_handled: Option<Box<Handled>>,
    /// The last revisions, newest first. A change of it alone is not worth a write.
    #[serde(default, deserialize_with = "history::bounded")]
    pub(crate) history: Box<[HistoryEntry]>,
    /// When a failed attempt is repeated if nothing changes. As for the history, no reason to write: while the same
    /// failure repeats, it is in the past.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) next_attempt: Option<Timestamp>,
    /// The fields that watches.yaml defines.
    #[serde(skip)]
    pub(crate) fields: Fields,
}

/// The facts that a reconcile found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) generation: i64,
    /// The deployed release; `None` before install and after uninstall.
    pub(crate) release: Option<DeployedRelease>,
    /// The notes, if this reconcile rendered them; otherwise the message stays.
    pub(crate) notes: Option<String>,
    /// The revision that was deployed again, if this is a rollback.
    pub(crate) rolled_back_to: Option<u32>,
    pub(crate) health: Health,
    /// The number of the release's objects, and how many of them are ready.
    pub(crate) objects: ObjectCount,
    pub(crate) fields: Fields,
    pub(crate) fault: Option<Fault>,
    /// Why only a change can help against the failure.
    pub(crate) stall: Option<Stall>,
    /// What will prevent the next change of the resource, although nothing has failed yet.
    pub(crate) blocked: Option<Fault>,
    /// What pauses the resource.
    pub(crate) paused: Option<PausedBy>,
    /// The limit of concurrent upgrades, if this one waits for a slot, and nothing has failed in this process.
    pub(crate) is_queued: Option<usize>,
    /// What the resource waits for, although nothing has failed in this process.
    pub(crate) waiting: Option<Waiting>,
    pub(crate) handled: Option<Box<Handled>>,
    /// The last revisions, newest first.
    pub(crate) history: Box<[HistoryEntry]>,
    /// When the failed attempt is repeated.
    pub(crate) next_attempt: Option<Timestamp>,
    /// Drift that is reported but not repaired, one text for each object.
    pub(crate) drift: Vec<String>,
    /// The objects that an uninstall waits for.
    pub(crate) awaited: Option<String>,
    /// The finalizers of others that keep the resource after the uninstall.
    pub(crate) kept_by: Vec<String>,
    /// Whether an annotation suspends the resource, so that nothing is done.
    pub(crate) suspended: bool,
    /// The plan that an annotation requested instead of an action.
    pub(crate) planned: Option<PlanReport>,
    /// The values that no template reads; empty if there are none.
    pub(crate) unread: String,
    /// The control annotations that have no effect; empty if there are none.
    pub(crate) ignored: String,
    /// The records that look like ours, but were changed, copied or forged, or whose key is lost; empty if there are
    /// none.
    pub(crate) unproven: String,
    /// The revision that an annotation pins the release to, and the one that repeats it.
    pub(crate) pinned: Option<(u32, u32)>,
    /// The tests of the release; `None` if none run.
    pub(crate) tests: Option<TestReport>,
}

/// What pauses a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PausedBy {
    /// The annotation `pause`.
    Annotation,
    /// The author's `pause_when`.
    PauseWhen,
    /// A panic of the author's `pause_when`.
    PauseWhenPanicked,
    /// A panic of the author's `filter` for a resource that is not being deleted.
    FilterPanicked,
}

/// The plan's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanReport {
    /// The reason: whether something would change.
    pub(crate) reason: &'static str,
    /// The plan.
    pub(crate) message: String,
}

/// The reason why a failure needs a change, if its own reason does not imply it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// The retries are used up, after this many failed attempts.
    Exhausted(u32),
    /// The server permanently rejects an object.
    Refused,
}

/// The reason of `Ready` while an uninstall waits for objects.
const UNINSTALLING: &str = "Uninstalling";

/// The reason of `Ready` without a release, a failure or a wait.
const NOT_INSTALLED: &str = "NotInstalled";

/// The reason of `Drifted`, and of the event and the metric of detected drift.
pub(crate) const DETECTED: &str = "DriftDetected";

/// The reason of `Stalled` when the retries are used up, and of its event.
pub(crate) const RETRIES_EXCEEDED: &str = "RetriesExceeded";

/// How to make the operator try again.
pub(crate) const GIVEN_UP: &str = "to try again, change the resource, its chart or its override values, or set the annotation \
    helm.sdk.operatorframework.io/retry-now to a new value";

/// The number of objects of a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectCount {
    pub(crate) ready: usize,
    pub(crate) total: usize,
}

/// The health of a release's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    #[default]
    Ready,
    /// Some objects are not ready yet; names them and the reason.
    Progressing(String),
    /// Some objects are not ready, and there was no progress within the limit; names them and the reason.
    TimedOut(String),
    /// Some objects cannot become ready without help; names them and the reason.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// `ReleaseFailed` or `Irreconcilable`.
    pub(crate) condition: &'static str,
    /// The reason for the condition, event and metric.
    pub(crate) reason: Reason,
    /// The message with its chain of causes.
    pub(crate) message: String,
}

impl Status {
    /// Returns the charts of the deployed revision and of the last ones, such as `memcached-0.1.0`.
    pub(crate) fn charts(&self) -> impl Iterator<Item = &str> {
        let deployed = self.deployed_release.iter().map(|release| &*release.chart);
        deployed.chain(self.history.iter().map(|entry| &*entry.chart))
    }

    /// Returns the number of the newest revision that the status names, or 0 without any. While the release is uninstalled,
    /// only the history names it.
    pub(crate) fn newest_revision(&self) -> u32 {
        let deployed = self.deployed_release.iter().map(|release| release.revision);
        deployed.chain(self.history.iter().map(|entry| entry.revision)).max().unwrap_or_default()
    }

    pub(crate) fn find(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| *c.kind == *kind)
    }

    /// Returns the condition if it is true.
    pub(crate) fn find_true(&self, kind: &str) -> Option<&Condition> {
        self.find(kind).filter(|condition| *condition.status == *"True")
    }

    /// Returns the condition that reports a failure.
    pub(crate) fn fault(&self) -> Option<&Condition> {
        [condition::RELEASE_FAILED, condition::IRRECONCILABLE].into_iter().find_map(|kind| self.find_true(kind))
    }

    /// Returns whether helm-operator-plugins wrote the status: it keeps `ReleaseFailed` and `Irreconcilable` as
    /// `False`, while operator-sdk removes them.
    pub(crate) fn is_from_plugins(&self) -> bool {
        let faults = [condition::RELEASE_FAILED, condition::IRRECONCILABLE].map(|kind| self.find(kind));
        let both = faults.iter().all(Option::is_some);
        both || faults.iter().flatten().any(|c| *c.status != *"True") || self.find(condition::PAUSED).is_some()
    }

    /// Returns whether no operator has written it yet, as far as its conditions show. Those of others prove nothing.
    pub(crate) fn is_unwritten(&self) -> bool {
        !self.conditions.iter().any(is_ours)
    }

    /// Returns whether a release remains although the status may name none: its uninstall failed or waited for objects, or
    /// it was found in another namespace.
    pub(crate) fn implies_release(&self) -> bool {
        self.is_uninstalling() || self.has(condition::IRRECONCILABLE, Reason::ReleaseElsewhere.as_str())
    }

    /// Returns whether an uninstall failed, or waits for objects.
    pub(crate) fn is_uninstalling(&self) -> bool {
        self.has(condition::RELEASE_FAILED, Reason::UninstallError.as_str()) || self.has(condition::READY, UNINSTALLING)
    }

    /// Returns whether `Ready` says that the release's records could not be watched, which replaced what it said of its
    /// health.
    pub(crate) fn is_blind(&self) -> bool {
        self.has(condition::READY, Reason::RecordsForbidden.as_str())
    }

    fn has(&self, kind: &str, reason: &str) -> bool {
        self.find(kind).is_some_and(|condition| *condition.reason == *reason)
    }

    /// Returns whether the release belongs to another owner.
    pub(crate) fn is_refused(&self) -> bool {
        self.find_true(condition::IRRECONCILABLE).is_some_and(|refusal| *refusal.reason == Reason::ReleaseConflict)
    }

    /// Returns whether another resource took the release over from this one. The history of what the resource had stays
    /// then.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.is_refused() && !self.history.is_empty()
    }

    /// Returns whether nothing is installed, and no action failed or is at work.
    pub(crate) fn says_nothing_is_installed(&self) -> bool {
        self.has(condition::READY, NOT_INSTALLED)
    }

    pub(crate) fn last_handled(&self) -> Handled {
        self.last_handled.as_deref().cloned().unwrap_or_default()
    }

    /// Returns the status that follows from the facts; `None` if it equals this one.
    pub(crate) fn next(&self, facts: &Facts, now: Timestamp) -> Option<Status> {
        let mut conditions: Vec<Condition> =
            wanted(facts, self).into_iter().map(|c| self.keep_time(c, facts.generation, now)).collect();
        conditions.extend(self.conditions.iter().filter(|c| !is_ours(c)).cloned());
        let next = Status {
            conditions,
            deployed_release: facts.release.clone(),
            observed_generation: Some(facts.generation),
            ready_objects: intern(
                &facts.release.as_ref().map(|_| summary::ready_objects(facts.objects)).unwrap_or_default(),
            ),
            last_handled: facts.handled.clone(),
            history: facts.history.clone(),
            next_attempt: facts.next_attempt,
            fields: facts.fields.clone(),
        };
        (!next.has_same(self)).then_some(next)
    }

    /// Returns the status during a long step, with what it waits for; `None` if it equals this one. Only `Ready`,
    /// `Reconciling` and `Stalled` change.
    pub(crate) fn in_progress(&self, generation: i64, waits_for: &str, now: Timestamp) -> Option<Status> {
        let waits_for = format!("waiting for {waits_for}");
        let mut conditions = vec![
            initialized(),
            new(condition::RECONCILING, "True", "Progressing", &waits_for),
            new(condition::READY, "Unknown", "Progressing", &waits_for),
        ];
        conditions.iter_mut().for_each(|c| *c = self.keep_time(c.clone(), generation, now));
        let replaced =
            |c: &&Condition| *c.kind == *condition::STALLED || conditions.iter().any(|new| new.kind == c.kind);
        let kept: Vec<Condition> = self.conditions.iter().filter(|c| !replaced(c)).cloned().collect();
        conditions.extend(kept);
        let next = Status { conditions, observed_generation: Some(generation), next_attempt: None, ..self.clone() };
        (!next.has_same(self)).then_some(next)
    }

    /// Returns the status once the release is uninstalled; `None` if it equals this one.
    pub(crate) fn uninstalled(&self, generation: i64, now: Timestamp) -> Option<Status> {
        let (handled, fields) = (self.last_handled.clone(), self.fields.clone());
        self.next(&Facts { generation, handled, fields, ..Facts::default() }, now)
    }

    fn keep_time(&self, mut condition: Condition, generation: i64, now: Timestamp) -> Condition {
        let old = self.find(&condition.kind).filter(|old| old.status == condition.status);
        let now = || intern(&now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        condition.last_transition_time = Some(old.and_then(|o| o.last_transition_time.clone()).unwrap_or_else(now));
        condition.observed_generation = Some(generation);
        condition
    }

    /// Returns whether the content is the same, regardless of the order of conditions. History and next attempt do
    /// not count: they are written with the next change.
    pub(crate) fn has_same(&self, other: &Status) -> bool {
        self.sorted() == other.sorted()
    }

    fn sorted(&self) -> Status {
        let mut sorted = Status { history: Box::default(), next_attempt: None, ..self.clone() };
        sorted.conditions.sort_by(|a, b| a.kind.cmp(&b.kind));
        sorted
    }

    /// Returns the status with the conditions of others as another one of the same resource has them.
    pub(crate) fn with_others_of(&self, newer: &Status) -> Status {
        let ours = self.conditions.iter().filter(|c| is_ours(c));
        let others = newer.conditions.iter().filter(|c| !is_ours(c));
        Status { conditions: ours.chain(others).cloned().collect(), ..self.clone() }
    }

    /// Returns whether it has conditions of others.
    pub(crate) fn has_others(&self) -> bool {
        !self.conditions.iter().all(is_ours)
    }

    /// Returns the fields to apply, with the release's objects, which the status in memory does not contain.
    /// Conditions of others are included only in an atomic list; otherwise the apply would delete them.
    pub(crate) fn to_apply(&self, conditions: ListType, inventory: Option<&Inventory>) -> Value {
        let sent = |c: &&Condition| conditions == ListType::Atomic || is_ours(c);
        let conditions: Vec<Value> = self.conditions.iter().filter(sent).map(Condition::to_apply).collect();
        let mut status = json!({"conditions": conditions, "observedGeneration": self.observed_generation});
        if let Some(release) = &self.deployed_release {
            status["deployedRelease"] = json!(release);
        }
        if !self.ready_objects.is_empty() {
            status["readyObjects"] = (*self.ready_objects).into();
        }
        if let Some(handled) = &self.last_handled {
            status["lastHandled"] = json!(handled);
        }
        if let Some(inventory) = inventory {
            status["inventory"] = json!(inventory);
        }
        if !self.history.is_empty() {
            status["history"] = json!(self.history);
        }
        if let Some(time) = self.next_attempt {
            status["nextAttempt"] = json!(time);
        }
        for (name, value) in &self.fields {
            status[&**name] = value.clone();
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let release = DeployedRelease {
            name: "web".into(),
            revision: 1,
            chart: "memcached-0.1.0".into(),
            app_version: "1.6".into(),
            override_values_are_strings: false,
        };
        let objects = ObjectCount { ready: 4, total: 4 };
        Facts { generation: 1, release: Some(release), notes: Some("hello\n".into()), objects, ..Facts::default() }
    }

    const SERVED: &str = "Initialized=True/Served/this operator serves the resource";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn summary(status: &Status) -> Vec<String> {
        status.conditions.iter().map(|c| format!("{}={}/{}/{}", c.kind, c.status, c.reason, c.message)).collect()
    }

    #[test]
    fn a_deployed_release_is_initialized_deployed_and_ready() {
        let status = Status::default().next(&facts(), at(0)).unwrap();
        assert_eq!(
            summary(&status),
            [
                SERVED,
                "Deployed=True/InstallSuccessful/hello",
                "Ready=True/Ready/4 objects ready, chart memcached-0.1.0, revision 1"
            ]
        );
        assert_eq!(status.observed_generation, Some(1));
        let applied = status.to_apply(ListType::Map, None);
        assert_eq!(
            (&applied["deployedRelease"]["appVersion"], &applied["readyObjects"]),
            (&json!("1.6"), &json!("4/4"))
        );
    }

    /// A retry cannot help, because the process renders only the chart with which it started.
    #[test]
    fn a_chart_that_changed_on_disk_stalls_until_the_operator_restarts() {
        let fault =
            Fault { condition: condition::IRRECONCILABLE, reason: Reason::ChartChanged, message: "changed".into() };
        let status = Status::default().next(&Facts { fault: Some(fault), ..facts() }, at(0)).unwrap();
        let stalled = status.find(condition::STALLED).unwrap();
        assert_eq!((&*stalled.status, &*stalled.reason), ("True", "ChartChanged"));
        assert!(stalled.message.contains("restart the operator"), "{}", stalled.message);
        assert!(status.find(condition::RECONCILING).is_none());
    }

    #[test]
    fn without_news_nothing_is_written_and_notes_stay() {
        let first = Status::default().next(&facts(), at(0)).unwrap();
        assert_eq!(first.next(&Facts { notes: None, ..facts() }, at(9)), None);
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = Status::default().next(&facts(), at(0)).unwrap();
        let second = first
            .next(
                &Facts {
                    generation: 2,
                    health: Health::Progressing("Deployment \"web\" is not ready".into()),
                    ..facts()
                },
                at(60),
            )
            .unwrap();
        let time = |kind| second.find(kind).unwrap().last_transition_time.clone().unwrap();
        assert_eq!(&*time(condition::DEPLOYED), "1970-01-01T00:00:00Z");
        assert_eq!(&*time(condition::READY), "1970-01-01T00:01:00Z");
        assert_eq!(&*second.find(condition::READY).unwrap().message, "Deployment \"web\" is not ready");
        assert!(second.conditions.iter().all(|c| c.observed_generation == Some(2)));
    }

    #[test]
    fn a_suspended_resource_and_one_in_line_say_so_and_tokens_are_repeated() {
        let handled = Handled { reconcile_now: Some("t1".into()), retry_now: None };
        let facts = Facts { suspended: true, handled: Some(Box::new(handled)), ..facts() };
        let status = Status::default().next(&facts, at(0)).unwrap();
        let suspended = "Suspended=True/SuspendAnnotation/The annotation suspend is set: the release is left alone.";
        assert!(summary(&status).contains(&suspended.to_owned()));
        let is_queued = status.next(&Facts { is_queued: Some(3), ..self::facts() }, at(0)).unwrap();
        let expected = "Reconciling=True/UpgradeQueued/waiting for other upgrades: at most 3 run at a time, each until its \
            release is ready. One that fails or stays unready stops the others until its resource is corrected, suspended \
            or deleted";
        assert!(summary(&is_queued).contains(&expected.to_owned()));
        assert_eq!(status.to_apply(ListType::Map, None)["lastHandled"], json!({"reconcileNow": "t1"}));
        assert_eq!(status.next(&facts, at(1)), None);
        assert_eq!(summary(&status.next(&self::facts(), at(2)).unwrap()).len(), 3);
    }

    #[test]
    fn a_fault_has_a_condition_until_it_is_cleared() {
        let fault = Fault { condition: condition::RELEASE_FAILED, reason: Reason::UpgradeError, message: "no".into() };
        let broken = Status::default().next(&Facts { fault: Some(fault), ..facts() }, at(0)).unwrap();
        assert!(summary(&broken).contains(&"ReleaseFailed=True/UpgradeError/no".to_owned()));
        assert_eq!(&*broken.find(condition::READY).unwrap().reason, "UpgradeError");
        let healed = broken.next(&facts(), at(1)).unwrap();
        assert!(healed.find(condition::RELEASE_FAILED).is_none());
    }

    #[test]
    fn conditions_of_helm_operator_plugins_become_false_instead_of_vanishing() {
        let fault = |kind| Fault { condition: kind, reason: Reason::Own("X"), message: "no".into() };
        let with = |conditions: &[(&str, &str)]| Status {
            conditions: conditions.iter().map(|(kind, status)| new(kind, status, "", "")).collect(),
            ..Status::default()
        };
        let (failed, stuck) = (condition::RELEASE_FAILED, condition::IRRECONCILABLE);
        for (old, fault, expected) in [
            (with(&[]), None, vec![]),
            (with(&[(failed, "True")]), None, vec![]),
            (
                with(&[(failed, "False"), (stuck, "False")]),
                None,
                vec!["ReleaseFailed=False/AsExpected/", "Irreconcilable=False/AsExpected/"],
            ),
            (
                with(&[(failed, "Unknown"), (stuck, "True")]),
                None,
                vec!["ReleaseFailed=False/AsExpected/", "Irreconcilable=False/AsExpected/"],
            ),
            (
                with(&[(failed, "True"), (stuck, "True")]),
                None,
                vec!["ReleaseFailed=False/AsExpected/", "Irreconcilable=False/AsExpected/"],
            ),
            (
                with(&[(failed, "False"), (stuck, "False")]),
                Some(fault(stuck)),
                vec!["ReleaseFailed=False/AsExpected/", "Irreconcilable=True/X/no"],
            ),
            (with(&[(stuck, "True")]), Some(fault(failed)), vec!["ReleaseFailed=True/X/no"]),
        ] {
            let next = old.next(&Facts { fault, ..facts() }, at(0)).unwrap();
            let ours = |c: &&String| c.starts_with(failed) || c.starts_with(stuck);
            assert_eq!(summary(&next).iter().filter(ours).collect::<Vec<_>>(), expected, "{old:?}");
        }
    }

    #[test]
    fn a_paused_resource_says_so_and_afterwards_that_it_is_not() {
        let mut status = Status::default();
        for (cause, message) in [
            (PausedBy::Annotation, "The annotation pause is set: even a deletion waits."),
            (PausedBy::PauseWhen, "The operator's own rule (pause_when) pauses the resource: even a deletion waits."),
            (
                PausedBy::PauseWhenPanicked,
                "The operator's own rule (pause_when) panicked, a bug that its log describes: even a deletion waits.",
            ),
            (
                PausedBy::FilterPanicked,
                "The operator's own filter panicked, a bug that its log describes: the resource is left alone. If it is \
                 deleted, its release is uninstalled unless another operator has recorded it.",
            ),
        ] {
            status = status.next(&Facts { paused: Some(cause), ..facts() }, at(0)).unwrap();
            let expected = format!("Paused=True/PauseReconcileAnnotationTrue/{message}");
            assert!(summary(&status).contains(&expected), "{:?}", summary(&status));
        }
        let resumed = status.next(&facts(), at(1)).unwrap();
        assert!(summary(&resumed).contains(&"Paused=False/AsExpected/".to_owned()));
        assert!(Status::default().next(&facts(), at(0)).unwrap().find(condition::PAUSED).is_none());
    }

    #[test]
    fn foreign_conditions_stay_and_are_applied_only_where_they_would_be_lost() {
        let foreign = new("Backup", "True", "Done", "");
        let old = Status { conditions: vec![foreign.clone()], ..Status::default() };
        let next = old.next(&facts(), at(0)).unwrap();
        assert!(next.conditions.contains(&foreign));
        let count = |one| next.to_apply(one, None)["conditions"].as_array().unwrap().len();
        assert_eq!((count(ListType::Map), count(ListType::Atomic)), (3, 4));
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let message = "ü".repeat(MAX_MESSAGE);
        assert_eq!(new("Ready", "False", "X", &message).message.len(), MAX_MESSAGE - 1);
        let long = format!("where{}why", "x".repeat(100_000));
        let cut = new("Ready", "False", "X", &long).message;
        assert!(cut.starts_with("where") && cut.ends_with("why"), "{cut}");
    }

    #[test]
    fn a_waiting_step_changes_only_ready_and_reconciling() {
        let first = Status::default().next(&facts(), at(0)).unwrap();
        let waiting = first.in_progress(2, "hook a.yaml: Job \"a\" is running (2m of 1h)", at(60)).unwrap();
        let text = "waiting for hook a.yaml: Job \"a\" is running (2m of 1h)";
        let mut expected = vec![
            "Deployed=True/InstallSuccessful/hello".to_owned(),
            SERVED.into(),
            format!("Ready=Unknown/Progressing/{text}"),
            format!("Reconciling=True/Progressing/{text}"),
        ];
        assert_eq!(summary(&waiting.sorted()), expected);
        assert_eq!((waiting.observed_generation, &waiting.deployed_release), (Some(2), &first.deployed_release));
        assert_eq!(waiting.in_progress(2, "hook a.yaml: Job \"a\" is running (2m of 1h)", at(70)), None);
        let later = waiting.in_progress(2, "b", at(70)).unwrap();
        assert_eq!(
            later.find(condition::RECONCILING).unwrap().last_transition_time.as_deref(),
            Some("1970-01-01T00:01:00Z")
        );
        expected.truncate(2);
        expected.push("Ready=True/Ready/4 objects ready, chart memcached-0.1.0, revision 1".into());
        assert_eq!(summary(&later.next(&facts(), at(80)).unwrap().sorted()), expected);
    }

    #[test]
    fn the_status_of_a_begun_uninstall_implies_a_release_and_others_do_not() {
        let gone = || Facts { release: None, ..facts() };
        let failed = |condition, reason| Some(Fault { condition, reason, message: "no".into() });
        let [on_release, irreconcilable] = [condition::RELEASE_FAILED, condition::IRRECONCILABLE];
        for (facts, expected) in [
            (Facts { awaited: Some("ConfigMap ns/a".into()), ..gone() }, true),
            (Facts { fault: failed(on_release, Reason::UninstallError), ..gone() }, true),
            (Facts { fault: failed(irreconcilable, Reason::ReleaseElsewhere), ..gone() }, true),
            (Facts { fault: failed(on_release, Reason::InstallError), ..gone() }, false),
            (Facts { fault: failed(irreconcilable, Reason::RenderError), ..gone() }, false),
            (Facts { kept_by: vec!["a/b".into()], ..gone() }, false),
            (gone(), false),
        ] {
            let status = Status::default().next(&facts, at(0)).unwrap();
            assert_eq!(status.implies_release(), expected, "{facts:?}");
            assert!(!status.uninstalled(1, at(1)).unwrap_or(status).implies_release());
        }
    }

    #[test]
    fn an_uninstalled_resource_names_no_release_and_still_has_a_status() {
        for before in [Status::default(), Status::default().next(&facts(), at(0)).unwrap()] {
            let status = before.uninstalled(1, at(1)).unwrap();
            let expected = [
                SERVED,
                "Reconciling=True/Progressing/nothing is installed yet",
                "Ready=False/NotInstalled/nothing is installed yet",
            ];
            assert_eq!(summary(&status), expected);
            assert_eq!((status.uninstalled(1, at(2)), status.deployed_release), (None, None));
        }
    }

    #[test]
    fn a_resource_kept_by_other_finalizers_is_uninstalled_and_names_them() {
        let first = Status::default().next(&facts(), at(0)).unwrap();
        let gone = Facts { release: None, notes: None, kept_by: vec!["a/b".into(), "c".into()], ..facts() };
        let status = first.next(&gone, at(1)).unwrap();
        let text = "the release is uninstalled; other finalizers keep the resource: a/b, c";
        let expected = [
            SERVED,
            "Deployed=False/UninstallSuccessful/The release is uninstalled.",
            &format!("Ready=False/Uninstalled/{text}"),
        ];
        assert_eq!(summary(&status), expected);
        assert_eq!(status.deployed_release, None);
    }
}
