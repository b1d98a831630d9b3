//! The deployed revision's objects, for three-way merges: its record is read when the first is asked for.

use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use super::{Environment, Error, read_release};
use crate::kube::{self, LastApplied, Object, ObjectKey, Writing, recorded_objects};
use crate::release::Packed;
use crate::storage;

/// A deployed revision.
pub(super) struct Deployed<'a> {
    env: &'a Environment<'a>,
    version: Option<u32>,
    packed: Option<&'a Packed>,
    objects: OnceCell<Vec<(ObjectKey, Object)>>,
}

impl<'a> Deployed<'a> {
    /// The revision of this number; nothing was deployed if there is none.
    pub(super) fn new(env: &'a Environment<'a>, version: Option<u32>, packed: Option<&'a Packed>) -> Deployed<'a> {
        Deployed { env, version, packed, objects: OnceCell::new() }
    }

    /// How the release's objects are written over that revision.
    pub(super) fn writing(&'a self) -> Writing<'a> {
        Writing { decoration: self.env.decoration, policy: self.env.options.apply, last: self }
    }

    async fn read(&self) -> Result<Vec<(ObjectKey, Object)>, Error> {
        let Some(version) = self.version else { return Ok(Vec::new()) };
        let release = read_release(self.env, version, self.packed).await?;
        let mut objects = Vec::new();
        for object in recorded_objects(&release.manifest, &self.env.decoration.namespace)? {
            // A kind that is served no more has no objects.
            if let Ok(key) = self.env.applier.key(&object, self.env.decoration).await {
                objects.push((key, object));
            }
        }
        Ok(objects)
    }

    /// As `read`; what cannot be decoded counts as nothing, for then nothing is known to drop.
    async fn read_or_nothing(&self) -> Result<Vec<(ObjectKey, Object)>, kube::Error> {
        match self.read().await {
            Ok(objects) => Ok(objects),
            Err(Error::Storage(storage::Error::Api { source, .. })) if !source.is_not_found() => Err(source),
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
            let objects = self.objects.get_or_try_init(|| self.read_or_nothing()).await?;
            Ok(objects.iter().find(|(known, _)| known == key).map(|(_, object)| object.clone()))
        })
    }
}
