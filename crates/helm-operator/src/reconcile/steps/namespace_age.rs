//! Determines whether a release's namespace is older than a revision. Records in a shared namespace outlive the one of
//! their release: a later namespace of that name may be another tenant's, who must not get recorded values.

use helm_release::kube::Call;
use helm_release::storage::Home;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::reconcile::failure::Failed;
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

/// The ConfigMap that Kubernetes makes with each namespace. Reading the namespace itself would need a further right.
const ROOT_CA: &str = "kube-root-ca.crt";

#[derive(Deserialize)]
struct Dated {
    metadata: Dates,
}

/// The part of its metadata that its users cannot make unreadable, as they can its managed fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dates {
    creation_timestamp: Option<Time>,
}

impl StepContext<'_> {
    /// Returns whether a revision that was deployed then, for an earlier resource of this name, may be from an earlier
    /// namespace of this name. Sends a request only if it may.
    pub(super) async fn may_outlive_namespace(
        &self,
        primary: &Primary,
        version: u32,
        deployed: Option<Timestamp>,
    ) -> Result<bool, Failed> {
        let release = self.release().unwrap_or_default();
        let marks = release.revisions.get(&version).and_then(|revision| revision.marks.as_ref());
        let is_its_own = marks.is_some_and(|marks| *marks.owner == *primary.uid());
        if is_its_own || self.shared.settings.home == Home::default() {
            return Ok(false);
        }
        Ok(!is_older(self.namespace_since(primary).await?, deployed))
    }

    /// Returns when the release's namespace was made, at the latest; `None` if that is unknown.
    async fn namespace_since(&self, primary: &Primary) -> Result<Option<Timestamp>, Failed> {
        let path = format!("/api/v1/namespaces/{}/configmaps/{ROOT_CA}", primary.namespace());
        match self.api.send(Call::metadata(path)).await.and_then(|answer| answer.parse::<Dated>()) {
            Ok(read) => Ok(read.metadata.creation_timestamp.map(|time| time.0)),
            Err(error) if error.is_not_found() || error.is_forbidden() => Ok(None),
            Err(error) => Err(Failed::of_request(&error, "failed to read how old the namespace is")),
        }
    }
}

/// Returns whether a namespace is known to have existed when a revision was deployed.
fn is_older(namespace: Option<Timestamp>, deployed: Option<Timestamp>) -> bool {
    namespace.zip(deployed).is_some_and(|(since, deployed)| since <= deployed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_older_only_if_both_times_are_known() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        for (behaviour, namespace, deployed, expected) in [
            ("before", at(1), at(2), true),
            ("in the same second", at(2), at(2), true),
            ("after", at(3), at(2), false),
            ("of unknown age", None, at(2), false),
            ("of a revision without a time", at(1), None, false),
        ] {
            assert_eq!(is_older(namespace, deployed), expected, "{behaviour}");
        }
    }
}
