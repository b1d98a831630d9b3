//! Finds the first thing that a release fails on, in one line that starts with the cause. Judges pods as the operator's
//! own diagnosis does, but by what the caller may read now.

use controller::report::shorten;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::model::{Cause, CauseKind, Container, State};
use super::nodes::text;
use super::seen::{Seen, SeenObject, Sight};
use super::state::unserved_for;
use crate::reconcile::report::pods::{self, Culprit, Problem};
use crate::status::condition;

/// The maximum length of a cause, in bytes.
const LONGEST: usize = 600;

/// Returns what the release fails on; `None` if it is ready, or paused without a failure.
pub(crate) fn first_cause(seen: &Seen, state: State, now: Timestamp) -> Option<Cause> {
    let primary = &seen.resource.primary;
    if let Some(waited) = unserved_for(&seen.resource, now) {
        let what = if primary.status.is_unwritten() { "this resource" } else { "the last change of this resource" };
        let message = format!(
            "no operator has served {what} for {}: is one running that watches its kind and namespace?",
            minutes(waited)
        );
        return Some(cause(CauseKind::Unserved, message));
    }
    if matches!(state, State::Ready | State::Suspended) {
        return None;
    }
    // A failure is more important than the health of an older revision.
    if primary.status.fault().is_some() || primary.deleting {
        return reported(seen).map(|reported| with_hook(reported, seen));
    }
    let of_objects = seen.objects.iter().filter_map(of_object).min_by_key(|cause| cause.kind);
    of_objects.or_else(|| reported(seen).map(|reported| with_hook(reported, seen)))
}

/// Formats `3 min`, `2 h 5 min` or `40 s`.
fn minutes(waited: SignedDuration) -> String {
    match waited.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ ..3600 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn cause(kind: CauseKind, message: impl AsRef<str>) -> Cause {
    let line = message.as_ref().lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    Cause { kind, message: shorten(line, LONGEST), container: None, log: Vec::new() }
}

/// Returns the cause in the operator's words.
fn reported(seen: &Seen) -> Option<Cause> {
    let status = &seen.resource.primary.status;
    let condition = status.fault().or_else(|| status.find(condition::READY))?;
    // `Ready` has the message with the useful line first, whatever the condition.
    let ready = status.find(condition::READY).filter(|ready| *ready.status != *"True").unwrap_or(condition);
    let kind = kind_of_reason(&ready.reason).unwrap_or_else(|| kind_of_text(&ready.message));
    let message = if ready.message.is_empty() { &ready.reason } else { &ready.message };
    Some(cause(kind, message))
}

/// Adds why a hook's pod does not run, if the cause is a hook that is still there.
fn with_hook(reported: Cause, seen: &Seen) -> Cause {
    if reported.kind != CauseKind::Hook {
        return reported;
    }
    match seen.hook_objects.iter().find_map(culprit) {
        Some((culprit, container)) if !reported.message.contains(&culprit.text) => {
            let message = format!("{}: {}", reported.message.trim_end_matches('.'), culprit.text);
            Cause { container, ..cause(CauseKind::Hook, message) }
        }
        Some((_, container)) => Cause { container, ..reported },
        None => reported,
    }
}

/// Returns why an object of the release is not ready; `None` if it is.
fn of_object(object: &SeenObject) -> Option<Cause> {
    let key = &object.key;
    let live = match &object.sight {
        Sight::Missing => return Some(cause(CauseKind::Missing, format!("{key} does not exist"))),
        Sight::Hidden => return None,
        Sight::Live(live) => live,
    };
    let unready = live.unready(&key.group, &key.kind)?;
    let why = unready.why.trim_end_matches('.');
    if let Some((culprit, container)) = culprit(object) {
        let (kind, text) = explained(culprit, object.event.as_deref());
        return Some(Cause { container, ..cause(kind, format!("{text} ({key}: {why})")) });
    }
    let state = if unready.failed { "failed" } else { "is not ready" };
    let more = object.event.as_deref().map(|event| format!(": {event}")).unwrap_or_default();
    let message = format!("{key} {state}: {why}{more}");
    let kind = match kind_of_text(&message) {
        CauseKind::Other if *key.kind == *"PersistentVolumeClaim" => CauseKind::Volume,
        kind => kind,
    };
    Some(cause(kind, message))
}

/// Returns the kind of a pod's problem, and its text with what an event adds.
fn explained(culprit: Culprit, event: Option<&str>) -> (CauseKind, String) {
    let text = match event.filter(|_| culprit.ask) {
        Some(event) => format!("{}: {event}", culprit.text),
        None => culprit.text,
    };
    let kind = match culprit.problem {
        Problem::Image => CauseKind::Image,
        Problem::Config => CauseKind::Configuration,
        Problem::Crash => CauseKind::Crash,
        Problem::Exit => CauseKind::Exit,
        Problem::Unschedulable if text.contains("PersistentVolumeClaim") => CauseKind::Volume,
        Problem::Unschedulable => CauseKind::Unschedulable,
        Problem::Probe | Problem::Gate => CauseKind::Probe,
        Problem::Creating | Problem::Pending => kind_of_text(&text),
    };
    (kind, text)
}

/// Returns the pod that explains most, and its container with a log that may say more.
fn culprit(object: &SeenObject) -> Option<(Culprit, Option<Container>)> {
    let culprit = pods::culprit(&object.pods)?;
    let pod = object.pods.iter().find(|pod| text(pod, "/metadata/uid") == culprit.uid)?;
    let has_log = matches!(culprit.problem, Problem::Crash | Problem::Exit);
    let container = if has_log { crashed(pod) } else { None };
    Some((culprit, container))
}

/// Returns the container of a pod that ended with an error.
fn crashed(pod: &Value) -> Option<Container> {
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let mut all = statuses.iter().filter_map(|at| pod.pointer(at)?.as_array()).flatten();
    let waits = |status: &Value| text(status, "/state/waiting/reason") == "CrashLoopBackOff";
    let exited = |status: &Value| status.pointer("/state/terminated/exitCode").is_some_and(|code| *code != 0);
    let found = all.find(|status| waits(status) || exited(status))?;
    Some(Container {
        namespace: text(pod, "/metadata/namespace").to_owned(),
        pod: text(pod, "/metadata/name").to_owned(),
        container: text(found, "/name").to_owned(),
        previous: waits(found),
    })
}

/// Returns the kind of a failure whose reason says enough.
fn kind_of_reason(reason: &str) -> Option<CauseKind> {
    Some(match reason {
        "InvalidValues" | "InvalidSchema" | "ExternalSchema" | "InvalidAnnotation" | "InvalidName" => {
            CauseKind::InvalidValues
        }
        "RenderError"
        | "RenderLimit"
        | "ChartChanged"
        | "UnsupportedKubernetes"
        | "ValueMappingFailed"
        | "PostRenderFailed" => CauseKind::Render,
        "ValuesSourceMissing" => CauseKind::Configuration,
        "ReleaseConflict" | "ReleaseElsewhere" | "ReleaseInFlight" | "OtherOperator" | "DriftLoop" => {
            CauseKind::Conflict
        }
        "Forbidden"
        | "DeletionRefused"
        | "ImpersonationForbidden"
        | "RecordsForbidden"
        | "ValuesSourceForbidden"
        | "OutOfReach"
        | "ServiceAccountMissing" => CauseKind::Forbidden,
        _ => return None,
    })
}

/// Fragments of messages from controllers and the API server, with the kind of cause; the first match counts.
const SIGNS: [(&str, CauseKind); 14] = [
    ("exceeded quota", CauseKind::Quota),
    ("admission webhook", CauseKind::Webhook),
    ("failed calling webhook", CauseKind::Webhook),
    ("field is immutable", CauseKind::ImmutableField),
    ("updates to statefulset spec for fields other than", CauseKind::ImmutableField),
    ("cannot be changed in place", CauseKind::ImmutableField),
    ("hook ", CauseKind::Hook),
    ("FailedMount: MountVolume.SetUp failed for volume", CauseKind::Configuration),
    ("PersistentVolumeClaim", CauseKind::Volume),
    ("persistentvolumeclaim", CauseKind::Volume),
    ("FailedAttachVolume", CauseKind::Volume),
    ("FailedMount", CauseKind::Volume),
    ("Insufficient ", CauseKind::Unschedulable),
    ("is forbidden: User ", CauseKind::Forbidden),
];

fn kind_of_text(text: &str) -> CauseKind {
    SIGNS.iter().find(|(sign, _)| text.contains(sign)).map_or(CauseKind::Other, |(_, kind)| *kind)
}
