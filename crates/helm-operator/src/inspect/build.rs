//! Makes the model of one release from what was read.

use jiff::Timestamp;
use serde_json::Value;

use super::cause::first_cause;
use super::model::{Event, Name, ReleaseReport, State};
use super::nodes::{node, text};
use super::seen::Seen;
use super::state::{is_behind, state};
use crate::plan;
use crate::status::{Status, condition};
use crate::view::primary::{Primary, Received};
use outside::group_of;

/// How many events are shown.
const MAX_EVENTS: usize = 5;

/// Returns the model of a release at this time.
pub(crate) fn build(seen: &Seen, now: Timestamp) -> ReleaseReport {
    let (primary, state) = (&seen.resource.primary, state(&seen.resource, now));
    let status = &primary.status;
    ReleaseReport {
        resource: name(primary),
        state,
        cause: first_cause(seen, state, now),
        release: status.deployed_release.clone(),
        next_attempt: status.next_attempt.filter(|_| state != State::Ready),
        remarks: remarks(&seen.resource),
        conditions: status.conditions.clone(),
        objects: seen.objects.iter().map(node).collect(),
        omitted: seen.omitted,
        hooks: seen.hooks.clone(),
        history: status.history.to_vec(),
        events: events(&seen.events),
        hidden: seen.hidden.clone(),
    }
}

pub(crate) fn name(primary: &Primary) -> Name {
    Name {
        group: group_of(&primary.api_version).to_owned(),
        kind: primary.kind.to_string(),
        namespace: primary.namespace().to_owned(),
        name: primary.name().to_owned(),
    }
}

/// Returns the name of a resource in a plan, which adds the namespace of the release.
pub(crate) fn plan_name(primary: &Primary) -> plan::Name {
    plan::Name {
        api_version: primary.api_version.to_string(),
        kind: primary.kind.to_string(),
        name: primary.name().to_owned(),
        ..plan::Name::default()
    }
}

/// Returns what people should know beside the cause: inputs that wait, and what has no effect.
fn remarks(resource: &Received) -> Vec<String> {
    let (primary, status) = (&resource.primary, &resource.primary.status);
    let mut all = Vec::new();
    if is_behind(resource) {
        let observed = status.observed_generation.unwrap_or_default().max(0);
        all.push(format!("generation {} is not served yet, only {observed}", primary.generation));
    }
    all.extend(queued(status));
    let kinds = [
        condition::SUSPENDED,
        condition::PAUSED,
        condition::STALLED,
        condition::DRIFTED,
        condition::UNREAD_VALUES,
        condition::IGNORED_ANNOTATIONS,
        condition::UNPROVEN_RECORDS,
    ];
    let remarked = kinds.iter().filter_map(|kind| status.find_true(kind));
    all.extend(remarked.map(|condition| format!("{}: {}", condition.kind, condition.message)));
    // The condition itself lists every object.
    let planned =
        status.find_true(condition::PLANNED).map(|planned| planned.message.lines().next().unwrap_or_default());
    all.extend(planned.map(|summary| format!("only planned, as the annotation dry-run asks: {summary}")));
    all
}

fn queued(status: &Status) -> Option<String> {
    let is_waiting = |reason: &str| matches!(reason, "UpgradeQueued" | "ActionQueued") || reason.starts_with("Rollout");
    let waits = status.find_true(condition::RECONCILING).filter(|c| is_waiting(&c.reason))?;
    Some(waits.message.to_string())
}

fn events(all: &[Value]) -> Vec<Event> {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let count =
        |event: &Value| ["/series/count", "/count"].iter().find_map(|at| event.pointer(at)?.as_u64()).unwrap_or(1);
    let read = |event: &Value| Event {
        time: times.iter().find_map(|at| text(event, at).parse().ok()),
        warning: text(event, "/type") == "Warning",
        reason: text(event, "/reason").to_owned(),
        message: text(event, "/message").to_owned(),
        count: count(event),
    };
    let mut events: Vec<Event> = all.iter().map(read).collect();
    events.sort_by_key(|event| std::cmp::Reverse(event.time));
    events.truncate(MAX_EVENTS);
    events
}
