//! Finds the release of a cluster-scoped resource in another namespace than the one where the watch has it:
//! `releaseNamespace` has changed, or the operator was moved. A second release would take over the first one's
//! cluster-scoped objects, generate new values, and orphan the rest.

use controller::report::chain;
use controller::runtime::key::ResourceKey;
use helm_release::storage::{self, Home, OWNER_LABEL};

use crate::reconcile::decide::state::Recorded;
use crate::reconcile::failure::{Failed, Unanswered};
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::status::{Fault, condition};
use crate::view::primary::Primary;

impl StepContext<'_> {
    /// Checks, before a release is installed or uninstalled without records, that these are not in another namespace.
    ///
    /// # Errors
    /// They are, or it could not be determined.
    pub(crate) async fn check_release_namespace(&self, primary: &Primary) -> Result<(), Failed> {
        let has_release = primary.status.deployed_release.is_some();
        if self.shared.resource.namespaced || !has_release || self.recorded(primary) != Recorded::Lost {
            return Ok(());
        }
        let records = match self.all_records(primary).await {
            // Without the right to look there, the operator never wrote there.
            Err(storage::Error::Api { source, .. }) if source.is_forbidden() && primary.deleting => Vec::new(),
            records => records.map_err(|error| unknown(&error))?,
        };
        let here = (primary.namespace(), primary.name());
        match records.iter().find_map(|record| elsewhere(&self.shared.settings.home, record, here)) {
            Some(there) => Err(misplaced(primary, there).into()),
            None => Ok(()),
        }
    }

    /// Returns the records that name the resource, in any namespace. Sends a request only if no known one does, and others
    /// may exist.
    async fn all_records(&self, primary: &Primary) -> Result<Vec<ResourceKey>, storage::Error> {
        let known = self.shared.cache.records_of_owner(primary.uid());
        // This process has seen how they disappeared.
        let were_here = self.shared.memory.of(self.key).release.lost.is_some();
        let are_in_one_place = self.shared.settings.home != Home::default();
        if !known.is_empty() || were_here || are_in_one_place || self.shared.cache.knows_all_records() {
            return Ok(known);
        }
        let read = self.storage.owned_anywhere(primary.uid()).await?;
        Ok(read.iter().map(|meta| ResourceKey::new(&meta.namespace, &meta.name)).collect())
    }
}

/// Returns the namespace of the release of this name that a record belongs to, unless it is `here`.
fn elsewhere<'r>(home: &Home, record: &'r ResourceKey, (here, name): (&str, &str)) -> Option<&'r str> {
    let recorded = home.release(&record.namespace, &record.name).filter(|(_, of)| *of == name);
    // It may be from before the watch had a `storageNamespace`.
    let beside = || (*record.name == *name).then_some(&*record.namespace);
    recorded.map(|(namespace, _)| namespace).or_else(beside).filter(|there| *there != here)
}

fn misplaced(primary: &Primary, there: &str) -> Fault {
    let (here, uid) = (primary.namespace(), primary.uid());
    let message = format!(
        "the release of this resource is in namespace {there:?}, and the operator looks for it in namespace {here:?}: nothing is installed or deleted. \
         Set releaseNamespace: {there} in watches.yaml; without the key, it is the operator's own namespace. To move the release, delete the resource while the \
         key is right, and create it again later. If nothing of the release is left, delete the Secrets with the label {OWNER_LABEL}={uid}"
    );
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::ReleaseElsewhere, message }
}

fn unknown(error: &storage::Error) -> Unanswered {
    let message = format!(
        "the release of this resource has no record where the operator looks for it, and cannot be looked for in other namespaces: {}",
        chain(error)
    );
    Unanswered::with_reason(Reason::Unanswered, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_the_namespace_of_its_release() {
        let (beside, in_one) = (Home::default(), Home::in_namespace("records"));
        for (behaviour, home, record, expected) in [
            ("elsewhere", &beside, ("a", "web"), Some("a")),
            ("here", &beside, ("b", "web"), None),
            ("another release", &beside, ("a", "api"), None),
            ("elsewhere, recorded with all others", &in_one, ("records", "a.web"), Some("a")),
            ("here, recorded with all others", &in_one, ("records", "b.web"), None),
            ("another release among them", &in_one, ("records", "a.api"), None),
            ("elsewhere, from before", &in_one, ("a", "web"), Some("a")),
            ("here, from before", &in_one, ("b", "web"), None),
        ] {
            let record = ResourceKey::new(record.0, record.1);
            assert_eq!(elsewhere(home, &record, ("b", "web")), expected, "{behaviour}");
        }
    }
}
