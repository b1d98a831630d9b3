//! Diagnoses a release that is not ready: asks the server for the pods and events that no watch reports. Rare and
//! bounded. Without permission it falls back to the objects' own conditions.

use controller::report::chain;
use helm_release::action::LiveView as _;
use helm_release::kube::{Call, Error, HookObject, Live, ObjectKey, read_within};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde_json::Value;
use tokio::time::Instant;

use super::pods::{self, Culprit};
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::decide::health::{Unhealthy, Waiting, progress_of};
use crate::reconcile::decide::quotations::Cause;
use crate::reconcile::step_context::StepContext;
use crate::status::{Health, MAX_NAMED, ObjectCount, condition};
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

/// How many pods or events a diagnosis reads for one object.
const PAGE: u32 = 50;
/// The maximum size of the read objects, in bytes, because anyone who may create pods decides how large they are.
const MAX_BYTES: usize = 2 << 20;

/// The deployed release, as far as the cache shows it.
struct Seen {
    revision: u32,
    unhealthy: Vec<Unhealthy>,
    /// The number of its objects.
    total: usize,
}

impl Seen {
    fn of(context: &StepContext<'_>) -> Seen {
        let release = context.release();
        let deployed = release.as_deref().and_then(ReleaseRecords::deployed);
        match deployed.and_then(|(revision, deployed)| Some((revision, deployed.marks.as_ref()?))) {
            Some((revision, marks)) => {
                Seen { revision, unhealthy: context.unhealthy(marks), total: marks.rendered().count() }
            }
            None => Seen { revision: 0, unhealthy: Vec::new(), total: 0 },
        }
    }

    fn progress(&self) -> u64 {
        progress_of(self.revision, &self.unhealthy)
    }

    fn count(&self) -> ObjectCount {
        ObjectCount { ready: self.total - self.unhealthy.len(), total: self.total }
    }
}

/// Returns the health of the deployed release and the number of its objects. Runs a diagnosis if one is due.
pub(crate) async fn current_health(context: &StepContext<'_>, primary: &Primary) -> (Health, ObjectCount) {
    let (now, memory) = (Instant::now(), context.shared.memory.of(context.key));
    let seen = Seen::of(context);
    if seen.unhealthy.is_empty() {
        return ready(context, &seen);
    }
    let known = memory.status.waiting.clone();
    let mut waiting = known.unwrap_or_else(|| Box::new(begin(primary, seen.progress(), now)));
    waiting.observe(seen.progress(), &seen.unhealthy, now);
    let seen = judge(context, &mut waiting, seen, now).await;
    if seen.unhealthy.is_empty() {
        return ready(context, &seen);
    }
    // A failure is more important than the health of an older revision.
    if waiting.is_diagnosis_due(now) && memory.failure.is_none() {
        match diagnose(context, &seen.unhealthy).await {
            Ok(causes) => waiting.diagnosed(causes, Instant::now()),
            Err(turn) => waiting.postpone(turn),
        }
    }
    let quoted = waiting.quoted(&seen.unhealthy);
    context.hide_quotations(primary, &mut waiting.quotations, quoted).await;
    let health = waiting.health(&seen.unhealthy, context.shared.settings.progress_timeout);
    context.change_memory_of(primary, |memory| memory.status.waiting = Some(waiting));
    (health, seen.count())
}

/// Forgets that the release was not ready.
fn ready(context: &StepContext<'_>, seen: &Seen) -> (Health, ObjectCount) {
    if context.shared.memory.of(context.key).status.waiting.is_some() {
        context.shared.memory.change(context.key, |memory| memory.status.waiting = None);
    }
    (Health::Ready, seen.count())
}

/// Asks the server whether nothing has changed within the limit, if that is so as far as is known. Returns what is
/// known then. If the server answers about none of the objects, or contact with it was lost for long, the limit
/// restarts.
async fn judge(context: &StepContext<'_>, waiting: &mut Waiting, seen: Seen, now: Instant) -> Seen {
    let limit = context.shared.settings.progress_timeout;
    if context.shared.contact.was_away_since(waiting.since()) {
        waiting.restart(now);
    }
    if !waiting.is_overdue(limit, now) {
        return seen;
    }
    let answers = match ask(context, &seen.unhealthy).await {
        Ok(answers) => answers,
        Err(turn) => {
            waiting.put_off(limit, turn);
            return seen;
        }
    };
    let seen = Seen::of(context);
    waiting.observe(seen.progress(), &seen.unhealthy, now);
    match answers {
        Answers::Some if !waiting.is_overdue(limit, now) => {}
        Answers::Some if !context.shared.contact.was_away_since(waiting.since()) => waiting.confirm(),
        _ => waiting.restart(now),
    }
    seen
}

/// What the server has said about the objects that it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// It has described one at least. What it cannot describe, such as the objects of an aggregated API that never comes
    /// back, hides nothing about the others.
    Some,
    /// It has described no object, does not answer, or an object's state will be known only later.
    None,
}

/// Asks the server for unready objects, without occupying a worker. The cache stores the responses. Fails with the
/// time of the next turn if a diagnosis is running or in its cooldown.
async fn ask(context: &StepContext<'_>, unhealthy: &[Unhealthy]) -> Result<Answers, Instant> {
    let throttle = &context.shared.diagnoses.throttle;
    let taken = throttle.try_begin().ok_or_else(|| throttle.next_turn())?;
    context.slot.leave();
    let answers = ask_each(context, unhealthy).await;
    drop(taken);
    context.slot.enter().await;
    Ok(answers)
}

async fn ask_each(context: &StepContext<'_>, unhealthy: &[Unhealthy]) -> Answers {
    let mut answers = Answers::None;
    for one in unhealthy {
        match read(context, one).await {
            Ok(live) => {
                let is_back = live.is_some() && context.shared.cache.is_unserved(&one.key);
                take_over(context, one, live.as_ref());
                // It is served again, and its watch has yet to list.
                if is_back {
                    return Answers::None;
                }
                answers = Answers::Some;
            }
            Err(error) => {
                let cause = error.named();
                tracing::debug!(resource = %context.key, object = %one.key, cause, "Cannot confirm that nothing changes");
                // Without a response for one object, the others would get none either.
                if error.code().is_none() {
                    return Answers::None;
                }
            }
        }
    }
    answers
}

/// Reads an object as the operator itself, whose watches also see it, or else with the watch's account, if that may
/// read it.
async fn read(context: &StepContext<'_>, one: &Unhealthy) -> Result<Option<Live>, Error> {
    match context.shared.applier.ask(&one.key, &one.api_version).await {
        Err(error) if error.is_forbidden() => context.applier.ask(&one.key, &one.api_version).await,
        answer => answer,
    }
}

/// Stores an answer in the cache. If no watch covers a missing object, its known state stays, because nothing else
/// shows that the object should exist, unless the server deletes it once it has finished.
fn take_over(context: &StepContext<'_>, one: &Unhealthy, live: Option<&Live>) {
    let has_expired = || one.expires && !context.is_unserved(&one.key);
    if live.is_some() || context.shared.cache.is_synced(&one.key) || has_expired() {
        _ = context.answered(&one.key, live);
    }
}

fn is_stalled(primary: &Primary) -> bool {
    let stalled = primary.status.find(condition::STALLED);
    stalled.is_some_and(|c| *c.reason == *"ProgressTimeout" && c.observed_generation == Some(primary.generation))
}

fn begin(primary: &Primary, progress: u64, now: Instant) -> Waiting {
    let waiting = Waiting::begin(progress, now);
    if is_stalled(primary) { waiting.stalled() } else { waiting }
}

/// Examines the objects that the message names, without occupying a worker. Fails with the time of the next turn if
/// another diagnosis is running or in its cooldown.
async fn diagnose(context: &StepContext<'_>, unhealthy: &[Unhealthy]) -> Result<Vec<(ObjectKey, Cause)>, Instant> {
    let throttle = &context.shared.diagnoses.throttle;
    let taken = throttle.try_begin().ok_or_else(|| throttle.next_turn())?;
    context.slot.leave();
    let mut causes = Vec::new();
    for one in unhealthy.iter().take(MAX_NAMED).filter(|one| one.is_examinable()) {
        let shared = context.shared;
        let diagnosis = Diagnosis { shared, key: &one.key, api_version: &one.api_version, uid: None };
        if let Some(cause) = diagnosis.cause().await {
            causes.push((one.key.clone(), cause));
        }
    }
    drop(taken);
    context.slot.enter().await;
    Ok(causes)
}

/// Returns why a hook's pod does not run. Returns `None` if no cause is found, or if another diagnosis is running or in
/// its cooldown.
pub(crate) async fn at_hook(shared: &ControllerContext, object: &HookObject) -> Option<Cause> {
    let _taken = shared.diagnoses.throttle.try_begin()?;
    let HookObject { key, api_version, uid } = object;
    Diagnosis { shared, key, api_version, uid: Some(uid) }.cause().await
}

/// Returns whether a pod is a hook's own: the Pod itself, or one that its Job controls. Anyone can give a pod the name
/// of another Job's label.
pub(super) fn is_of(pod: &Value, kind: &str, uid: &str) -> bool {
    let is_uid = |of: &Value| of["uid"] == uid && !uid.is_empty();
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    match kind {
        "Pod" => is_uid(&pod["metadata"]),
        _ => owners.into_iter().any(|owner| owner["controller"] == true && is_uid(owner)),
    }
}

struct Diagnosis<'a> {
    shared: &'a ControllerContext,
    key: &'a ObjectKey,
    api_version: &'a str,
    /// The uid that it must have, and that its pods must name as their controller.
    uid: Option<&'a str>,
}

impl Diagnosis<'_> {
    /// Returns why the object is not ready, if its pods and events show it.
    async fn cause(&self) -> Option<Cause> {
        let ObjectKey { kind, name, .. } = self.key;
        let resource = self.shared.applier.mapper.any_version(self.api_version, kind).await.ok()?;
        let object = self.get("objects", resource.path(self.namespace(), name).ok()?).await?;
        if self.uid.is_some_and(|uid| object["metadata"]["uid"] != uid) {
            return None;
        }
        let culprit = match &**kind {
            "Pod" => pods::culprit(std::slice::from_ref(&object)),
            "PersistentVolumeClaim" | "Service" => None,
            _ => pods::culprit(&self.pods(&object).await?),
        };
        let Some(culprit) = culprit else {
            return if explains_itself(kind) {
                None
            } else {
                self.event(object.pointer("/metadata/uid")?.as_str()?).await.map(|event| Cause::quoting("", event))
            };
        };
        let Culprit { uid, text, quoted, .. } = culprit;
        match if culprit.ask { self.event(&uid).await } else { None } {
            // Explanations added to an event are the operator's own text.
            Some(event) => Some(Cause::quoting(&format!("{text}: "), event)),
            None => Some(Cause { text, quoted }),
        }
    }

    async fn pods(&self, workload: &Value) -> Option<Vec<Value>> {
        let selector = pod_selector(workload)?.replace(' ', "%20");
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector={selector}&limit={PAGE}", self.namespace());
        let mut pods = items(self.get("pods", path).await?)?;
        pods.retain(|pod| self.uid.is_none_or(|uid| is_of(pod, &self.key.kind, uid)));
        Some(pods)
    }

    /// Returns the newest event about an object that explains something.
    async fn event(&self, uid: &str) -> Option<String> {
        let namespace = self.namespace();
        let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid={uid}&limit={PAGE}");
        pods::event(&items(self.get("events", path).await?)?)
    }

    fn namespace(&self) -> &str {
        &self.key.namespace
    }

    async fn get(&self, resource: &'static str, path: String) -> Option<Value> {
        let diagnoses = &self.shared.diagnoses;
        if diagnoses.is_refused(self.namespace(), resource) {
            return None;
        }
        match read_within(&*self.shared.api, Call::get(path), MAX_BYTES).await.and_then(|answer| answer.parse()) {
            Ok(value) => return Some(value),
            Err(error) if error.code() == Some(403) => diagnoses.refuse(self.namespace(), resource),
            Err(error) => tracing::debug!(object = %self.key, error = chain(&error), "Cannot look closer"),
        }
        None
    }
}

/// Returns whether the controllers of a kind explain in a condition why they create no pods.
pub(crate) fn explains_itself(kind: &str) -> bool {
    ["Deployment", "ReplicaSet", "ReplicationController"].contains(&kind)
}

/// Returns the selector of a workload's pods, as a query value. ReplicationControllers select by plain labels.
pub(crate) fn pod_selector(workload: &Value) -> Option<String> {
    let selector = workload.pointer("/spec/selector")?;
    let is_plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let selector = if is_plain { serde_json::json!({"matchLabels": selector}) } else { selector.clone() };
    let selector: Selector = serde_json::from_value::<LabelSelector>(selector).ok()?.try_into().ok()?;
    // An empty selector would select every pod.
    Some(selector.to_string()).filter(|text| !text.is_empty())
}

pub(crate) fn items(mut list: Value) -> Option<Vec<Value>> {
    match list.get_mut("items")?.take() {
        Value::Array(items) => Some(items),
        _ => None,
    }
}
