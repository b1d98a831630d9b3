//! Computes the conditions from the facts, without side effects.

use controller::report::shorten;
use helm_release::kube::intern;

use super::{
    Condition, DETECTED, Facts, GIVEN_UP, Health, MAX_MESSAGE, NOT_INSTALLED, PausedBy, RETRIES_EXCEEDED, Stall,
    Status, UNINSTALLING, condition, summary,
};

/// The reason of conditions that are false because nothing is wrong.
const AS_EXPECTED: &str = "AsExpected";

pub(super) fn initialized() -> Condition {
    new(condition::INITIALIZED, "True", "Served", "this operator serves the resource")
}

pub(super) fn wanted(facts: &Facts, old: &Status) -> Vec<Condition> {
    let mut all = vec![initialized()];
    all.extend(deployed(facts, old));
    if let Some(cause) = facts.paused {
        // The reason is that of helm-operator-plugins, which tools may rely on.
        all.push(new(condition::PAUSED, "True", "PauseReconcileAnnotationTrue", paused(cause)));
    } else if old.find(condition::PAUSED).is_some() {
        all.push(new(condition::PAUSED, "False", AS_EXPECTED, ""));
    }
    if facts.suspended {
        let message = "The annotation suspend is set: the release is left alone.";
        all.push(new(condition::SUSPENDED, "True", "SuspendAnnotation", message));
    }
    all.extend(facts.planned.as_ref().map(|plan| new(condition::PLANNED, "True", plan.reason, &plan.message)));
    all.extend(facts.pinned.map(pinned));
    all.extend(faults(facts, old));
    let ready = ready(facts);
    all.extend(activity(facts, &ready));
    if !facts.drift.is_empty() {
        all.push(new(condition::DRIFTED, "True", DETECTED, &drifted(&facts.drift)));
    }
    all.push(ready);
    all.extend(facts.tests.as_ref().map(|tests| tests.condition(old)));
    let mistakes = [
        (condition::UNREAD_VALUES, &facts.unread),
        (condition::IGNORED_ANNOTATIONS, &facts.ignored),
        (condition::UNPROVEN_RECORDS, &facts.unproven),
    ];
    let mistakes = mistakes.into_iter().filter(|(_, message)| !message.is_empty());
    all.extend(mistakes.map(|(kind, message)| new(kind, "True", kind, message)));
    all
}

/// Returns the conditions of failures. On a resource of helm-operator-plugins, they stay as false when they are not
/// true.
fn faults(facts: &Facts, old: &Status) -> Vec<Condition> {
    let current = |kind| facts.fault.as_ref().or(facts.blocked.as_ref()).filter(|fault| fault.condition == kind);
    let of = |kind| match current(kind) {
        Some(fault) => Some(new(kind, "True", fault.reason.as_str(), &fault.message)),
        None => old.is_from_plugins().then(|| new(kind, "False", AS_EXPECTED, "")),
    };
    [condition::RELEASE_FAILED, condition::IRRECONCILABLE].into_iter().filter_map(of).collect()
}

/// Returns `Reconciling` or `Stalled` according to kstatus: at most one is true, and neither when there is nothing left
/// to do.
fn activity(facts: &Facts, ready: &Condition) -> Option<Condition> {
    let is_leaving = facts.awaited.is_some() || !facts.kept_by.is_empty();
    if is_leaving || facts.suspended || facts.paused.is_some() || facts.planned.is_some() {
        return None;
    }
    if let Some(waiting) = &facts.waiting {
        let kind = if waiting.is_final { condition::STALLED } else { condition::RECONCILING };
        return Some(new(kind, "True", waiting.reason, &waiting.message));
    }
    if let Some(limit) = facts.is_queued {
        let message = format!(
            "waiting for other upgrades: at most {limit} run at a time, each until its release is ready. One that fails or \
             stays unready stops the others until its resource is corrected, suspended or deleted"
        );
        return Some(new(condition::RECONCILING, "True", "UpgradeQueued", &message));
    }
    if *ready.status == *"True" {
        return None;
    }
    let kind = match (&facts.fault, &facts.health) {
        (Some(fault), _) if fault.reason.is_permanent() || facts.stall.is_some() => condition::STALLED,
        (None, Health::TimedOut(_) | Health::Failed(_)) => condition::STALLED,
        _ => condition::RECONCILING,
    };
    let reason = match (&facts.fault, facts.stall) {
        (Some(_), _) if kind == condition::RECONCILING => "ProgressingWithRetry",
        (Some(_), Some(Stall::Exhausted(_))) => RETRIES_EXCEEDED,
        (None, _) if facts.release.is_none() => "Progressing",
        _ => &ready.reason,
    };
    // `Ready` contains the message of the failure.
    let message = match (&facts.fault, facts.stall) {
        (Some(_), Some(Stall::Exhausted(attempts))) => {
            format!("{attempts} attempts failed, the last one as the message of Ready says; {GIVEN_UP}")
        }
        (Some(fault), _) if kind == condition::STALLED => fault.reason.advice().to_owned(),
        (Some(_), _) => "the last attempt failed, as the message of Ready says, and is repeated".to_owned(),
        _ => ready.message.to_string(),
    };
    Some(new(kind, "True", reason, &message))
}

fn deployed(facts: &Facts, old: &Status) -> Option<Condition> {
    if !facts.kept_by.is_empty() {
        return Some(new(condition::DEPLOYED, "False", "UninstallSuccessful", "The release is uninstalled."));
    }
    if let Some(awaited) = &facts.awaited {
        let message = format!("Waiting until all resources are deleted: {awaited}");
        return Some(new(condition::DEPLOYED, "False", "UninstallSuccessful", &message));
    }
    // operator-sdk omits the condition before the first install.
    let (reason, message) = summary::deployed(facts, old)?;
    Some(new(condition::DEPLOYED, "True", reason, &message))
}

fn ready(facts: &Facts) -> Condition {
    let ready = |status, reason, message: &str| new(condition::READY, status, reason, message);
    // A deployed release stays as ready as it is while its upgrade waits.
    let waiting = facts.waiting.as_ref().filter(|waiting| facts.release.is_none() || waiting.is_final);
    match (&facts.fault, waiting, &facts.release, &facts.health) {
        _ if facts.awaited.is_some() => ready("False", UNINSTALLING, facts.awaited.as_deref().unwrap_or_default()),
        _ if !facts.kept_by.is_empty() => ready("False", "Uninstalled", &kept_by(&facts.kept_by)),
        (Some(fault), ..) => ready("False", fault.reason.as_str(), &fault.message),
        (None, Some(waiting), ..) => ready("False", waiting.reason, &waiting.message),
        (None, None, None, _) => ready("False", NOT_INSTALLED, "nothing is installed yet"),
        (None, None, Some(_), Health::Ready) => ready("True", "Ready", &summary::ready(facts)),
        (None, None, Some(_), Health::Progressing(why)) => ready("False", "Progressing", why),
        (None, None, Some(_), Health::TimedOut(why)) => ready("False", "ProgressTimeout", why),
        (None, None, Some(_), Health::Failed(why)) => ready("False", "Failed", why),
    }
}

fn paused(cause: PausedBy) -> &'static str {
    match cause {
        PausedBy::Annotation => "The annotation pause is set: even a deletion waits.",
        PausedBy::PauseWhen => "The operator's own rule (pause_when) pauses the resource: even a deletion waits.",
        PausedBy::PauseWhenPanicked => {
            "The operator's own rule (pause_when) panicked, a bug that its log describes: even a deletion waits."
        }
        PausedBy::FilterPanicked => {
            "The operator's own filter panicked, a bug that its log describes: the resource is left alone. If it is \
             deleted, its release is uninstalled unless another operator has recorded it."
        }
    }
}

fn pinned((to, by): (u32, u32)) -> Condition {
    let as_which = if to == by { String::new() } else { format!(", which revision {by} repeats") };
    let message = format!(
        "the release stays at revision {to}{as_which}: changes of spec, chart and values wait until the annotation \
         helm.sdk.operatorframework.io/pin is removed"
    );
    new(condition::PINNED, "True", "PinAnnotation", &message)
}

/// The maximum number of drifted objects in a message.
const MAX_DRIFT: usize = 5;

fn drifted(texts: &[String]) -> String {
    let mut named = texts.iter().take(MAX_DRIFT).cloned().collect::<Vec<_>>();
    if texts.len() > MAX_DRIFT {
        named.push(format!("and {} more objects", texts.len() - MAX_DRIFT));
    }
    format!("{}; the drift policy is detect, so nothing is repaired", named.join("; "))
}

fn kept_by(finalizers: &[String]) -> String {
    format!("the release is uninstalled; other finalizers keep the resource: {}", finalizers.join(", "))
}

pub(super) fn new(kind: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        kind: intern(kind),
        status: intern(status),
        reason: intern(reason),
        message: intern(&shorten(message, MAX_MESSAGE)),
        ..Condition::default()
    }
}
