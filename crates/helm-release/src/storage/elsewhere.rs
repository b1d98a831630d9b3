//! Finds a release that is recorded elsewhere: in chunks, or in the release's namespace although this home is a
//! different one.

use std::time::Duration;

use jiff::Timestamp;

use super::{Error, Maker, Marks, Proof, Record, RecordMeta, Sealed, Storage, Stored, left_behind};
use crate::release::{Release, Status};

/// How long someone else's action is left alone after its last sign of life. Helm gives up after five minutes.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A release that is recorded elsewhere.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// The revision that its live objects come from; in chunked storage, the deployed one, or the newest if none is
    /// deployed.
    pub(crate) release: Stored<Release>,
    /// The number of its newest revision.
    pub(crate) newest: u32,
    pub(crate) marks: Option<Marks>,
    /// Whether it is an install that did not succeed, and nothing was deployed before.
    pub(crate) is_begun: bool,
    /// The other revisions whose objects may be live.
    pub(crate) unsuccessful: Unsuccessful<Listing>,
    /// Other revisions that this operator left pending or was uninstalling, so that their hooks may still run.
    pub(crate) unended: Vec<Unended>,
}

/// A revision that this operator left pending or was uninstalling.
#[derive(Debug)]
pub(crate) struct Unended {
    pub(crate) release: Release,
    pub(crate) marks: Marks,
}

/// The revisions of a release that did not succeed, but may have made objects.
#[derive(Debug)]
pub(crate) struct Unsuccessful<T> {
    /// Revisions before the one that the live objects come from, if this operator did not make that one.
    pub(crate) before: Vec<T>,
    /// Revisions after it.
    pub(crate) later: Vec<T>,
}

impl<T> Unsuccessful<T> {
    fn none() -> Unsuccessful<T> {
        Unsuccessful { before: Vec::new(), later: Vec::new() }
    }

    fn map<U>(self, of: impl Fn(T) -> U) -> Unsuccessful<U> {
        let all = |some: Vec<T>| some.into_iter().map(&of).collect();
        Unsuccessful { before: all(self.before), later: all(self.later) }
    }
}

/// The source that lists the objects of an unsuccessful revision.
#[derive(Debug)]
pub(crate) enum Listing {
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
    /// Whether nothing of it was ever deployed.
    is_begun: bool,
    unsuccessful: Unsuccessful<RecordMeta>,
}

impl Listed {
    /// Returns whether it would be imported as this revision. An install that has begun keeps its number.
    fn is_imported_as(&self, version: u32) -> bool {
        version == if self.is_begun { self.newest } else { self.newest + 1 }
    }
}

impl Storage {
    /// Reads a release of this owner that is recorded in the release's namespace or in chunks, but not at this home;
    /// `None` if there is no such release, or if its newest revision there is older than `at_least`. Sends one or two
    /// list requests, and reads the record's Secrets if it finds one.
    ///
    /// # Errors
    /// [`Error::InFlight`] if Helm is changing it, [`Error::TakenOver`] if another resource took it over from this owner,
    /// [`Error::Forbidden`] if the operator may not list the records beside the release. Or the records cannot be read or
    /// decoded.
    pub(crate) async fn elsewhere(
        &self,
        namespace: &str,
        name: &str,
        owner: &str,
        at_least: u32,
    ) -> Result<Option<Elsewhere>, Error> {
        if let Some(beside) = self.beside_releases() {
            let all = beside.list_beside(namespace, name).await?;
            let is_current = all.last().is_some_and(|newest| newest.version >= at_least);
            if is_current && is_taken_over_from(&all, owner) {
                return Err(Error::TakenOver { name: name.into() });
            }
            let is_held = is_held_by(&all, owner);
            if is_current && is_held {
                check_rest(name, &all, outside::now())?;
            }
            let unended = unended(&all);
            if is_held && let Some(Listed { base, newest, is_begun, unsuccessful }) = listed_or_begun(all) {
                if !is_current {
                    return Ok(None);
                }
                let others = unended.into_iter().filter(|version| *version != base.version);
                let unended = beside.read_unended(namespace, name, others).await?;
                let unsuccessful = beside.listings(namespace, name, unsuccessful).await?;
                let Record { release, marks, .. } = beside.get(namespace, name, base.version).await?;
                return Ok(Some(Elsewhere { release, newest, marks, is_begun, unsuccessful, unended }));
            }
        }
        let chunked = self.chunked(namespace, name, at_least).await?;
        Ok(chunked.map(|(Record { release, marks, .. }, newest)| {
            let unsuccessful = Unsuccessful::none();
            Elsewhere { release, newest, marks, is_begun: false, unsuccessful, unended: Vec::new() }
        }))
    }

    /// Returns the marks of a release of this owner that is recorded in the release's namespace, but not at this home,
    /// and those of its revisions that did not succeed. The metadata of its records has them, so their content need not
    /// be readable. Sends one list request if the home is elsewhere.
    pub(crate) async fn marks_elsewhere(
        &self,
        namespace: &str,
        name: &str,
        owner: &str,
    ) -> Result<Option<(Marks, Unsuccessful<Marks>)>, Error> {
        let Some(beside) = self.beside_releases() else { return Ok(None) };
        let listed = listed_or_begun(beside.owned(namespace, name, owner).await?);
        let marks = |meta: RecordMeta| meta.marks.unwrap_or_default();
        Ok(listed.map(|Listed { base, unsuccessful, .. }| (marks(base), unsuccessful.map(marks))))
    }

    /// Reads the unsuccessful revisions of a release of this owner that was imported from the release's namespace as
    /// this revision; `None` if it was not. They are recorded only there. Sends one list request if the home is
    /// elsewhere, and reads records that no marks list.
    pub(crate) async fn unsuccessful_before_import(
        &self,
        (namespace, name): (&str, &str),
        owner: &str,
        imported: u32,
    ) -> Result<Option<Unsuccessful<Listing>>, Error> {
        let Some(beside) = self.beside_releases() else { return Ok(None) };
        let owned = match beside.owned(namespace, name, owner).await {
            // Without the right to look there, the operator hardly imported it from there.
            Err(Error::Forbidden { .. }) => return Ok(None),
            owned => listed(owned?),
        };
        match owned.filter(|one| one.is_imported_as(imported)) {
            Some(Listed { unsuccessful, .. }) => beside.listings(namespace, name, unsuccessful).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads the records of unsuccessful revisions of a release of this owner that was imported as this revision,
    /// newest first. Sends one list request if the home is elsewhere.
    pub(crate) async fn records_before_import(
        &self,
        (namespace, name): (&str, &str),
        owner: &str,
        imported: u32,
    ) -> Result<Vec<Record>, Error> {
        let Some(beside) = self.beside_releases() else { return Ok(Vec::new()) };
        let found = listed_or_begun(beside.owned(namespace, name, owner).await?);
        let Some(Listed { unsuccessful, .. }) = found.filter(|one| one.is_imported_as(imported)) else {
            return Ok(Vec::new());
        };
        let mut records = Vec::new();
        for meta in unsuccessful.before.into_iter().chain(unsuccessful.later).rev() {
            match beside.get(namespace, name, meta.version).await {
                Err(error) if error.is_missing() || error.is_damage() => {}
                record => records.push(record?),
            }
        }
        Ok(records)
    }

    /// Returns whether another resource took over from this owner a release that is recorded in the release's namespace
    /// but not at this home. Sends one list request if the home is elsewhere.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if the operator may not list the records beside the release, or the request fails.
    pub async fn is_taken_over_beside(&self, namespace: &str, name: &str, owner: &str) -> Result<bool, Error> {
        let Some(beside) = self.beside_releases() else { return Ok(false) };
        Ok(is_taken_over_from(&beside.list_beside(namespace, name).await?, owner))
    }

    /// Lists the records beside a release of this owner; none if the release belongs to someone else.
    async fn owned(&self, namespace: &str, name: &str, owner: &str) -> Result<Vec<RecordMeta>, Error> {
        let all = self.list_beside(namespace, name).await?;
        Ok(if is_held_by(&all, owner) { all } else { Vec::new() })
    }

    /// Lists the records beside a release, where the operator may lack the right to.
    async fn list_beside(&self, namespace: &str, name: &str) -> Result<Vec<RecordMeta>, Error> {
        match self.history(namespace, name).await {
            Err(Error::Api { source, .. }) if source.is_forbidden() => {
                Err(Error::Forbidden { namespace: namespace.into(), source })
            }
            all => all,
        }
    }

    /// Reads these revisions, as far as this operator wrote them. One that cannot be decoded names no hooks.
    async fn read_unended(
        &self,
        namespace: &str,
        name: &str,
        versions: impl Iterator<Item = u32>,
    ) -> Result<Vec<Unended>, Error> {
        let mut all = Vec::new();
        for version in versions {
            match self.get(namespace, name, version).await {
                Err(error) if error.is_missing() || error.is_damage() => {}
                record => {
                    let Record { release, marks, .. } = record?;
                    let release = release.sealed().map(Sealed::into_inner);
                    all.extend(release.zip(marks).map(|(release, marks)| Unended { release, marks }));
                }
            }
        }
        Ok(all)
    }

    async fn listings(
        &self,
        namespace: &str,
        name: &str,
        Unsuccessful { before, later }: Unsuccessful<RecordMeta>,
    ) -> Result<Unsuccessful<Listing>, Error> {
        let mut all = Unsuccessful::none();
        for meta in before {
            all.before.push(self.listing(namespace, name, meta).await?);
        }
        for meta in later {
            all.later.push(self.listing(namespace, name, meta).await?);
        }
        Ok(all)
    }

    async fn listing(&self, namespace: &str, name: &str, meta: RecordMeta) -> Result<Listing, Error> {
        let marks = match meta.marks {
            Some(marks) if !marks.objects.is_empty() => marks,
            marks => match self.get(namespace, name, meta.version).await {
                Ok(record) => return Ok(Listing::Recorded(Box::new(record))),
                Err(error) if error.is_missing() || error.is_damage() => marks.unwrap_or_default(),
                Err(error) => return Err(error),
            },
        };
        Ok(Listing::Marked(Box::new(marks)))
    }
}

/// Returns the release that these records describe, or else the install that began and did not succeed.
fn listed_or_begun(all: Vec<RecordMeta>) -> Option<Listed> {
    if is_begun(&all) { begun(all) } else { listed(all) }
}

/// Returns whether these records prove that this operator began to install the release and nothing was ever deployed.
fn is_begun(all: &[RecordMeta]) -> bool {
    let is_unfinished =
        |meta: &RecordMeta| meta.marks.is_some() && matches!(meta.status, Status::Failed | Status::PendingInstall);
    let says_so = |newest: &RecordMeta| newest.marks.as_ref().is_some_and(|marks| marks.none_deployed_before);
    let is_complete = |newest: &RecordMeta| all.iter().map(|meta| meta.version).eq(1..=newest.version);
    all.iter().all(is_unfinished) && all.last().is_some_and(|newest| says_so(newest) || is_complete(newest))
}

fn begun(mut before: Vec<RecordMeta>) -> Option<Listed> {
    let base = before.pop()?;
    let unsuccessful = Unsuccessful { before, later: Vec::new() };
    Some(Listed { newest: base.version, base, is_begun: true, unsuccessful })
}

/// Returns the release that these records describe; `None` if nothing of it was deployed.
fn listed(mut all: Vec<RecordMeta>) -> Option<Listed> {
    let newest = all.last()?.version;
    let later = all.split_off(base_of(&all)? + 1);
    let base = all.pop()?;
    let before = left_before(&base, all);
    Some(Listed { base, newest, is_begun: false, unsuccessful: Unsuccessful { before, later } })
}

/// Returns the revisions that this operator left pending or was uninstalling. Another writer's revision may have followed.
fn unended(all: &[RecordMeta]) -> Vec<u32> {
    let has_not_ended = |status: Status| status.is_pending() || status == Status::Uninstalling;
    let of_ours = all.iter().filter(|meta| meta.marks.is_some() && has_not_ended(meta.status));
    of_ours.map(|meta| meta.version).collect()
}

/// Checks that Helm is not changing the release with these records, as for records in place.
fn check_rest(name: &str, all: &[RecordMeta], now: Timestamp) -> Result<(), Error> {
    let Some(newest) = all.last() else { return Ok(()) };
    let under_way = newest.status.is_pending() || newest.status == Status::Uninstalling;
    let last_sign = newest.written.filter(|_| under_way && newest.marks.is_none());
    match last_sign.and_then(|written| written.checked_add(PATIENCE).ok()).filter(|until| now < *until) {
        None => Ok(()),
        Some(until) => {
            Err(Error::InFlight { name: name.into(), version: newest.version, status: newest.status.as_str(), until })
        }
    }
}

/// Returns whether a release with these records belongs to this owner: the newest record that names an owner decides,
/// because earlier ones may name a previous owner. If this operator wrote any of them, only those count.
fn is_held_by(all: &[RecordMeta], owner: &str) -> bool {
    naming_owners(all).next().is_some_and(|newest| newest.names_owner(owner))
}

/// Returns whether another resource took a release with these records over from this owner, as this operator recorded.
fn is_taken_over_from(all: &[RecordMeta], owner: &str) -> bool {
    let mut named = naming_owners(all);
    let Some(newest) = named.next().filter(|newest| is_own(newest) && !newest.names_owner(owner)) else { return false };
    let had = newest.marks.as_ref().is_some_and(|marks| marks.former.iter().any(|uid| **uid == *owner));
    had || named.any(|older| older.names_owner(owner))
}

/// Returns the records that name the release's owner, newest first.
fn naming_owners(all: &[RecordMeta]) -> impl Iterator<Item = &RecordMeta> {
    let has_own = all.iter().any(is_own);
    all.iter().rev().filter(move |meta| if has_own { is_own(meta) } else { !meta.owners.is_empty() })
}

/// Returns whether this operator wrote a record for a resource.
fn is_own(meta: &RecordMeta) -> bool {
    meta.marks.as_ref().is_some_and(|marks| !marks.owner.is_empty())
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
    all.iter().rposition(is_base).or_else(|| {
        let last = all.iter().rposition(was_deployed)?;
        let later = &all[last + 1..];
        (!later.is_empty() && later.iter().all(|meta| meta.status.is_unsuccessful())).then_some(last)
    })
}

/// Returns the revisions among those before the base that may have left objects which no later one lists; none if this
/// operator made the base.
fn left_before(base: &RecordMeta, before: Vec<RecordMeta>) -> Vec<RecordMeta> {
    // The marks of a revision that this operator only read have no inputs.
    if base.marks.as_ref().is_some_and(|marks| !marks.inputs.is_empty()) {
        return Vec::new();
    }
    left_behind(before.into_iter(), |meta| (meta.status, maker(meta)))
}

fn maker(meta: &RecordMeta) -> Maker {
    match meta.proof {
        _ if meta.marks.is_some() => Maker::Operator,
        Proof::Foreign if !meta.owners.is_empty() => Maker::HelmForResource,
        _ => Maker::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            has_other_key: false,
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
    fn an_install_has_only_begun_if_the_records_prove_that_nothing_was_deployed() {
        use Status::{Deployed, Failed, PendingInstall, PendingUpgrade, Superseded, Uninstalled};
        for (behaviour, first, statuses, is_own, expected) in [
            ("interrupted", 1, vec![PendingInstall], true, true),
            ("failed", 1, vec![Failed], true, true),
            ("begun again", 1, vec![Failed, PendingInstall], true, true),
            ("by Helm", 1, vec![PendingInstall], false, false),
            ("without its first attempts", 2, vec![Failed, PendingInstall], true, false),
            ("deployed", 1, vec![Deployed], true, false),
            ("upgraded", 1, vec![Superseded, PendingUpgrade], true, false),
            ("uninstalled", 1, vec![Uninstalled, PendingInstall], true, false),
            ("no records", 1, vec![], true, false),
        ] {
            let mut all: Vec<_> =
                (first..).zip(statuses).map(|(version, status)| meta(version, status, &["u"], is_own)).collect();
            assert_eq!(is_begun(&all), expected, "{behaviour}");
            all.iter_mut().filter_map(|meta| meta.marks.as_mut()).for_each(|marks| marks.none_deployed_before = true);
            assert_eq!(is_begun(&all), expected || first == 2, "{behaviour}, as the newest says");
        }
    }

    #[test]
    fn a_release_that_helm_is_changing_is_left_alone_for_ten_minutes() {
        use Status::{Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Uninstalling};
        let written = Timestamp::from_second(1_000).unwrap();
        let until = |status, is_own, now| {
            let newest = RecordMeta { written: Some(written), ..meta(2, status, &["u"], is_own) };
            let all = [meta(1, Deployed, &["u"], true), newest];
            match check_rest("web", &all, Timestamp::from_second(now).unwrap()) {
                Err(Error::InFlight { version: 2, until, .. }) => Some(until.as_second()),
                checked => checked.map(|()| None).unwrap(),
            }
        };
        for (status, expected) in [
            (PendingInstall, Some(1_600)),
            (PendingUpgrade, Some(1_600)),
            (PendingRollback, Some(1_600)),
            (Uninstalling, Some(1_600)),
            (Failed, None),
            (Deployed, None),
        ] {
            assert_eq!(until(status, false, 1_599), expected, "{status:?}");
            assert_eq!(until(status, false, 1_600), None, "{status:?}, given up");
            assert_eq!(until(status, true, 1_599), None, "{status:?}, by this operator");
        }
        assert!(check_rest("web", &[], written).is_ok());
    }

    #[test]
    fn revisions_before_one_of_helms_may_have_left_objects_if_they_did_not_succeed() {
        use Status::{Deployed, Failed, PendingUpgrade, Superseded};
        let (ours, helms, nobodys) = ((&["u"][..], true), (&["u"][..], false), (&[][..], false));
        let damaged = |meta: RecordMeta| RecordMeta { proof: Proof::Broken, ..meta };
        let made = |mut base: RecordMeta| {
            base.marks.iter_mut().for_each(|marks| marks.inputs = "i".into());
            base
        };
        let left = |revisions: &[(Status, (&[&str], bool))], change: fn(RecordMeta) -> RecordMeta| {
            let all = (1..)
                .zip(revisions)
                .map(|(version, (status, (owners, is_own)))| meta(version, *status, owners, *is_own));
            let mut all: Vec<_> = all.map(change).collect();
            let base = all.pop().unwrap();
            left_before(&base, all).iter().map(|meta| meta.version).collect::<Vec<_>>()
        };
        for (behaviour, revisions, expected) in [
            ("ours", vec![(Superseded, helms), (Failed, ours), (Deployed, helms)], vec![2]),
            ("Helm's", vec![(Superseded, helms), (Failed, helms), (Deployed, helms)], vec![2]),
            ("killed", vec![(Superseded, helms), (PendingUpgrade, helms), (Deployed, helms)], vec![2]),
            ("several", vec![(Failed, ours), (Superseded, helms), (Failed, ours), (Deployed, helms)], vec![1, 3]),
            ("before one of ours", vec![(Failed, ours), (Superseded, ours), (Deployed, helms)], vec![]),
            ("before a resource had the release", vec![(Failed, nobodys), (Deployed, helms)], vec![]),
            ("before one that was only read", vec![(Failed, ours), (Deployed, ours)], vec![1]),
        ] {
            assert_eq!(left(&revisions, |meta| meta), expected, "{behaviour}");
        }
        assert!(left(&[(Failed, ours), (Deployed, ours)], made).is_empty(), "before one that we made");
        assert!(left(&[(Failed, helms), (Deployed, helms)], damaged).is_empty(), "anyone's");
    }

    #[test]
    fn the_newest_record_that_names_an_owner_says_whose_release_it_is() {
        for (behaviour, records, expected, is_taken_over) in [
            ("the owner's", vec![(vec!["u"], true)], true, false),
            ("taken over by another", vec![(vec!["u"], true), (vec!["x"], true)], false, true),
            ("taken over from another", vec![(vec!["x"], true), (vec!["u"], true)], true, false),
            ("another's", vec![(vec!["x"], true)], false, false),
            ("upgraded by a person", vec![(vec!["u"], false), (vec![], false)], true, false),
            ("claimed without a seal", vec![(vec!["u"], true), (vec!["x"], false)], true, false),
            ("upgraded by another operator", vec![(vec!["u"], false), (vec!["x"], false)], false, false),
            ("with two owners", vec![(vec!["x", "u"], false)], true, false),
            ("nobody's", vec![(vec![], false)], false, false),
        ] {
            let records = (1..).zip(records);
            let all: Vec<_> =
                records.map(|(version, (owners, is_own))| meta(version, Status::Deployed, &owners, is_own)).collect();
            assert_eq!(is_held_by(&all, "u"), expected, "{behaviour}");
            assert_eq!(is_taken_over_from(&all, "u"), is_taken_over, "{behaviour}");
        }
        let mut successors = meta(2, Status::Deployed, &["x"], true);
        successors.marks.iter_mut().for_each(|marks| marks.former = vec!["u".into()]);
        assert!(is_taken_over_from(&[successors], "u"), "whose own records are gone");
    }
}
