//! Decides the state of a release from its resource alone, and whether an operator serves it at all.

use jiff::{SignedDuration, Timestamp};

use super::model::State;
use crate::status::{Status, condition};
use crate::view::primary::Received;

/// How long an operator may take to see a change. Later, probably none is running.
const GRACE: SignedDuration = SignedDuration::from_secs(30);

pub(crate) fn state(resource: &Received, now: Timestamp) -> State {
    let (primary, status) = (&resource.primary, &resource.primary.status);
    let is_set = primary.annotations.leaves_alone();
    match () {
        () if unserved_for(resource, now).is_some() => State::Unserved,
        () if primary.deleting => State::Uninstalling,
        () if status.find_true(condition::STALLED).is_some() => State::Failed,
        () if is_set && status.fault().is_none() => State::Suspended,
        () if is_behind(resource) => State::Progressing,
        () if status.find_true(condition::READY).is_some() => State::Ready,
        () if status.fault().is_some() => State::Failed,
        () => State::Progressing,
    }
}

/// Returns how long no operator has seen the resource or its last change; `None` if one has, or may still do so in time.
pub(crate) fn unserved_for(resource: &Received, now: Timestamp) -> Option<SignedDuration> {
    let since = if is_unknown(&resource.primary.status) {
        Timestamp::from_second(resource.primary.created as i64).ok()?
    } else if is_behind(resource) {
        let raw = resource.primary.raw.as_deref()?;
        raw.spec_written.as_ref()?.1.parse().ok()?
    } else {
        return None;
    };
    Some(now.duration_since(since)).filter(|waited| *waited >= GRACE)
}

/// Returns whether the status does not describe the current generation.
pub(crate) fn is_behind(resource: &Received) -> bool {
    let primary = &resource.primary;
    primary.status.observed_generation.is_none_or(|observed| observed < primary.generation)
}

/// Returns whether no operator has written the status.
fn is_unknown(status: &Status) -> bool {
    [condition::INITIALIZED, condition::DEPLOYED, condition::READY].iter().all(|kind| status.find(kind).is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resource(more: Value, conditions: &[(&str, &str)]) -> Received {
        let conditions: Vec<Value> =
            conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status, "reason": "X"})).collect();
        let mut object = json!({
            "metadata": {
                "name": "web", "generation": 2, "creationTimestamp": "1970-01-01T00:00:00Z",
                "managedFields": [{"apiVersion": "g/v1", "time": "1970-01-01T00:01:40Z", "fieldsV1": {"f:spec": {}}}],
            },
            "status": {"observedGeneration": 2, "conditions": conditions},
        });
        let Value::Object(more) = more else { panic!() };
        for (key, value) in more {
            if key == "observedGeneration" {
                object["status"][key] = value;
            } else {
                object["metadata"][key] = value;
            }
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn each_state_follows_from_the_resource() {
        let suspended = json!({"annotations": {"helm.sdk.operatorframework.io/suspend": "true"}});
        let deleted = json!({"deletionTimestamp": "1970-01-01T00:02:00Z"});
        let served = ("Initialized", "True");
        for (what, more, conditions, expected) in [
            ("ready", json!({}), vec![served, ("Ready", "True")], State::Ready),
            ("not ready", json!({}), vec![served, ("Ready", "False")], State::Progressing),
            ("stalled", json!({}), vec![served, ("Ready", "False"), ("Stalled", "True")], State::Failed),
            ("failed", json!({}), vec![served, ("Ready", "False"), ("ReleaseFailed", "True")], State::Failed),
            ("never seen", json!({}), vec![], State::Unserved),
            ("a change not seen", json!({"observedGeneration": 1}), vec![served, ("Ready", "True")], State::Unserved),
            ("suspended", suspended.clone(), vec![served, ("Ready", "True")], State::Suspended),
            ("suspended, failed", suspended, vec![served, ("Irreconcilable", "True")], State::Failed),
            ("deleted", deleted.clone(), vec![served, ("Ready", "False")], State::Uninstalling),
            ("deleted, never seen", deleted, vec![], State::Unserved),
        ] {
            assert_eq!(state(&resource(more, &conditions), Timestamp::from_second(300).unwrap()), expected, "{what}");
        }
    }

    #[test]
    fn an_operator_has_time_to_see_a_new_resource_and_a_change() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let new = resource(json!({}), &[]);
        assert_eq!(unserved_for(&new, at(29)), None);
        assert_eq!(state(&new, at(29)), State::Progressing);
        assert_eq!(unserved_for(&new, at(180)), Some(SignedDuration::from_secs(180)));
        let changed = resource(json!({"observedGeneration": 1}), &[("Initialized", "True"), ("Ready", "True")]);
        assert_eq!((unserved_for(&changed, at(129)), state(&changed, at(129))), (None, State::Progressing));
        assert_eq!(unserved_for(&changed, at(130)), Some(SignedDuration::from_secs(30)));
    }
}
