//! What the log and events say about an application's objects, once for each change.

use helm_operator::reconciler::Change;
use helm_operator::report::Outcome;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;

pub(crate) fn of_deployment(change: Change, before: Option<&Deployment>, now: &Deployment) -> Option<Outcome> {
    let name = now.name_any();
    let (old, new) = (before.and_then(|before| before.spec.replicas).unwrap_or(0), now.spec.replicas.unwrap_or(0));
    match change {
        Change::Created => Some(created(format!("Created Deployment {name} with {new} pods"))),
        Change::Updated if old != new => {
            Some(Outcome::normal("Scaled", "Scale", format!("Scaled Deployment {name} from {old} to {new} pods")))
        }
        Change::Updated => Some(updated(format!("Updated Deployment {name}"))),
        _ => None,
    }
}

pub(crate) fn of_service(change: Change, now: &Service) -> Option<Outcome> {
    let name = now.name_any();
    match change {
        Change::Created => Some(created(format!("Created Service {name}"))),
        Change::Updated => Some(updated(format!("Updated Service {name}"))),
        _ => None,
    }
}

fn created(message: String) -> Outcome {
    Outcome::normal("Created", "Create", message)
}

fn updated(message: String) -> Outcome {
    Outcome::normal("Updated", "Update", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ReverseWordsApp, ReverseWordsAppSpec};
    use crate::objects;

    fn deployment(replicas: i32) -> Deployment {
        let spec = ReverseWordsAppSpec { replicas: Some(replicas), app_version: None };
        objects::deployment(&ReverseWordsApp::new("a", spec))
    }

    #[test]
    fn each_change_has_its_reason_and_what_stays_has_none() {
        let (one, three) = (deployment(1), deployment(3));
        let reason = |change, before| of_deployment(change, before, &three).map(|outcome| outcome.reason.to_string());
        assert_eq!(reason(Change::Created, None).as_deref(), Some("Created"));
        assert_eq!(reason(Change::Updated, Some(&one)).as_deref(), Some("Scaled"));
        assert_eq!(reason(Change::Updated, Some(&three)).as_deref(), Some("Updated"));
        assert_eq!(reason(Change::Unchanged, Some(&three)), None);
    }
}
