//! Deletes objects: only if they provably belong to the release, and only in the state that was checked.

use outside::{Call, Error};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::kube::live_state::live::{Live, Proven};
use crate::kube::live_state::ownership::NotOurs;
use crate::kube::objects::decorate::Decoration;
use crate::kube::objects::object::ObjectKey;
use crate::kube::writes::apply::{Applier, ApplyError, MAX_TRIES, bytes};

/// The server's treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kube) enum Propagation {
    /// Deletes them afterwards.
    Background,
    /// Deletes them first; the object exists until they are gone.
    Foreground,
}

/// What a deletion relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grounds {
    /// The state in which a watch showed the object to be deletable.
    Seen(Proven),
    /// The object's metadata, which is read: the object belongs to the release.
    Metadata,
    /// The same. But only attempts that did not succeed have had the object, so it stays if somebody else has made it.
    Attempt,
}

impl Grounds {
    /// Returns the state of the live object in this namespace to delete, or why it is left.
    fn check(&self, decoration: &Decoration, live: &Live, namespace: &str) -> Result<Proven, Removal> {
        let proven = check_deletable(decoration, live, namespace)?;
        match self {
            Grounds::Attempt if decoration.made_by_others(live).is_some() => Err(Removal::NotOurs(NotOurs::Appeared)),
            Grounds::Seen(_) | Grounds::Metadata | Grounds::Attempt => Ok(proven),
        }
    }

    /// Returns what a deletion relies on once a state that a watch showed has turned out to be outdated.
    fn read(self) -> Grounds {
        match self {
            Grounds::Seen(_) => Grounds::Metadata,
            read => read,
        }
    }
}

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The server accepted the deletion of the object with this uid; finalizers may still hold it.
    Sent(String),
    /// The object does not exist, or its kind is no longer served.
    Absent,
    /// The object is annotated with `helm.sh/resource-policy: keep`.
    Kept,
    /// The object does not belong to this release.
    NotOurs(NotOurs),
}

impl Applier {
    /// Deletes an object, with background propagation, if it belongs to this release and is not annotated to be kept.
    ///
    /// Whatever the grounds, the deletion has uid and resource version as preconditions, and an object that changed
    /// since then is checked again, up to 5 times. Repeating it is safe. A cancelled call may or may not have deleted the
    /// object.
    ///
    /// # Errors
    /// The server rejects the deletion or is unreachable, or the object keeps changing.
    pub(crate) async fn delete(
        &self,
        key: &ObjectKey,
        api_version: &str,
        grounds: Grounds,
        decoration: &Decoration,
    ) -> Result<Removal, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "delete", object: key.to_string(), source };
        let known = self.delete_as_known(key, api_version, grounds.clone(), decoration).await;
        match self.after_unserved(known).await.map_err(failed)? {
            Some(removal) => Ok(removal),
            None => self.delete_as_known(key, api_version, grounds.read(), decoration).await.map_err(failed),
        }
    }

    /// Deletes an object in the version found by the last discovery.
    async fn delete_as_known(
        &self,
        key: &ObjectKey,
        api_version: &str,
        mut grounds: Grounds,
        decoration: &Decoration,
    ) -> Result<Removal, Error> {
        let resource = match self.mapper.any_version(api_version, &key.kind).await {
            Err(Error::NoKind { .. }) => return Ok(Removal::Absent),
            found => found?,
        };
        let namespace = resource.namespace_of(&key.namespace, &decoration.namespace);
        let path = resource.path(namespace, &key.name)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let target = match &grounds {
                Grounds::Seen(proven) => proven.clone(),
                Grounds::Metadata | Grounds::Attempt => match self.read_metadata::<Live>(&path).await? {
                    None => return Ok(Removal::Absent),
                    Some(live) => match grounds.check(decoration, &live, namespace) {
                        Ok(proven) => proven,
                        Err(left) => return Ok(left),
                    },
                },
            };
            match self.delete_proven(&path, &target, Propagation::Background).await {
                Err(error) if error.is_conflict() && tries < MAX_TRIES => grounds = grounds.read(),
                answer => return answer,
            }
        }
    }

    /// Runs discovery and returns `None`, for another try, if the server does not serve a path that the last discovery
    /// returned. The version may no longer be served, while the object still exists in another.
    pub(in crate::kube) async fn after_unserved<T>(&self, answer: Result<T, Error>) -> Result<Option<T>, Error> {
        match answer {
            Err(error) if error.is_unserved_path() => self.mapper.refresh().await.map(|()| None),
            answer => answer.map(Some),
        }
    }

    /// Sends a request, and repeats it after a discovery if the server does not serve the path that the last one returned.
    pub(in crate::kube) async fn in_served_version<T, F>(&self, request: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        match self.after_unserved(request().await).await? {
            Some(answer) => Ok(answer),
            None => request().await,
        }
    }

    /// Deletes the object in the state that was checked; a conflict means that it changed since then.
    pub(in crate::kube) async fn delete_proven(
        &self,
        path: &str,
        proven: &Proven,
        propagation: Propagation,
    ) -> Result<Removal, Error> {
        let options = options(proven, propagation);
        match self.api.send(Call::delete(path, bytes(&options))).await {
            Err(error) if error.is_missing_object() => Ok(Removal::Absent),
            answer => answer.map(|_| Removal::Sent(proven.uid.clone())),
        }
    }

    /// Asks the server whether it would delete the object in the state that was checked.
    pub(in crate::kube) async fn dry_run_delete(&self, path: &str, proven: &Proven) -> Result<(), Error> {
        let mut options = options(proven, Propagation::Foreground);
        // Beside a body, the server ignores the query.
        options["dryRun"] = json!(["All"]);
        self.api.send(Call::delete(format!("{path}?dryRun=All"), bytes(&options))).await.map(drop)
    }

    /// Reads an object's metadata; `None` if it does not exist. Fails if the server does not serve the path.
    pub(in crate::kube) async fn read_metadata<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Error> {
        match self.api.send(Call::metadata(path)).await {
            Err(error) if error.is_missing_object() => Ok(None),
            answer => answer?.parse().map(Some),
        }
    }
}

/// Returns the options of the deletion of an object in this state.
fn options(proven: &Proven, propagation: Propagation) -> Value {
    let preconditions = json!({"uid": proven.uid, "resourceVersion": proven.resource_version});
    let policy = match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
    };
    json!({"propagationPolicy": policy, "preconditions": preconditions})
}

/// Returns the state of the object in this namespace to delete, or why it is kept.
pub(in crate::kube) fn check_deletable(
    decoration: &Decoration,
    live: &Live,
    namespace: &str,
) -> Result<Proven, Removal> {
    if live.kept {
        return Err(Removal::Kept);
    }
    decoration.prove(live, namespace).map(|()| live.proven()).map_err(Removal::NotOurs)
}
