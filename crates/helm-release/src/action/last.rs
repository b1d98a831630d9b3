//! The deployed revision's objects, for three-way merges. The record is read on first use.

use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use super::{Environment, Error, Options, read_sealed};
use crate::kube::{self, ApplyError, LastApplied, Object, ObjectKey, WriteOptions, recorded_objects};
use crate::release::{Packed, Release};
use crate::storage::{self, Sealed, Stored};

/// A deployed revision.
pub(super) struct Deployed<'a> {
    env: &'a Environment<'a>,
    record: Source<'a>,
    objects: OnceCell<Vec<(ObjectKey, Object)>>,
}

/// The source of a deployed revision's objects.
enum Source<'a> {
    /// Its record: the revision, if any was deployed, and the record if it is in memory.
    Record(Option<u32>, Option<&'a Stored<Packed>>),
    /// The release, which was already read.
    Release(&'a Sealed<Release>),
}

impl<'a> Deployed<'a> {
    /// Creates a lazily read deployed revision; `None` if nothing was deployed.
    pub(super) fn new(
        env: &'a Environment<'a>,
        version: Option<u32>,
        packed: Option<&'a Stored<Packed>>,
    ) -> Deployed<'a> {
        Deployed { env, record: Source::Record(version, packed), objects: OnceCell::new() }
    }

    /// Creates a deployed revision that was already read.
    pub(super) fn of(env: &'a Environment<'a>, release: &'a Sealed<Release>) -> Deployed<'a> {
        Deployed { env, record: Source::Release(release), objects: OnceCell::new() }
    }

    /// Returns options that merge over this revision.
    pub(super) fn write_options(&'a self) -> WriteOptions<'a> {
        let Options { apply, recreate, .. } = &self.env.options;
        let options = WriteOptions::new(&self.env.decoration, *apply, self);
        WriteOptions { recreate, slot: self.env.slot, ..options }
    }

    async fn read(&self) -> Result<Vec<(ObjectKey, Object)>, Error> {
        let read;
        let release = match self.record {
            Source::Release(release) => release.get(),
            Source::Record(None, _) => return Ok(Vec::new()),
            Source::Record(Some(version), packed) => {
                read = read_sealed(self.env, version, packed).await?;
                read.get()
            }
        };
        let mut objects = Vec::new();
        for object in recorded_objects(&release.manifest, &self.env.decoration.namespace)? {
            if let Some(key) = self.env.applier.recorded_key(&object, &self.env.decoration).await? {
                objects.push((key, object));
            }
        }
        Ok(objects)
    }

    /// Reads the objects as [`Deployed::read`] does, but a record that cannot be decoded or that is not ours counts as
    /// empty: then no field counts as dropped.
    async fn read_or_empty(&self) -> Result<Vec<(ObjectKey, Object)>, kube::Error> {
        match self.read().await {
            Ok(objects) => Ok(objects),
            Err(Error::Storage(storage::Error::Api { source, .. })) if !source.is_not_found() => Err(source),
            Err(Error::Apply(ApplyError::Failed { source, .. })) => Err(source),
            Err(error) => {
                tracing::warn!(release = self.env.decoration.release, %error, "cannot read what was applied last");
                Ok(Vec::new())
            }
        }
    }
}

impl LastApplied for Deployed<'_> {
    fn last<'b>(&'b self, key: &'b ObjectKey) -> BoxFuture<'b, Result<Option<Object>, kube::Error>> {
        Box::pin(async move {
            let objects = self.objects.get_or_try_init(|| self.read_or_empty()).await?;
            Ok(objects.iter().find(|(known, _)| known == key).map(|(_, object)| object.clone()))
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
            options,
        };
        let key = ObjectKey { group: "".into(), kind: "ConfigMap".into(), namespace: "ns".into(), name: "a".into() };
        let deployed = Deployed::new(&env, version, None);
        assert_eq!(deployed.write_options().policy, Policy::Client);
        deployed.last(&key).await?;
        let reads = server.log().iter().filter(|line| line.contains("/secrets/")).count();
        let again = deployed.last(&key).await;
        assert_eq!(server.log().iter().filter(|line| line.contains("/secrets/")).count(), reads, "read once");
        again
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
    }

    #[tokio::test]
    async fn a_discovery_outage_is_not_an_empty_record() {
        let server = recorded(MANIFEST).await;
        server.refuse(|call| (call.path == "/apis").then(|| kube::Error::from_status(503, "", "away")));
        assert_eq!(last(&server, Some(1)).await.unwrap_err().to_string(), "away");
    }
}
