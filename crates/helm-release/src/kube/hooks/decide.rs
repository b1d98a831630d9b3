//! What a look at a hook's object means: pure functions.

use serde_json::Value;

use crate::release::{Hook, HookEvent, HookPhase};

/// The hooks of an event, in the order in which they run: by weight, then by name.
pub(super) fn order(hooks: &[Hook], event: HookEvent) -> Vec<usize> {
    let mut order: Vec<usize> = (0..hooks.len()).filter(|i| hooks[*i].events.contains(&event)).collect();
    order.sort_by(|a, b| (hooks[*a].weight, &hooks[*a].name).cmp(&(hooks[*b].weight, &hooks[*b].name)));
    order
}

/// How a hook's object ended; nothing while it runs. Only Jobs and Pods take time: anything else is done once it exists.
pub(super) fn outcome(kind: &str, status: &Value) -> Option<Result<(), String>> {
    let message = |of: &Value| of["message"].as_str().or(of["reason"].as_str()).unwrap_or("no reason given").to_owned();
    match kind {
        "Pod" => match status["phase"].as_str() {
            Some("Succeeded") => Some(Ok(())),
            Some("Failed") => Some(Err(message(status))),
            _ => None,
        },
        "Job" => match (condition(status, "Complete"), condition(status, "Failed")) {
            (Some(_), _) => Some(Ok(())),
            (None, Some(failed)) => Some(Err(message(failed))),
            (None, None) => None,
        },
        _ => Some(Ok(())),
    }
}

/// A condition that is true.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|c| c["type"] == kind && c["status"] == "True")
}

/// What is known of a hook's object that is not there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Evidence<'a> {
    /// The record says that it was going to be made.
    Planned,
    /// The record says that it was made.
    Created,
    /// It was seen, with this status.
    Seen(&'a Value),
}

/// What it means that a hook's object is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// It has to be made.
    Create,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed(String),
}

/// What it means that a hook's object is not there.
///
/// - It was only announced: the process died before the object was made, or somebody deleted it since. The hook has not run to its end
///   as far as anyone knows, so it is made. Never is a hook taken for done that may not have run: a migration would be skipped.
/// - It was made or seen, and its spec has `ttlSecondsAfterFinished`: the server deletes such a Job only once it has ended, so it ended
///   between two looks. The last status seen decides if it tells (`FailureTarget` comes before `Failed`); else the Job counts as
///   succeeded, as a deleted hook does for Helm. Running it again would end the same way: a short TTL would make it run for ever.
/// - It was made or seen, and nothing but a person deletes it: it was deleted before it ended, and that fails the hook.
pub(super) fn absence(evidence: Evidence<'_>, expires: bool) -> Absence {
    let status = match evidence {
        Evidence::Planned => return Absence::Create,
        Evidence::Created => &Value::Null,
        Evidence::Seen(status) => status,
    };
    let failing = condition(status, "FailureTarget").or(condition(status, "Failed"));
    match failing {
        Some(failing) => {
            let why = failing["message"].as_str().or(failing["reason"].as_str()).unwrap_or("no reason given");
            Absence::Failed(why.to_owned())
        }
        None if expires => Absence::Succeeded,
        None => Absence::Failed("it was deleted before it ended".to_owned()),
    }
}

/// What the record says of a hook's object that was or was going to be made. A Job that the server deletes by itself is announced as
/// `Unknown`, and becomes `Running` once it was made; for all others the difference does not matter.
pub(super) fn evidence(phase: HookPhase, expires: bool) -> Evidence<'static> {
    if phase == HookPhase::Running && expires { Evidence::Created } else { Evidence::Planned }
}

/// Whether the server deletes the object by itself some time after it ended.
pub(super) fn expires(kind: &str, body: &Value) -> bool {
    kind == "Job" && body["spec"]["ttlSecondsAfterFinished"].is_number()
}
