//! Finds a release that is not where the watch has it. `releaseNamespace` or `storageNamespace` has changed, or the
//! operator was moved. A second release would take over the first one's objects, generate new values, and leave its
//! records behind.

use controller::report::chain;
use controller::runtime::key::ResourceKey;
use helm_release::release::Status;
use helm_release::storage::{self, Home, OWNER_LABEL, RecordMeta};

use crate::reconcile::decide::state::Recorded;
use crate::reconcile::failure::{Failed, Unanswered};
use crate::reconcile::step_context::StepContext;
use crate::status::reason::Reason;
use crate::status::{Fault, condition};
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

/// Something in a namespace other than the one where the operator looks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misplaced<'r> {
    /// The release of a cluster-scoped resource.
    Release(&'r str),
    /// The records of a release, in a namespace for the records of all releases.
    Records(&'r str),
}

/// Records of a release: their namespace and name, and the number of the newest revision.
type Found = (ResourceKey, u32);

impl StepContext<'_> {
    /// Checks that the newest records of a release are not in another namespace, before a step relies on the known
    /// records or the resource is deleted without a release.
    ///
    /// # Errors
    /// They are in another namespace, or it could not be determined.
    pub(crate) async fn check_release_namespace(&self, primary: &Primary) -> Result<(), Failed> {
        if self.recorded(primary) != Recorded::Lost && !self.is_behind(primary) {
            // The status names neither an install that was interrupted nor, for some time, a release that was imported. Anyone
            // may write a record, but not with our seal.
            let written = self.known_records(primary, |release| release.is_written_for(primary.uid()));
            return Ok(self.check_records(primary, &written)?);
        }
        // Whoever saw the resource's own records here knows where they were, and a label elsewhere proves nothing.
        let were_here = self.were_here(primary);
        let owned = self.known_records(primary, |release| match were_here {
            true => release.is_written_for(primary.uid()),
            false => release.names_uid(primary.uid()),
        });
        self.check_records(primary, &owned)?;
        if self.shared.cache.knows_all_records() {
            return Ok(());
        }
        let all = self.all_records(primary).await?;
        Ok(self.check_records(primary, &all)?)
    }

    /// Returns the known records that fit and may be the resource's. Only the release of a cluster-scoped resource may be in
    /// another namespace itself.
    fn known_records(&self, primary: &Primary, fits: impl Fn(&ReleaseRecords) -> bool) -> Vec<Found> {
        let cache = &self.shared.cache;
        match self.shared.resource.namespaced {
            true => cache.shared_records(&Home::shared_name(primary.namespace(), primary.name()), fits),
            false => cache.records_where(fits),
        }
    }

    /// Returns whether the newest known revision is older than the one that the status reports: records from before
    /// `storageNamespace` stay in the release's namespace. An install that begins there and ends elsewhere keeps its number.
    fn is_behind(&self, primary: &Primary) -> bool {
        let release = self.release().unwrap_or_default();
        release.newest().is_some_and(|(version, newest)| {
            let is_install = newest.status == Status::PendingInstall;
            release.is_put_back(version, primary.reported().saturating_add(is_install.into()))
        })
    }

    /// Checks that all of these records are in the release's namespace.
    fn check_records(&self, primary: &Primary, records: &[Found]) -> Result<(), Fault> {
        let (namespaced, home) = (self.shared.resource.namespaced, &self.shared.settings.home);
        let here = (primary.namespace(), primary.name());
        let fault = records.iter().find_map(|(record, newest)| match misplaced(home, record, here)? {
            Misplaced::Release(there) if !namespaced => Some(release_elsewhere(primary, there)),
            Misplaced::Records(there) if !self.were_here_since(primary, *newest) => {
                Some(records_elsewhere(primary, there, &self.shared.cache.namespace_of_records(self.key)))
            }
            _ => None,
        });
        fault.map_or(Ok(()), Err)
    }

    /// Reads which records name the resource, in any namespace.
    async fn all_records(&self, primary: &Primary) -> Result<Vec<Found>, Failed> {
        let (namespaced, home) = (self.shared.resource.namespaced, &self.shared.settings.home);
        let would_install = !primary.deleting && self.recorded(primary) == Recorded::Lost;
        let were_here = self.were_here(primary);
        let may_lack_right = !would_install || namespaced || *home != Home::default() || were_here;
        let counts = |meta: &RecordMeta| !were_here || meta.is_written_for(primary.uid());
        match self.storage.owned_anywhere(primary.uid()).await {
            Ok(read) => Ok(newest_of_each(read.iter().filter(|meta| counts(meta)))),
            // Without the right to look there, the operator hardly wrote there.
            Err(error) if error.is_forbidden() && may_lack_right => Ok(Vec::new()),
            Err(error) => Err(unknown(&error).into()),
        }
    }

    /// Returns whether this process saw the resource's own records disappear.
    fn were_here(&self, primary: &Primary) -> bool {
        self.shared.memory.of(self.key).release.lost_own(&primary.owner()).is_some()
    }

    /// Returns whether this process saw the resource's own records disappear, and they were newer than revision `elsewhere`,
    /// the newest that is recorded in another namespace. A move makes a new revision; only an unfinished install keeps its
    /// number.
    fn were_here_since(&self, primary: &Primary, elsewhere: u32) -> bool {
        let memory = self.shared.memory.of(self.key);
        let lost = memory.release.lost_own(&primary.owner());
        lost.is_some_and(|lost| lost.newest_of(primary.uid()).is_some_and(|version| version > elsewhere))
    }
}

/// Returns where these records are, with the newest revision there.
fn newest_of_each<'r>(records: impl Iterator<Item = &'r RecordMeta>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for meta in records {
        let record = ResourceKey::new(&meta.namespace, &meta.name);
        match found.iter_mut().find(|(known, _)| *known == record) {
            Some((_, newest)) => *newest = meta.version.max(*newest),
            None => found.push((record, meta.version)),
        }
    }
    found
}

/// Returns what a record shows to be elsewhere, if it belongs to a release of this name and an operator that keeps
/// records at `home` does not look for it `here`. Records beside the release are imported.
fn misplaced<'r>(home: &Home, record: &'r ResourceKey, (here, name): (&str, &str)) -> Option<Misplaced<'r>> {
    let (place, recorded) = (&*record.namespace, &*record.name);
    let shared = Home::in_namespace(place);
    let is_at = |home: &Home| home.record(here, name) == (place, recorded.into());
    if is_at(home) {
        return None;
    }
    if is_at(&shared) {
        return Some(Misplaced::Records(place));
    }
    let in_shared = shared.release(place, recorded).filter(|(_, of)| *of == name);
    let beside = || (recorded == name).then_some(place);
    let there = in_shared.map(|(namespace, _)| namespace).or_else(beside);
    there.filter(|there| *there != here).map(Misplaced::Release)
}

fn release_elsewhere(primary: &Primary, there: &str) -> Fault {
    let (here, uid) = (primary.namespace(), primary.uid());
    let message = format!(
        "the release of this resource is in namespace {there:?}, and the operator looks for it in namespace {here:?}: nothing is installed or deleted. \
         Set releaseNamespace: {there} in watches.yaml; without the key, it is the operator's own namespace. To move the release, delete the resource while the \
         key is right, and create it again later. If nothing of the release is left, delete the Secrets with the label {OWNER_LABEL}={uid}"
    );
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::ReleaseElsewhere, message }
}

fn records_elsewhere(primary: &Primary, there: &str, here: &str) -> Fault {
    let uid = primary.uid();
    let otherwise = match primary.deleting {
        true => "uninstall the release without its hooks",
        false => "install the release again over its objects, with new random values",
    };
    let message = format!(
        "the records of this release are in namespace {there:?}, and the operator looks for them in namespace {here:?}: nothing is installed or deleted. \
         Set storageNamespace: {there} in watches.yaml; if it is $(operator), set --record-key-namespace={there} instead, where the key of these records is. \
         To {otherwise}, delete the Secrets with the label {OWNER_LABEL}={uid} there"
    );
    Fault { condition: condition::IRRECONCILABLE, reason: Reason::ReleaseElsewhere, message }
}

fn unknown(error: &storage::Error) -> Unanswered {
    let message = format!(
        "the release of this resource has no current record where the operator looks for it, and cannot be looked for in other namespaces: {}",
        chain(error)
    );
    Unanswered::with_reason(Reason::Unanswered, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_shows_what_is_elsewhere() {
        use Misplaced::{Records, Release};
        let (beside, in_one) = (Home::default(), Home::in_namespace("records"));
        for (behaviour, home, record, expected) in [
            ("elsewhere", &beside, ("a", "web"), Some(Release("a"))),
            ("here", &beside, ("b", "web"), None),
            ("another release", &beside, ("a", "api"), None),
            ("elsewhere, recorded with all others", &in_one, ("records", "a.web"), Some(Release("a"))),
            ("here, recorded with all others", &in_one, ("records", "b.web"), None),
            ("another release among them", &in_one, ("records", "a.api"), None),
            ("elsewhere, from before", &in_one, ("a", "web"), Some(Release("a"))),
            ("here, from before", &in_one, ("b", "web"), None),
            ("here, recorded where all others were", &in_one, ("old", "b.web"), Some(Records("old"))),
            ("here, recorded with all others before", &beside, ("old", "b.web"), Some(Records("old"))),
            ("elsewhere, recorded where all others were", &in_one, ("old", "a.web"), Some(Release("a"))),
            ("another release among those before", &in_one, ("old", "b.api"), None),
        ] {
            let record = ResourceKey::new(record.0, record.1);
            assert_eq!(misplaced(home, &record, ("b", "web")), expected, "{behaviour}");
        }
    }

    #[test]
    fn a_record_whose_name_was_cut_is_found_where_all_others_were() {
        let (namespace, name) = ("n".repeat(40), "w".repeat(40));
        let old = Home::in_namespace("old");
        let record = ResourceKey::new("old", &old.record(&namespace, &name).1);
        let found = misplaced(&Home::in_namespace("records"), &record, (&namespace, &name));
        assert_eq!(found, Some(Misplaced::Records("old")));
    }
}
