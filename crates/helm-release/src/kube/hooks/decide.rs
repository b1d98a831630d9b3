//! Interprets the state of hooks' objects. Pure functions.

use std::time::Duration;

use helm::manifest::{HOOK_DELETE_ANNOTATION, words};
use jiff::Timestamp;
use outside::group_of;
use serde_json::Value;
use tokio::time::Instant;

use super::{HOOK_RUN_ANNOTATION, INTERRUPTED, SUCCEEDED, objects};
use crate::kube::objects::expiry::{TTL, expires};
use crate::kube::objects::object::Object;
use crate::release::{DeletePolicy, Hook, HookEvent, HookPhase, LastRun};

/// How much longer ago than its TTL says a Job may have finished: the time in its status has whole seconds and comes from
/// another node's clock, and the controller writes it after its other work on the Job.
const LATE_END: Duration = Duration::from_secs(10);

/// Returns the hooks of an event in the order in which they run: by weight, then by name.
pub(super) fn order(hooks: &[Hook], event: HookEvent) -> Vec<usize> {
    let mut order: Vec<usize> = (0..hooks.len()).filter(|i| hooks[*i].events.contains(&event)).collect();
    order.sort_by(|a, b| (hooks[*a].weight, &hooks[*a].name).cmp(&(hooks[*b].weight, &hooks[*b].name)));
    order
}

/// Returns the hooks of an event that are deleted once they have succeeded, in the order in which they run. A hook
/// already begun for the `next` event is left out: its objects belong to that run, or are needed by it.
pub(super) fn to_clean_up(hooks: &[Hook], event: HookEvent, next: Option<HookEvent>) -> Vec<usize> {
    let is_of_next = |hook: &Hook| next.is_some_and(|next| hook.events.contains(&next));
    let has_begun_again = |hook: &Hook| is_of_next(hook) && hook.last_run.phase != HookPhase::NotRun;
    let goes = |hook: &Hook| hook.delete_policies.contains(&DeletePolicy::HookSucceeded) && !has_begun_again(hook);
    let mut order = order(hooks, event);
    order.retain(|at| goes(&hooks[*at]));
    order
}

/// How a hook's object finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HookResult {
    Succeeded,
    /// It failed, with this message.
    Failed(String),
}

/// Returns the result of a hook's object; `None` while it runs. Only Jobs and Pods run: anything else is done once it
/// exists.
pub(super) fn outcome(kind: &str, status: &Value) -> Option<HookResult> {
    match kind {
        "Pod" => match status["phase"].as_str() {
            Some("Succeeded") => Some(HookResult::Succeeded),
            Some("Failed") => Some(HookResult::Failed(message(status))),
            _ => None,
        },
        "Job" => match (condition(status, "Complete"), condition(status, "Failed")) {
            (Some(_), _) => Some(HookResult::Succeeded),
            (None, Some(failed)) => Some(HookResult::Failed(message(failed))),
            (None, None) => None,
        },
        _ => Some(HookResult::Succeeded),
    }
}

/// Returns the message of a status or condition, otherwise its reason.
fn message(of: &Value) -> String {
    of["message"].as_str().or(of["reason"].as_str()).unwrap_or("no reason given").to_owned()
}

/// Finds a condition that is true.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|c| c["type"] == kind && c["status"] == "True")
}

/// Resets hooks whose objects were deleted because a later hook failed, so that the next attempt recreates the
/// accounts, roles and settings that it needs. Jobs and Pods are not reset, because they have run.
pub(super) fn expect_again(hooks: &mut [Hook], order: &[usize]) {
    let Some(failed) = order.iter().position(|at| hooks[*at].last_run.phase == HookPhase::Failed) else { return };
    for at in &order[..failed] {
        let hook = &mut hooks[*at];
        if goes_with_a_failure(hook) {
            hook.last_run = LastRun::default();
        }
    }
}

/// Returns the hooks whose objects may be gone although a hook that needs them has begun: the process that ran it
/// deleted them because it failed, and died before it recorded that.
pub(super) fn needed_by_begun(hooks: &[Hook], order: &[usize]) -> Vec<usize> {
    let begun = order.iter().position(|at| hooks[*at].last_run.is_unfinished()).unwrap_or_default();
    let may_be_gone =
        |at: &usize| hooks[*at].last_run.phase == HookPhase::Succeeded && goes_with_a_failure(&hooks[*at]);
    order[..begun].iter().copied().filter(may_be_gone).collect()
}

/// A hook whose objects may be left, with the policies that delete them.
pub(super) type Left = (usize, &'static [DeletePolicy]);

/// Marks hooks that began but did not end as failed. Returns the hooks whose objects may be left.
pub(super) fn abandon(hooks: &mut [Hook], now: Timestamp) -> Vec<Left> {
    for hook in hooks.iter_mut().filter(|hook| hook.last_run.is_unfinished()) {
        (hook.last_run.phase, hook.last_run.completed_at) = (HookPhase::Failed, Some(now));
    }
    left_by_ended(hooks)
}

/// Returns the hooks that began and ended, and whose objects may be left: a process may have marked a hook failed, and
/// died before it deleted them.
pub(super) fn left_by_ended(hooks: &[Hook]) -> Vec<Left> {
    let policies = |hook: &Hook| match hook.last_run.phase {
        // A hook that has started but is `NotRun` succeeded at its first event, and is to run again.
        HookPhase::NotRun | HookPhase::Succeeded => SUCCEEDED,
        HookPhase::Failed => INTERRUPTED,
        HookPhase::Running | HookPhase::Unknown => &[],
    };
    let begun = hooks.iter().enumerate().filter(|(_, hook)| hook.last_run.started_at.is_some());
    let left = begun.map(|(at, hook)| (at, policies(hook)));
    left.filter(|(at, policies)| hooks[*at].delete_policies.iter().any(|policy| policies.contains(policy))).collect()
}

/// Returns the hooks that succeeded and whose objects may be left, because the process that ran them died before it
/// deleted them.
pub(super) fn left_by_succeeded(hooks: &[Hook]) -> Vec<Left> {
    let has_succeeded = |hook: &Hook| matches!(hook.last_run.phase, HookPhase::NotRun | HookPhase::Succeeded);
    let goes = |hook: &Hook| hook.delete_policies.contains(&DeletePolicy::HookSucceeded) && has_succeeded(hook);
    let begun = hooks.iter().enumerate().filter(|(_, hook)| hook.last_run.started_at.is_some());
    begun.filter(|(_, hook)| goes(hook)).map(|(at, _)| (at, SUCCEEDED)).collect()
}

/// Returns whether a hook's objects are deleted when a later hook fails, and are needed for another attempt. A list with a
/// Job is not: it has run.
fn goes_with_a_failure(hook: &Hook) -> bool {
    hook.delete_policies.contains(&DeletePolicy::HookSucceeded) && !has_an_end(hook)
}

/// The facts about a hook's object that does not exist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Evidence<'a> {
    /// The record says that it was about to be created.
    Planned,
    /// The record says that it was created.
    Created,
    /// It was seen with this status.
    Seen(&'a Value),
}

/// The meaning of a missing hook object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    Create,
    Ended(HookResult),
}

/// Decides what a missing hook object means.
///
/// - It was only planned: the process died before it created the object, or someone deleted it since then. The hook may
///   not have run, so the object is created. A hook that may not have run must never count as done, or a migration
///   would be skipped.
/// - It was created or seen and has `ttlSecondsAfterFinished`: the server deletes such a Job only after it finished, so
///   it finished between two polls. The last status decides, if it shows a failure (`FailureTarget` precedes `Failed`);
///   otherwise the Job counts as succeeded, as a deleted hook does in Helm. Running it again would end the same way,
///   and with a short TTL it would run forever. See [`Look::gone`] for a TTL that cannot be over yet.
/// - It was created or seen, and only a person can have deleted it: it was deleted before it finished, so the hook
///   fails.
pub(super) fn absence(evidence: Evidence<'_>, expiry: Expiry) -> Absence {
    let status = match evidence {
        Evidence::Planned => return Absence::Create,
        Evidence::Created => &Value::Null,
        Evidence::Seen(status) => status,
    };
    let failing = condition(status, "FailureTarget").or(condition(status, "Failed"));
    match failing {
        Some(failing) => Absence::Ended(HookResult::Failed(message(failing))),
        None if expiry == Expiry::AfterFinish => Absence::Ended(HookResult::Succeeded),
        None => Absence::Ended(HookResult::Failed("it was deleted before it finished".to_owned())),
    }
}

/// Returns what the record proves about a hook's object. A Job with a TTL is recorded as `Unknown` before its creation and
/// as `Running` after it. A TTL that the server adds is known and recorded only after the creation. For other objects the
/// difference does not matter.
pub(super) fn evidence(phase: HookPhase, expiry: Expiry) -> Evidence<'static> {
    if phase == HookPhase::Running && expiry == Expiry::AfterFinish { Evidence::Created } else { Evidence::Planned }
}

/// How to treat an object of the release that has the name of a hook's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Another hook of this action made it, at this event if it runs: apply the hook's object over it, as Helm v4 does.
    Finished,
    /// It is kept for more than one run: apply over it as well.
    Lasting,
    /// It is from an earlier run or from somebody else, and proves nothing about this run.
    Left,
}

/// Decides how to treat an existing object that the run with the stamp `made_by` created. A Job or Pod of another hook
/// of the same event, which has one of these `runs`, has finished, which is enough for both hooks. A Job or Pod of an earlier
/// run is not enough: a hook that may not have run must never count as done.
pub(super) fn standing(kind: &str, made_by: Option<&str>, runs: &[String]) -> Standing {
    match made_by.is_some_and(|made_by| runs.iter().any(|run| run == made_by)) {
        true => Standing::Finished,
        false if runs_to_an_end(kind) => Standing::Left,
        false => Standing::Lasting,
    }
}

/// Returns whether the Job or Pod of an earlier run should have been deleted when its hook succeeded: the server refused
/// that then. Its own annotation says so as well: it may be from an earlier chart, or from another hook with this name, whose
/// policy keeps it. Helm's have no run.
pub(super) fn should_be_gone(kind: &str, live: &Value, policies: &[DeletePolicy]) -> bool {
    let annotations = &live["metadata"]["annotations"];
    let is_ours = annotations[HOOK_RUN_ANNOTATION].is_string();
    let has_succeeded = outcome(kind, &live["status"]) == Some(HookResult::Succeeded);
    let own = annotations[HOOK_DELETE_ANNOTATION].as_str().unwrap_or_default();
    let was_to_go = words(own).any(|policy| policy.parse() == Ok(DeletePolicy::HookSucceeded));
    is_ours && has_succeeded && was_to_go && policies.contains(&DeletePolicy::HookSucceeded)
}

/// Returns who made the Job or Pod that is in the way of a hook with these policies, and what removes it.
pub(super) fn in_the_way(made_by: Option<&str>, policies: &[DeletePolicy]) -> &'static str {
    match made_by {
        None => "somebody else made it, such as Helm; delete it once it has finished",
        Some(_) if !policies.contains(&DeletePolicy::HookFailed) => {
            "an earlier run left it, and no delete policy of the hook removes it; delete it, or add \
             before-hook-creation to its annotation helm.sh/hook-delete-policy"
        }
        Some(_) if policies.contains(&DeletePolicy::HookSucceeded) => {
            "an earlier run left it; the hook's delete policy hook-failed removes it before the next attempt"
        }
        Some(_) => {
            "an earlier run left it; the hook's delete policy hook-failed removes it before the next attempt, but leaves \
             what succeeds in the way of the run after that: add before-hook-creation to its annotation \
             helm.sh/hook-delete-policy"
        }
    }
}

/// Returns whether a hook's object of this kind runs and finishes. Any other is done once it exists.
pub(super) fn runs_to_an_end(kind: &str) -> bool {
    matches!(kind, "Job" | "Pod")
}

/// Returns which of these objects of a hook that failed may run beside what failed: the Jobs and Pods of a list.
pub(super) fn may_run_beside(mut objects: Vec<Object>) -> Vec<Object> {
    let is_list = objects.len() > 1;
    objects.retain(|object| is_list && runs_to_an_end(&object.kind));
    objects
}

/// Returns whether any object of a hook runs and finishes. A hook may be a list.
pub(super) fn has_an_end(hook: &Hook) -> bool {
    objects::of(hook).is_ok_and(|all| all.iter().any(|object| runs_to_an_end(&object.kind)))
}

/// What a look at a hook's object has shown.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) status: Value,
    pub(super) expiry: Expiry,
    ttl: Option<Duration>,
    /// When the request was sent.
    asked: Instant,
}

impl Look {
    /// Interprets an object that the server sent in answer to a request of this time.
    pub(super) fn of(kind: &str, live: &Value, asked: Instant) -> Look {
        let ttl = live["spec"][TTL].as_u64().map(Duration::from_secs);
        Look { status: live["status"].clone(), expiry: expiry(kind, live), ttl, asked }
    }

    /// Returns how an object has ended that no longer exists `now`, and of which this was the last look.
    pub(super) fn gone(&self, kind: &str, now: Instant) -> HookResult {
        if runs_to_an_end(kind)
            && let Some(ended) = outcome(kind, &self.status)
        {
            return ended;
        }
        let expiry = expiry_after(now.saturating_duration_since(self.asked), self.expiry, self.ttl);
        match absence(Evidence::Seen(&self.status), expiry) {
            Absence::Ended(ended) => ended,
            Absence::Create => HookResult::Succeeded,
        }
    }
}

/// Returns the expiry that can explain why an object is gone that was last seen unfinished this long ago. A TTL begins when
/// the Job ends, so an object that goes sooner was deleted by a person, perhaps by a rollback.
fn expiry_after(passed: Duration, expiry: Expiry, ttl: Option<Duration>) -> Expiry {
    match ttl {
        Some(ttl) if passed.saturating_add(LATE_END) < ttl => Expiry::Never,
        _ => expiry,
    }
}

/// Whether an object is deleted without a request of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Only a request deletes it.
    Never,
    /// It is deleted some time after it finished.
    AfterFinish,
}

/// Determines when a hook's object with this body expires. The body is the chart's or the server's. Only kinds that run to
/// an end are waited for, so the expiry of other kinds does not count.
pub(super) fn expiry(kind: &str, body: &Value) -> Expiry {
    let group = group_of(body["apiVersion"].as_str().unwrap_or_default());
    if runs_to_an_end(kind) && expires(group, kind, &body["spec"]) { Expiry::AfterFinish } else { Expiry::Never }
}

/// Determines when a hook's object expires, by the chart and by the record of its run.
pub(super) fn recorded_expiry(object: &Object, run: &LastRun) -> Expiry {
    if run.ttl_added && object.kind == "Job" { Expiry::AfterFinish } else { expiry(&object.kind, &object.body) }
}

/// Returns what to record of a run once its objects exist; `None` if that is recorded. `expiries` has the expiry of
/// each object in the chart and on the server, where a policy may have added a TTL.
pub(super) fn created(run: &LastRun, expiries: &[(Expiry, Expiry)]) -> Option<LastRun> {
    let ttl_added = run.ttl_added || expiries.contains(&(Expiry::Never, Expiry::AfterFinish));
    let is_recorded = run.phase == HookPhase::Running && run.ttl_added == ttl_added;
    (!is_recorded).then(|| LastRun { phase: HookPhase::Running, ttl_added, ..run.clone() })
}
