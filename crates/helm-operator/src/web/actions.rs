//! The actions that a viewer can request with a button, and the annotations that request them. Pure.

use jiff::Timestamp;
use scaffold::annotations::PREFIX;
use serde::Serialize;
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr};

use super::address::value;
use crate::inspect::model::{ReleaseReport, State};
use crate::status::condition;
use crate::view::primary::Primary;
use crate::watches::AnnotationNames;

/// The name of the field that a button sends.
pub(crate) const FIELD: &str = "action";

/// An action that a viewer can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, EnumString, IntoStaticStr)]
#[cfg_attr(test, derive(strum::EnumIter))]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum PageAction {
    ReconcileNow,
    RetryNow,
    Suspend,
    Resume,
}

impl PageAction {
    /// Returns the word in forms and addresses.
    pub(crate) fn word(self) -> &'static str {
        self.into()
    }

    /// Returns the text of the button.
    pub(crate) fn label(self) -> &'static str {
        match self {
            PageAction::ReconcileNow => "Reconcile now",
            PageAction::RetryNow => "Retry now",
            PageAction::Suspend => "Suspend",
            PageAction::Resume => "Resume",
        }
    }

    pub(crate) fn event_action(self) -> &'static str {
        match self {
            PageAction::ReconcileNow => "ReconcileNow",
            PageAction::RetryNow => "RetryNow",
            PageAction::Suspend => "Suspend",
            PageAction::Resume => "Resume",
        }
    }

    /// Reads a form with nothing but one action.
    pub(crate) fn of_form(form: &str) -> Option<PageAction> {
        let is_alone = !form.contains('&');
        PageAction::parse(form).filter(|_| is_alone)
    }

    pub(crate) fn parse(query: &str) -> Option<PageAction> {
        value(query, FIELD)?.parse().ok()
    }

    /// Returns the key of its annotation.
    fn key(self) -> &'static str {
        match self {
            PageAction::ReconcileNow => "reconcile-now",
            PageAction::RetryNow => "retry-now",
            PageAction::Suspend | PageAction::Resume => "suspend",
        }
    }

    /// Returns whether its annotation counts for the resources of a watch.
    pub(crate) fn counts(self, names: &AnnotationNames) -> bool {
        names.counts(self.key())
    }

    /// Returns the merge patch that requests the action. Its uid makes the patch fail on a resource that was re-created
    /// in the meantime.
    pub(crate) fn patch(self, uid: &str, now: Timestamp) -> Value {
        let value = match self {
            PageAction::ReconcileNow | PageAction::RetryNow => Value::from(now.to_string()),
            PageAction::Suspend => Value::from("true"),
            PageAction::Resume => Value::Null,
        };
        json!({"metadata": {"uid": uid, "annotations": {format!("{PREFIX}{}", self.key()): value}}})
    }
}

/// Returns what makes sense for a release in its state, as far as its annotation counts. The annotation `pause`, and an
/// author's code that pauses, end where they began.
pub(crate) fn offered(primary: &Primary, release: &ReleaseReport, names: &AnnotationNames) -> Vec<PageAction> {
    let retries = release.next_attempt.is_some() || release.state == State::Failed || has_failed_tests(release);
    let retry = retries.then_some(PageAction::RetryNow);
    let all = match primary.annotations.left_alone_by() {
        Some("suspend") if !primary.deleting => vec![PageAction::Resume],
        Some("pause") => vec![],
        _ if primary.deleting => retry.into_iter().collect(),
        _ => [PageAction::ReconcileNow].into_iter().chain(retry).chain([PageAction::Suspend]).collect(),
    };
    all.into_iter().filter(|action| action.counts(names)).collect()
}

fn has_failed_tests(release: &ReleaseReport) -> bool {
    release.conditions.iter().any(|one| *one.kind == *condition::TEST_SUCCESS && *one.status == *"False")
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator as _;

    use super::*;
    use crate::inspect::build::build;
    use crate::inspect::seen::Seen;
    use crate::view::primary::Received;

    use PageAction::{ReconcileNow, Resume, RetryNow, Suspend};

    /// Returns what is offered for a resource with these annotations and conditions.
    fn offered_for(
        annotations: &[&str],
        conditions: &[(&str, &str)],
        deleting: bool,
        allowed: &[&str],
    ) -> Vec<PageAction> {
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|key| (format!("{PREFIX}{key}"), "true".into())).collect();
        let deleted = deleting.then_some("2026-01-01T00:00:00Z");
        let metadata = json!({
            "name": "web", "namespace": "ns", "uid": "u", "generation": 1, "annotations": annotations,
            "deletionTimestamp": deleted, "finalizers": ["uninstall-helm-release"],
        });
        let conditions: Vec<Value> =
            conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status, "reason": "X"})).collect();
        let status = json!({"observedGeneration": 1, "conditions": conditions});
        let object = json!({"apiVersion": "g/v1", "kind": "Shop", "metadata": metadata, "status": status});
        let received: Received = serde_json::from_value(object).unwrap();
        let mut names = AnnotationNames::default();
        if !allowed.is_empty() {
            names.allow(&allowed.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>()).unwrap();
        }
        let primary = received.primary.clone();
        let release = build(&Seen::resource_alone(received), Timestamp::UNIX_EPOCH);
        offered(&primary, &release, &names)
    }

    #[test]
    fn what_makes_sense_is_offered() {
        let ready = ("Ready", "True");
        let failed = [("Ready", "False"), ("ReleaseFailed", "True")];
        for (what, annotations, conditions, deleting, expected) in [
            ("ready", &[][..], &[ready][..], false, vec![ReconcileNow, Suspend]),
            ("failed", &[], &failed, false, vec![ReconcileNow, RetryNow, Suspend]),
            ("failed tests", &[], &[ready, ("TestSuccess", "False")], false, vec![ReconcileNow, RetryNow, Suspend]),
            ("passed tests", &[], &[ready, ("TestSuccess", "True")], false, vec![ReconcileNow, Suspend]),
            ("suspended", &["suspend"], &[ready], false, vec![Resume]),
            ("paused", &["pause"], &[ready], false, vec![]),
            ("both", &["pause", "suspend"], &[ready], false, vec![]),
            ("deleted", &[], &[ready], true, vec![]),
            ("suspended, and deleted", &["suspend"], &[ready], true, vec![]),
            ("paused, and deleted", &["pause"], &failed, true, vec![]),
        ] {
            assert_eq!(offered_for(annotations, conditions, deleting, &[]), expected, "{what}");
        }
    }

    #[test]
    fn an_annotation_that_does_not_count_has_no_button() {
        let ready = [("Ready", "True")];
        assert_eq!(offered_for(&[], &ready, false, &["suspend"]), [Suspend]);
        assert_eq!(offered_for(&[], &ready, false, &["reconcile-now", "drift"]), [ReconcileNow]);
        assert_eq!(offered_for(&[], &ready, false, &["drift"]), []);
    }

    #[test]
    fn a_form_has_one_action_and_nothing_else() {
        for action in PageAction::iter() {
            assert_eq!(PageAction::of_form(&format!("action={}", action.word())), Some(action));
        }
        for bad in [
            "",
            "action",
            "action=",
            "action=Suspend",
            "action=pin",
            "suspend",
            "action=suspend&action=resume",
            "action=suspend&x=1",
            "x=suspend",
            "&action=suspend",
        ] {
            assert_eq!(PageAction::of_form(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_action_is_an_annotation() {
        let now: Timestamp = "2026-01-03T00:00:00.5Z".parse().unwrap();
        for (action, annotation, value) in [
            (ReconcileNow, "reconcile-now", json!("2026-01-03T00:00:00.5Z")),
            (RetryNow, "retry-now", json!("2026-01-03T00:00:00.5Z")),
            (Suspend, "suspend", json!("true")),
            (Resume, "suspend", Value::Null),
        ] {
            let annotations = json!({format!("helm.sdk.operatorframework.io/{annotation}"): value});
            assert_eq!(action.patch("u", now), json!({"metadata": {"uid": "u", "annotations": annotations}}));
        }
    }
}
