//! The conditions of a resource's status, like apimachinery's `meta.SetStatusCondition`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;

/// The conditions of a resource, for its next status.
///
/// The transition time of a condition changes only with its status. An equal outcome therefore gives an equal status,
/// which needs no write.
#[derive(Clone, Debug)]
pub struct Conditions {
    generation: Option<i64>,
    list: Vec<Condition>,
}

impl Conditions {
    /// Starts from the conditions of the resource's last status. Those of other managers stay theirs:
    /// [`Scope::status`](super::Scope::status) does not write what it only copied.
    pub fn after(resource: &impl Resource, last: &[Condition]) -> Conditions {
        Conditions { generation: resource.meta().generation, list: last.to_vec() }
    }

    /// Sets a condition to `True`. `reason` is one word in upper camel case, `message` a sentence for people.
    #[must_use]
    pub fn set_true(self, type_: &str, reason: &str, message: impl Into<String>) -> Conditions {
        self.set(type_, "True", (reason, message.into()))
    }

    /// Sets a condition to `False`.
    #[must_use]
    pub fn set_false(self, type_: &str, reason: &str, message: impl Into<String>) -> Conditions {
        self.set(type_, "False", (reason, message.into()))
    }

    /// Sets a condition to `Unknown`.
    #[must_use]
    pub fn set_unknown(self, type_: &str, reason: &str, message: impl Into<String>) -> Conditions {
        self.set(type_, "Unknown", (reason, message.into()))
    }

    /// Returns the conditions in the form that a status has.
    pub fn list(self) -> Vec<Condition> {
        self.list
    }

    fn set(mut self, type_: &str, status: &str, (reason, message): (&str, String)) -> Conditions {
        let at = self.list.iter().position(|known| known.type_ == type_);
        let same = at.map(|at| &self.list[at]).filter(|known| known.status == status);
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: self.generation,
            last_transition_time: same.map_or_else(now, |known| known.last_transition_time.clone()),
        };
        match at {
            Some(at) => self.list[at] = condition,
            None => self.list.push(condition),
        }
        self
    }
}

/// Returns the time in whole seconds, as Kubernetes stores it: a fraction would differ from the stored value.
fn now() -> Time {
    let now = outside::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn a_conditions_time_changes_only_with_its_status() {
        let mut resource = ConfigMap::default();
        resource.metadata.generation = Some(1);
        let mut first =
            Conditions::after(&resource, &[]).set_false("Ready", "Starting", "0 of 2").set_true("Other", "A", "");
        first.list[0].last_transition_time = Time(Timestamp::UNIX_EPOCH);
        let first = first.list();
        resource.metadata.generation = Some(2);
        let again = Conditions::after(&resource, &first).set_false("Ready", "Starting", "1 of 2").list();
        assert_eq!(again[0].last_transition_time.0, Timestamp::UNIX_EPOCH);
        assert_eq!((&*again[0].message, again[0].observed_generation), ("1 of 2", Some(2)));
        assert_eq!(again[1], first[1], "others stay");
        let ready = Conditions::after(&resource, &again).set_true("Ready", "PodsReady", "2 of 2").list();
        assert!(ready[0].last_transition_time.0 > Timestamp::UNIX_EPOCH);
        assert_eq!(ready[0].last_transition_time.0.subsec_nanosecond(), 0);
        let unknown = Conditions::after(&resource, &ready).set_unknown("Ready", "Unreachable", "").list();
        assert_eq!((&*unknown[0].status, unknown.len()), ("Unknown", 2));
    }
}
