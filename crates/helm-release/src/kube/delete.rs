//! The one way in which an object of a release is deleted: never without proof that it is the release's, never another than the proven one.

use serde_json::json;

use super::api::{Call, Error};
use super::apply::{Applier, ApplyError, bytes};
use super::live::Live;
use super::{Decoration, ObjectKey, Ownership};

/// How often a deletion is tried again because the object changed between the proof and the deletion.
const MAX_TRIES: usize = 5;

/// The very object, in the very state, that was proven to be this release's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// Its uid.
    pub uid: String,
    /// The resource version at which it was looked at.
    pub resource_version: String,
}

/// What became of an object that was to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The server took the deletion; finalizers may still hold the object.
    Sent,
    /// It did not exist, or its kind is no longer served.
    Absent,
    /// It carries `helm.sh/resource-policy: keep`.
    Kept,
    /// It is not this release's; the text says whose it is.
    NotOurs(String),
}

impl Applier {
    /// Deletes an object in the background if it is this release's and is not marked to be kept.
    ///
    /// `proven` is what a watch has shown to be this release's and not kept; without it the object's metadata is read. Either way the
    /// deletion names uid and resource version, so that an object which changed hands since then is looked at again.
    ///
    /// # Errors
    /// The server refuses, is away, or the object changes faster than it can be judged.
    pub async fn delete(
        &self,
        key: &ObjectKey,
        api_version: &str,
        mut proven: Option<Proven>,
        decoration: &Decoration,
    ) -> Result<Removal, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "delete", object: key.to_string(), source };
        let resource = match self.mapper.any_version(api_version, &key.kind).await {
            Err(Error::NoKind { .. }) => return Ok(Removal::Absent),
            found => found.map_err(failed)?,
        };
        let path = resource.path(&key.namespace, &key.name).map_err(failed)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let target = match proven.take() {
                Some(proven) => proven,
                None => match self.read(&path).await.map_err(failed)? {
                    None => return Ok(Removal::Absent),
                    Some(live) => match judge(decoration, &live) {
                        Ok(proven) => proven,
                        Err(left) => return Ok(left),
                    },
                },
            };
            match self.delete_proven(&path, &target).await {
                Err(error) if error.is_conflict() && tries < MAX_TRIES => {}
                answer => return answer.map_err(failed),
            }
        }
    }

    /// Deletes the very object in the very state that was proven to be this release's. A conflict: it changed since.
    pub(super) async fn delete_proven(&self, path: &str, proven: &Proven) -> Result<Removal, Error> {
        let preconditions = json!({"uid": proven.uid, "resourceVersion": proven.resource_version});
        let options = json!({"propagationPolicy": "Background", "preconditions": preconditions});
        match self.api.send(Call::delete(path, bytes(&options))).await {
            Err(error) if error.is_not_found() => Ok(Removal::Absent),
            answer => answer.map(|_| Removal::Sent),
        }
    }

    /// An object's metadata; nothing if it does not exist.
    pub(super) async fn read(&self, path: &str) -> Result<Option<Live>, Error> {
        match self.api.send(Call::metadata(path)).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer?.parse().map(Some),
        }
    }
}

/// What may be deleted, or why it stays.
fn judge(decoration: &Decoration, live: &Live) -> Result<Proven, Removal> {
    match decoration.ownership(live) {
        _ if live.kept => Err(Removal::Kept),
        Ownership::Ours => Ok(live.proven()),
        Ownership::Unclaimed => Err(Removal::NotOurs("nothing in its metadata says that it is this release's".into())),
        Ownership::Foreign(owner) => Err(Removal::NotOurs(format!("it belongs to {owner}"))),
    }
}
