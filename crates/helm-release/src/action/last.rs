//! What was applied before, for three-way merges. Records are read on first use.

use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use super::keys::served;
use super::{Current, Environment, Error, Options, read_sealed};
use crate::kube::{self, ApplyError, Decoration, MergeBases, Object, ObjectKey, WriteOptions, recorded_objects};
use crate::release::{Packed, Release};
use crate::storage::{self, Sealed, Stored};

type Objects = Vec<(ObjectKey, Object)>;

/// The revisions that may have applied what is live, newest first.
///
/// Usually that is the deployed one. Failed attempts also count: a merge over the deployed revision alone would leave
/// fields that only a failed attempt has applied. If the deployed one is not ours, because a person ran `helm upgrade`,
/// our last one counts as well.
pub(super) struct RecordedBases<'a> {
    env: &'a Environment<'a>,
    records: Vec<Source<'a>>,
    /// The oldest revision that is recorded here, if it may have been imported, and was not taken over since.
    oldest: Option<u32>,
    objects: OnceCell<Vec<Objects>>,
}

/// The source of a revision's objects.
enum Source<'a> {
    /// A revision's record, which is read unless it is in memory.
    Record {
        version: u32,
        packed: Option<&'a Stored<Packed>>,
        /// Whether nothing older can be live: the revision was deployed.
        is_last: bool,
    },
    /// The release, which was already read.
    Release(&'a Sealed<Release>),
}

impl<'a> RecordedBases<'a> {
    /// Creates the bases of an action that makes a revision.
    pub(super) fn before(env: &'a Environment<'a>, current: Option<&'a Current>) -> RecordedBases<'a> {
        let record = |current: &'a Current, version: u32| Source::Record {
            version,
            packed: current.packed.as_ref().filter(|_| current.last_good == Some(version)),
            is_last: current.last_good.is_some_and(|deployed| version <= deployed),
        };
        let records = current.iter().flat_map(|c| c.records.iter().rev().map(|known| record(c, known.version)));
        // A takeover has already dropped the fields of revisions that failed before an import. Since then, others may
        // have set the same fields.
        let is_taken = |current: &Current| current.marks.as_ref().is_some_and(|marks| marks.complete);
        let untaken = current.filter(|current| !is_taken(current));
        let oldest = untaken.and_then(|current| current.records.first()).map(|known| known.version);
        RecordedBases { env, records: records.collect(), oldest, objects: OnceCell::new() }
    }

    /// Creates the base of an action that makes no revision.
    pub(super) fn of(env: &'a Environment<'a>, release: &'a Sealed<Release>) -> RecordedBases<'a> {
        RecordedBases { env, records: vec![Source::Release(release)], oldest: None, objects: OnceCell::new() }
    }

    /// Creates the bases of a takeover. It also drops fields that only a revision set that failed before this one was
    /// imported; after the takeover, those fields may belong to others.
    pub(super) fn of_takeover(env: &'a Environment<'a>, release: &'a Sealed<Release>) -> RecordedBases<'a> {
        RecordedBases { oldest: Some(release.get().version), ..RecordedBases::of(env, release) }
    }

    /// Returns options that merge over these revisions.
    pub(super) fn write_options(&'a self) -> WriteOptions<'a> {
        let Options { apply, recreate, .. } = &self.env.options;
        let options = WriteOptions::new(&self.env.decoration, *apply, self);
        WriteOptions { recreate, slot: self.env.slot, ..options }
    }

    async fn objects(&self) -> Result<&[Objects], kube::Error> {
        let read = || async {
            let mut all = Vec::new();
            for record in &self.records {
                let objects = self.known(self.read(record).await)?;
                let is_last = objects.is_some() && matches!(record, Source::Record { is_last: true, .. });
                all.extend(objects);
                if is_last && !self.is_oldest(record) {
                    return Ok(all);
                }
            }
            all.extend(self.before_import().await?);
            Ok(all)
        };
        Ok(self.objects.get_or_try_init(read).await?)
    }

    fn is_oldest(&self, record: &Source<'_>) -> bool {
        matches!(record, Source::Record { version, .. } if self.oldest == Some(*version))
    }

    async fn read(&self, record: &Source<'_>) -> Result<Objects, Error> {
        let read;
        let release = match record {
            Source::Release(release) => release.get(),
            Source::Record { version, packed, .. } => {
                read = read_sealed(self.env, *version, *packed).await?;
                read.get()
            }
        };
        self.objects_of(release).await
    }

    /// Reads the unsuccessful revisions from before the oldest one was imported. They are recorded only where it was
    /// imported from.
    async fn before_import(&self) -> Result<Vec<Objects>, kube::Error> {
        let Decoration { namespace, release, owner, .. } = &self.env.decoration;
        let Some((imported, owner)) = self.oldest.zip(owner.as_ref()) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        match self.env.storage.records_before_import((namespace, release), &owner.uid, imported).await {
            Ok(records) => {
                for record in records.into_iter().filter_map(|record| record.release.sealed()) {
                    all.extend(self.known(self.objects_of(record.get()).await)?);
                }
            }
            // Without the right to look there, the operator hardly imported it from there.
            Err(error) if error.is_forbidden() => {}
            Err(error) => all.extend(self.known(Err(error.into()))?),
        }
        Ok(all)
    }

    async fn objects_of(&self, release: &Release) -> Result<Objects, Error> {
        served(self.env, recorded_objects(&release.manifest, &self.env.decoration.namespace)?).await
    }

    /// Returns the objects that were read; `None` if they cannot be decoded or are not ours: then no
    /// field counts as dropped.
    fn known(&self, read: Result<Objects, Error>) -> Result<Option<Objects>, kube::Error> {
        match read {
            Ok(objects) => Ok(Some(objects)),
            Err(Error::Storage(storage::Error::Api { source, .. })) if !source.is_missing_object() => Err(source),
            Err(Error::Apply(ApplyError::Failed { source, .. })) => Err(source),
            Err(error) => {
                tracing::warn!(release = self.env.decoration.release, %error, "cannot read what was applied last");
                Ok(None)
            }
        }
    }
}

impl MergeBases for RecordedBases<'_> {
    fn of<'b>(&'b self, key: &'b ObjectKey) -> BoxFuture<'b, Result<Vec<Object>, kube::Error>> {
        Box::pin(async move {
            let revisions = self.objects().await?.iter();
            let found = revisions.filter_map(|objects| objects.iter().find(|(known, _)| known == key));
            Ok(found.map(|(_, object)| object.clone()).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use crate::action::Cached;
    use crate::kube::{Applier, MemoryApi, Policy};
    use crate::sample;
    use crate::storage::{Marks, Storage};

    const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: x/v1\nkind: Gone\nmetadata: {name: b}\n";

    /// Returns the ConfigMap `a` in that revision.
    async fn last(server: &Arc<MemoryApi>, version: Option<u32>) -> Result<Option<Object>, kube::Error> {
        let (applier, storage) = (Applier::new(server.clone()), Storage::new(server.clone(), sample::keys()));
        let decoration = sample::decoration();
        let live: HashMap<ObjectKey, Cached> = HashMap::new();
        let options = Options { apply: Policy::Client, ..Options::default() };
        let (decoration, slot) = (&decoration, &());
        let env = Environment {
            applier: &applier,
            storage: &storage,
            decoration: decoration.clone(),
            live: &live,
            slot,
            account: &(),
            options,
        };
        let key = ObjectKey { group: "".into(), kind: "ConfigMap".into(), namespace: "ns".into(), name: "a".into() };
        let records =
            version.map(|version| Source::Record { version, packed: None, is_last: true }).into_iter().collect();
        let bases = RecordedBases { env: &env, records, oldest: version, objects: OnceCell::new() };
        assert_eq!(bases.write_options().policy, Policy::Client);
        MergeBases::of(&bases, &key).await?;
        let reads = server.log().iter().filter(|line| line.contains("/secrets/")).count();
        let again = MergeBases::of(&bases, &key).await;
        assert_eq!(server.log().iter().filter(|line| line.contains("/secrets/")).count(), reads, "read once");
        Ok(again?.pop())
    }

    async fn recorded(manifest: &str) -> Arc<MemoryApi> {
        let server = Arc::new(MemoryApi::new());
        let release = Release { manifest: manifest.into(), ..sample::release() };
        Storage::new(server.clone(), sample::keys()).create(&release, &Marks::default()).await.unwrap();
        server
    }

    #[tokio::test]
    async fn a_merge_reads_the_deployed_revision_once() {
        let server = recorded(MANIFEST).await;
        assert_eq!(last(&server, Some(1)).await.unwrap().unwrap().name, "a");
        assert!(last(&server, None).await.unwrap().is_none());
        assert!(last(&server, Some(2)).await.unwrap().is_none(), "a missing record is empty");
        assert!(last(&recorded("kind: X").await, Some(1)).await.unwrap().is_none(), "an undecodable record is empty");
    }

    #[tokio::test]
    async fn an_outage_is_not_an_empty_record() {
        let server = recorded(MANIFEST).await;
        server.refuse(|call| call.path.contains("/secrets/").then(|| kube::Error::from_status(503, "", "away")));
        assert_eq!(last(&server, Some(1)).await.unwrap_err().to_string(), "away");
        let unserved = || kube::Error::from_status(404, "", "404 page not found");
        server.refuse(move |call| call.path.contains("/secrets/").then(unserved));
        assert!(last(&server, Some(1)).await.unwrap_err().is_unserved_path());
    }

    #[tokio::test]
    async fn a_discovery_outage_is_not_an_empty_record() {
        let server = recorded(MANIFEST).await;
        server.refuse(|call| (call.path == "/apis").then(|| kube::Error::from_status(503, "", "away")));
        assert_eq!(last(&server, Some(1)).await.unwrap_err().to_string(), "away");
    }
}
