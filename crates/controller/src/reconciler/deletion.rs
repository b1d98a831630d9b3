//! Deletes an object of a resource.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Preconditions};

use super::cache::Cache;
use super::kind::{self, Kind};
use super::scope::{ATTEMPTS, Scope, WriteError, is_conflict, is_missing};
use crate::ResourceKey;

impl<R: Kind> Scope<'_, R> {
    /// Deletes an object of the resource, and returns whether it existed. `cache` must cover it; an object that its Rust
    /// type cannot decode is deleted as well. The garbage collector deletes the object's dependents in the background,
    /// including the pods of a Job.
    ///
    /// Deletes only the state that was judged to be the resource's: an object that has changed since is read and judged
    /// again.
    ///
    /// # Errors
    /// Fails if the object has another controller, or none, if it changes before each of several attempts, or if the
    /// server rejects the request.
    pub async fn delete<K: Kind>(&self, cache: &Cache<K>, key: &ResourceKey) -> Result<bool, WriteError> {
        let Some(mut judged) = cache.metadata(key) else { return Ok(false) };
        let (api, mut attempt) = (self.api_in::<K>(&key.namespace), 1);
        loop {
            if !self.owns(&judged) {
                let (kind, name) = named::<K>(key);
                return Err(WriteError::Foreign { kind, name });
            }
            if judged.deletion_timestamp.is_some() {
                return Ok(true);
            }
            match kind::delete(api.clone(), &key.name, &deletion_of(&judged)).await {
                Ok(()) => return Ok(true),
                Err(error) if is_missing(&error) => return Ok(false),
                Err(error) if is_conflict(&error) && attempt < ATTEMPTS => attempt += 1,
                Err(source) => return Err(failed::<K>(key, source)),
            }
            match kind::metadata(api.clone(), &key.name).await.map_err(|source| failed::<K>(key, source))? {
                Some(found) if found.uid == judged.uid => judged = found,
                _ => return Ok(false),
            }
        }
    }
}

/// Returns the options that delete an object in exactly this state, and its dependents in the background.
fn deletion_of(judged: &ObjectMeta) -> DeleteParams {
    let (uid, resource_version) = (judged.uid.clone(), judged.resource_version.clone());
    DeleteParams::background().preconditions(Preconditions { uid, resource_version })
}

fn failed<K: Kind>(key: &ResourceKey, source: kube::Error) -> WriteError {
    let (kind, name) = named::<K>(key);
    WriteError::Write { kind, name, source }
}

/// Returns the kind and name of an object, for an error.
fn named<K: Kind>(key: &ResourceKey) -> (String, String) {
    (K::kind(&()).into_owned(), key.name.to_string())
}
