//! Interprets the state of hooks' objects. Pure functions.

use serde_json::Value;

use crate::release::{Hook, HookEvent, HookPhase};

/// Returns the hooks of an event in the order in which they run: by weight, then by name.
pub(super) fn order(hooks: &[Hook], event: HookEvent) -> Vec<usize> {
    let mut order: Vec<usize> = (0..hooks.len()).filter(|i| hooks[*i].events.contains(&event)).collect();
    order.sort_by(|a, b| (hooks[*a].weight, &hooks[*a].name).cmp(&(hooks[*b].weight, &hooks[*b].name)));
    order
}

/// Returns the result of a hook's object; `None` while it runs. Only Jobs and Pods run: anything else is done once it exists.
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

/// Finds a condition that is true.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|c| c["type"] == kind && c["status"] == "True")
}

/// What is known about a hook's object that does not exist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Evidence<'a> {
    /// The record says that it was about to be created.
    Planned,
    /// The record says that it was created.
    Created,
    /// It was seen with this status.
    Seen(&'a Value),
}

/// What a missing hook object means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// It has to be created.
    Create,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed(String),
}

/// Decides what a missing hook object means.
///
/// - It was only planned: the process died before it created the object, or someone deleted it since. The hook may not have run, so the object is
///   created. A hook that may not have run must never count as done, or a migration would be skipped.
/// - It was created or seen and has `ttlSecondsAfterFinished`: the server deletes such a Job only after it finished, so it finished between two
///   polls. The last status decides, if it shows a failure (`FailureTarget` precedes `Failed`); otherwise the Job counts as succeeded, as a deleted hook
///   does in Helm. Running it again would end the same way, and with a short TTL it would run for ever.
/// - It was created or seen, and only a person can have deleted it: it was deleted before it finished, which fails the hook.
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
        None => Absence::Failed("it was deleted before it finished".to_owned()),
    }
}

/// Returns what the record proves about a hook's object. A Job with a TTL is recorded as `Unknown` before and as `Running` after its creation; for
/// other objects the difference does not matter.
pub(super) fn evidence(phase: HookPhase, expires: bool) -> Evidence<'static> {
    if phase == HookPhase::Running && expires { Evidence::Created } else { Evidence::Planned }
}

/// Returns whether the server deletes the object some time after it finished.
pub(super) fn expires(kind: &str, body: &Value) -> bool {
    kind == "Job" && body["spec"]["ttlSecondsAfterFinished"].is_number()
}
