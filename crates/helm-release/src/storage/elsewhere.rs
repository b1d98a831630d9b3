//! Finds a release that is recorded elsewhere: in the release's namespace although this home is another one, or in chunks.

use super::{Error, Marks, Record, RecordMeta, Storage, Stored};
use crate::release::{Release, Status};

/// A release that is recorded elsewhere.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// The revision that its live objects come from; in chunked storage, the deployed one, or the newest if none is
    /// deployed.
    pub(crate) release: Stored<Release>,
    /// The number of its newest revision.
    pub(crate) newest: u32,
    /// The revision's marks, if it has any.
    pub(crate) marks: Option<Marks>,
    /// The later revisions, which did not succeed.
    pub(crate) later: Vec<Later>,
}

/// What a later revision of a release that is recorded elsewhere says of its objects.
#[derive(Debug)]
pub(crate) enum Later {
    /// Its marks, which list them unless its record is damaged.
    Marked(Box<Marks>),
    /// Its record, because no marks list them.
    Recorded(Box<Record>),
}

/// A release, as the metadata of its records shows it.
struct Listed {
    /// The revision that its live objects come from.
    base: RecordMeta,
    /// The number of its newest revision.
    newest: u32,
    /// The later revisions, which did not succeed.
    later: Vec<RecordMeta>,
}

impl Storage {
    /// Reads a release of this owner that is recorded in the release's namespace or in chunks, but not at this home;
    /// `None` if there is no such release, or if its newest revision there is older than `at_least`. Sends one or two
    /// list requests, and reads the record's Secrets if it finds one.
    pub(crate) async fn elsewhere(
        &self,
        namespace: &str,
        name: &str,
        owner: &str,
        at_least: u32,
    ) -> Result<Option<Elsewhere>, Error> {
        if let Some(beside) = self.beside_releases()
            && let Some(Listed { base, newest, later: metas }) = beside.owned(namespace, name, owner).await?
        {
            if newest < at_least {
                return Ok(None);
            }
            let mut later = Vec::with_capacity(metas.len());
            for meta in metas {
                later.push(beside.later(namespace, name, meta).await?);
            }
            let Record { release, marks, .. } = beside.get(namespace, name, base.version).await?;
            return Ok(Some(Elsewhere { release, newest, marks, later }));
        }
        let chunked = self.chunked(namespace, name, at_least).await?;
        let found = |(Record { release, marks, .. }, newest)| Elsewhere { release, newest, marks, later: Vec::new() };
        Ok(chunked.map(found))
    }

    /// Returns the marks of a release of this owner that is recorded in the release's namespace, but not at this home,
    /// and those of its later revisions. The metadata of its records has them, so their content need not be readable.
    /// Sends one list request if the home is elsewhere.
    pub(crate) async fn marks_elsewhere(
        &self,
        namespace: &str,
        name: &str,
        owner: &str,
    ) -> Result<Option<(Marks, Vec<Marks>)>, Error> {
        let Some(beside) = self.beside_releases() else { return Ok(None) };
        let listed = beside.owned(namespace, name, owner).await?;
        let marks = |meta: RecordMeta| meta.marks.unwrap_or_default();
        Ok(listed.map(|listed| (marks(listed.base), listed.later.into_iter().map(marks).collect())))
    }

    async fn owned(&self, namespace: &str, name: &str, owner: &str) -> Result<Option<Listed>, Error> {
        let mut all = self.history(namespace, name).await?;
        let Some(newest) = all.last().map(|meta| meta.version) else { return Ok(None) };
        if !is_held_by(&all, owner) {
            return Ok(None);
        }
        // An action that was interrupted before it was deployed is installed again.
        let Some(base) = base_of(&all) else { return Ok(None) };
        let later = all.split_off(base + 1);
        Ok(all.pop().map(|base| Listed { base, newest, later }))
    }

    async fn later(&self, namespace: &str, name: &str, meta: RecordMeta) -> Result<Later, Error> {
        let marks = match meta.marks {
            Some(marks) if !marks.objects.is_empty() => marks,
            marks => match self.get(namespace, name, meta.version).await {
                Ok(record) => return Ok(Later::Recorded(Box::new(record))),
                Err(error) if error.is_missing() || error.is_damage() => marks.unwrap_or_default(),
                Err(error) => return Err(error),
            },
        };
        Ok(Later::Marked(Box::new(marks)))
    }
}

/// Returns whether a release with these records is this owner's: the newest one that names an owner decides, because others
/// may have had the release before. If this operator has records of its own, only those count.
fn is_held_by(all: &[RecordMeta], owner: &str) -> bool {
    let is_own = |meta: &RecordMeta| meta.marks.as_ref().is_some_and(|marks| !marks.owner.is_empty());
    let has_own = all.iter().any(is_own);
    let counts = |meta: &&RecordMeta| if has_own { is_own(meta) } else { !meta.owners.is_empty() };
    all.iter().rev().find(counts).is_some_and(|meta| meta.names_owner(owner))
}

/// Returns the position of the revision that the live objects come from: the newest one that is deployed or that this
/// operator is uninstalling, or else, if all later ones failed, the newest one that was deployed. A failed `helm rollback`
/// leaves nothing deployed.
fn base_of(all: &[RecordMeta]) -> Option<usize> {
    let is_base = |meta: &RecordMeta| match meta.status {
        Status::Deployed => true,
        Status::Uninstalling => meta.marks.is_some(),
        _ => false,
    };
    let was_deployed = |meta: &RecordMeta| meta.status == Status::Superseded;
    let has_failed = |meta: &RecordMeta| meta.status == Status::Failed || meta.status.is_pending();
    all.iter().rposition(is_base).or_else(|| {
        let last = all.iter().rposition(was_deployed)?;
        let later = &all[last + 1..];
        (!later.is_empty() && later.iter().all(has_failed)).then_some(last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Proof;

    /// Returns the metadata of a revision's record, with these owners in its label or in marks.
    fn meta(version: u32, status: Status, owners: &[&str], is_own: bool) -> RecordMeta {
        let owner = owners.first().copied().unwrap_or_default();
        RecordMeta {
            name: "web".into(),
            namespace: "ns".into(),
            version,
            status,
            resource_version: 1,
            proof: Proof::Foreign,
            marks: is_own.then(|| Marks { owner: owner.into(), ..Marks::default() }),
            owners: owners.iter().map(|owner| (*owner).to_owned()).collect(),
            written: None,
            writer: None,
        }
    }

    #[test]
    fn the_revision_to_import_is_the_one_that_the_live_objects_come_from() {
        use Status::{Deployed, Failed, PendingInstall, Superseded, Uninstalled, Uninstalling};
        for (behaviour, statuses, is_own, expected) in [
            ("deployed", vec![Superseded, Deployed], true, Some(1)),
            ("before a failed upgrade", vec![Deployed, Failed], true, Some(0)),
            ("being uninstalled", vec![Superseded, Uninstalling], true, Some(1)),
            ("being uninstalled after a failed upgrade", vec![Uninstalling, Failed], true, Some(0)),
            ("being uninstalled by somebody else", vec![Superseded, Uninstalling], false, None),
            ("after a failed rollback", vec![Superseded, Superseded, Failed], false, Some(1)),
            ("uninstalled", vec![Superseded, Uninstalled], false, None),
            ("without the one that followed", vec![Superseded], true, None),
            ("never deployed", vec![Failed, PendingInstall], true, None),
        ] {
            let all: Vec<_> =
                (1..).zip(statuses).map(|(version, status)| meta(version, status, &["u"], is_own)).collect();
            assert_eq!(base_of(&all), expected, "{behaviour}");
        }
    }

    #[test]
    fn the_newest_record_that_names_an_owner_says_whose_release_it_is() {
        for (behaviour, records, expected) in [
            ("the owner's", vec![(vec!["u"], true)], true),
            ("taken over by another", vec![(vec!["u"], true), (vec!["x"], true)], false),
            ("taken over from another", vec![(vec!["x"], true), (vec!["u"], true)], true),
            ("upgraded by a person", vec![(vec!["u"], false), (vec![], false)], true),
            ("claimed without a seal", vec![(vec!["u"], true), (vec!["x"], false)], true),
            ("with two owners", vec![(vec!["x", "u"], false)], true),
            ("nobody's", vec![(vec![], false)], false),
        ] {
            let records = (1..).zip(records);
            let all: Vec<_> =
                records.map(|(version, (owners, is_own))| meta(version, Status::Deployed, &owners, is_own)).collect();
            assert_eq!(is_held_by(&all, "u"), expected, "{behaviour}");
        }
    }
}
