//! Builds a revision's record, writes it ahead and completes it.

use super::objects::note;
use super::{ActionKind, Attempt, Changes, Observations};
use crate::action::environment::leave_unended;
use crate::action::give_up::{FOLLOWED, GivenUp, end_tests, give_up};
use crate::action::resume::{await_next, has, has_delete_hooks};
use crate::action::{Candidate, Completed, Current, Environment, Error, Failure, RecordedFailure, failure};
use crate::kube::{Applied, Decoration, Found, Object, ObjectKey, Owner, intern};
use crate::release::{HookEvent, Info, Release, Status};
use crate::storage::{Known, MarkedObject, Marks, Record, Stored, Tests};

/// Builds the pending revision. If it continues an interrupted one, it has the same number.
pub(super) fn pending_release(
    env: &Environment<'_>,
    candidate: &Candidate,
    current: Option<&Current>,
    kind: &ActionKind,
) -> Release {
    let now = outside::now();
    let info = Info {
        first_deployed: Some(current.and_then(|c| c.first_deployed).unwrap_or(now)),
        last_deployed: Some(now),
        deleted: None,
        description: "Preparing".into(),
        status: kind.pending,
        rollback_revision: kind.rollback_revision,
        notes: candidate.notes.clone(),
        ..Info::default()
    };
    let version = current.map_or(1, |current| current.next_version(&candidate.inputs));
    Release { info, ..candidate.as_release(&env.decoration, version) }
}

impl Attempt<'_> {
    /// Returns the marks to write ahead: the candidate's objects, then those to prune. They are incomplete, since
    /// nothing is applied yet. Their inputs digest lets a retry with the same inputs continue this action. Objects that
    /// exist and are new to the release are adopted.
    pub(super) fn inventory(&self, release: &Release, observations: &Observations) -> Marks {
        let known = |key: &ObjectKey| self.current.and_then(|c| c.inventory.find(key));
        let adopted = |key: &ObjectKey| match (observations.get(key), known(key)) {
            (Some(Found::Absent), _) => None,
            (_, Some(known)) => known.adopted,
            (Some(Found::Read(found)), None) => found.adopted,
            _ => None,
        };
        let namespace = &self.env.decoration.namespace;
        let may_be_intact = self.may_find_marks() && self.is_tied_as_before();
        let object = |(object, key): (&Object, &ObjectKey)| MarkedObject {
            client: known(key).is_some_and(|known| known.client),
            expires: self.may_have_finished(object, key, observations) && self.has_run_for_owner(key),
            // Earlier revisions may leave the history before this one ends.
            deleted: known(key).is_some_and(|known| known.deleted),
            adopted: adopted(key),
            attempted: known(key).is_none_or(|known| known.attempted),
            // Proves to a continuation that the object is as this action applies it.
            mark: known(key)
                .filter(|known| may_be_intact && known.is_of(object, namespace))
                .and_then(|known| known.mark),
            ..MarkedObject::unapplied(key.clone(), object, namespace)
        };
        let mut objects: Vec<MarkedObject> = self.candidate.objects.iter().zip(&self.keys).map(object).collect();
        objects.extend(self.dropped());
        Marks { objects, own: Some(self.keys.len()), ..self.release_marks(release) }
    }

    /// Returns the marks of the completed revision. `observations` say which missing Jobs have finished.
    pub(super) fn marks(&self, applied: &[Applied], release: &Release, observations: &Observations) -> Marks {
        let marked = |(object, key): (&Object, &ObjectKey)| {
            // Its kind may have come to be served in another scope during the action.
            let is_it = |applied: &&Applied| applied.key == *key || applied.key.is_in_other_scope(key);
            let now = applied.iter().find(is_it).map(MarkedObject::from);
            let unchanged = || {
                let known = self.current?.inventory.find(key)?.clone();
                let expires = known.expires || self.may_have_finished(object, key, observations);
                let (adopted, turn) = (None, object.turn);
                Some(MarkedObject { adopted, deleted: false, attempted: false, turn, expires, ..known })
            };
            now.or_else(unchanged)
        };
        let objects = self.candidate.objects.iter().zip(&self.keys).filter_map(marked).collect();
        Marks { objects, complete: true, ..self.release_marks(release) }
    }

    /// Returns the marks that describe the release itself.
    fn release_marks(&self, release: &Release) -> Marks {
        let owner = self.env.decoration.owner.as_ref();
        let hooks = &self.candidate.hooks;
        Marks {
            inputs: self.candidate.inputs.clone(),
            owner: intern(owner.map_or("", |owner| &owner.uid)),
            owner_type: intern(&owner.map(Owner::annotated_type).unwrap_or_default()),
            former: owner.zip(self.current).map(|(owner, c)| c.inventory.former_for(owner)).unwrap_or_default(),
            delete_hooks: has_delete_hooks(hooks),
            first_deployed: release.info.first_deployed,
            taken_over: self.current.is_some_and(|c| c.taken_over),
            rolled_back_to: release.info.rolled_back_to(),
            string_overrides: self.current.is_some_and(|c| c.string_overrides),
            before: self.env.options.before,
            tests: self.tests(),
            rejected: self.env.options.rejected.clone().filter(|_| self.is_rollback()),
            cause: self.env.options.cause.clone(),
            none_deployed_before: self.current.is_none_or(|c| c.never_deployed),
            ..Marks::default()
        }
    }

    /// Returns whether the revision's tests are to run. A rollback returns to a revision that ran before, so it has no
    /// tests.
    fn tests(&self) -> Option<Tests> {
        let options = &self.env.options;
        let is_tested = options.tests && !options.disable_hooks && !self.is_rollback();
        (is_tested && has(&self.candidate.hooks, HookEvent::Test)).then_some(Tests::Due)
    }

    pub(in crate::action) fn is_rollback(&self) -> bool {
        self.kind.rollback_revision > 0
    }

    /// Writes the record of the pending revision, and notes in the release which Secret holds it.
    ///
    /// Fails if the previous revision has ended although the response to that write was lost: after a failure, the
    /// clean-up would return to an older revision, or delete what the previous one deployed.
    pub(super) async fn write_ahead(&self, release: &mut Release, ahead: &Marks) -> Result<(), Failure> {
        let storage = self.env.storage;
        let pending = self.current.filter(|current| current.pending).map(|current| current.version);
        let written = if pending == Some(release.version) {
            let written = storage.update(release, ahead).await;
            written.map_err(|error| failure::unwritten(error, release.version))?
        } else {
            if let Some(version) = pending
                && let Some(GivenUp::Ended) = leave_unended(self.env, give_up(self.env, version, FOLLOWED).await)?
            {
                return Err(Error::Ended { version }.into());
            }
            for version in self.current.map(|current| &*current.abandoned).unwrap_or_default() {
                leave_unended(self.env, give_up(self.env, *version, FOLLOWED).await)?;
            }
            if let Some(version) = self.under_test() {
                leave_unended(self.env, end_tests(self.env, version).await)?;
            }
            let written = storage.create(release, ahead).await;
            written.map_err(|error| failure::unconfirmed(error, release, ahead))?
        };
        release.record_uid = written.packed.get().record_uid();
        Ok(())
    }

    /// Returns the newest revision if it is deployed and its tests are due: some may have begun.
    fn under_test(&self) -> Option<u32> {
        let current = self.current.filter(|current| current.deployed == Some(current.version))?;
        current.has_tests_due().then_some(current.version)
    }

    /// Completes the record, marks earlier deployed revisions superseded and trims the history.
    pub(super) async fn complete(
        self,
        mut release: Release,
        (marks, ahead): (Marks, &Marks),
        Changes { applied, pruned }: Changes,
    ) -> Result<Completed, Failure> {
        let (env, version) = (self.env, release.version);
        let description = env.options.description.as_ref().unwrap_or(&self.kind.complete);
        release.set_status(Status::Deployed, description);
        if marks.tests.is_some() {
            await_next(&mut release.hooks, HookEvent::Test);
        }
        let last = self.last_record(version).await;
        let before = last.as_ref().and_then(|read| Some(read.as_ref().ok()?.release.facts()));
        let plan = match before {
            Some(before) => self.account(&release, Some(before), ahead),
            None => self.account(&release, self.last_good_in_memory().as_ref().map(Stored::facts), ahead),
        };
        let written = env.storage.update_with(&release, &marks, plan).await.map_err(|error| {
            let unwritten = failure::unwritten(error, version);
            let pending = || self.unfinished(version, &marks, ahead);
            Failure { recorded: unwritten.lost.is_none().then(pending), ..unwritten }
        })?;
        let trimmed = failure::drop_old(env, self.current, &release);
        let (superseded, dropped) = futures::future::join(self.supersede(version, last), trimmed).await;
        let first_deployed = release.info.first_deployed;
        let notes = release.info.notes;
        Ok(Completed { version, written, marks, applied, pruned, superseded, dropped, first_deployed, notes })
    }

    /// Returns the trace of an action that has applied everything, but could not complete its record. A continuation
    /// writes these marks into the record, so they still say what the action has adopted, deleted and dropped.
    fn unfinished(&self, version: u32, applied: &Marks, ahead: &Marks) -> RecordedFailure {
        let mut marks = ahead.clone();
        note(&mut marks, applied.objects.iter().cloned());
        RecordedFailure { version, status: self.kind.pending, resource_version: 0, marks, dropped: Vec::new() }
    }

    /// Reads the deployed revision, which this one replaces: it is compared, and then marked superseded.
    async fn last_record(&self, version: u32) -> Option<Result<Record, Error>> {
        let current = self.current?;
        let deployed = current.deployed.filter(|deployed| *deployed != version)?;
        Some(match current.packed.as_ref().zip(current.marks.as_deref()) {
            // The runs of tests are recorded in storage alone.
            Some((packed, marks)) if packed.is_sealed() && !current.has_tests_due() => {
                packed.unpack().map_err(Error::from).map(|release| Record::of(release, Some(marks.clone())))
            }
            _ => self.read_record(deployed).await,
        })
    }

    async fn read_record(&self, version: u32) -> Result<Record, Error> {
        let Decoration { namespace, release, .. } = &self.env.decoration;
        Ok(self.env.storage.get(namespace, release, version).await?)
    }

    /// Returns the revision that was deployed last, if its record is in memory.
    pub(in crate::action) fn last_good_in_memory(&self) -> Option<Stored<Release>> {
        self.current?.packed.as_ref()?.unpack().ok()
    }

    /// Marks the earlier deployed revisions superseded; returns them. `last` is the deployed revision's record. A
    /// failure is harmless, because only the newest revision counts, and the next action tries again.
    async fn supersede(&self, version: u32, last: Option<Result<Record, Error>>) -> Vec<(u32, u64)> {
        let Some(current) = self.current else { return Vec::new() };
        let mut superseded = Vec::new();
        for old in current.outdated.iter().copied().filter(|old| *old != version) {
            let record = self.read_record(old).await;
            superseded.extend(self.mark_superseded(old, record).await);
        }
        if let (Some(deployed), Some(record)) = (current.deployed, last) {
            superseded.extend(self.mark_superseded(deployed, record).await);
        }
        superseded
    }

    /// Marks a revision superseded and keeps its marks. A record that this operator did not write stays unproven.
    /// Returns the revision with the record's resource version.
    async fn mark_superseded(&self, version: u32, record: Result<Record, Error>) -> Option<(u32, u64)> {
        match self.supersede_as_read(version, record).await {
            Ok(resource_version) => Some((version, resource_version)),
            Err(error) => {
                let release = &self.env.decoration.release;
                tracing::warn!(release, revision = version, %error, "cannot mark a revision superseded");
                None
            }
        }
    }

    async fn supersede_as_read(&self, version: u32, record: Result<Record, Error>) -> Result<u64, Error> {
        let read = match record {
            Err(Error::Storage(error)) => Err(error),
            record => Ok(record?),
        };
        let records = self.current.map(|current| &*current.records).unwrap_or_default();
        let known = records.iter().find(|known| known.version == version).copied();
        let known = known.unwrap_or(Known { version, resource_version: None });
        let Decoration { namespace, release, .. } = &self.env.decoration;
        Ok(self.env.storage.supersede_as_read((namespace, release), known, read).await?)
    }
}
