//! Reads live objects by their keys. Returns `None` for an object that does not exist, or whose kind does not.

use outside::{Call, Error};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::apply::{Applier, ApplyError, describe, key_of};
use crate::kube::kinds::resource::Resource;
use crate::kube::live_state::live::Live;
use crate::kube::live_state::readiness::Readiness;
use crate::kube::live_state::whole::Whole;
use crate::kube::objects::decorate::Decoration;
use crate::kube::objects::object::{Object, ObjectKey};

impl Applier {
    /// Reads a live object and returns its readiness.
    ///
    /// # Errors
    /// The object does not exist, or the request fails.
    pub(crate) async fn readiness(&self, object: &Object) -> Result<Readiness, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "read", object: describe(object), source };
        let resource = self.resource(object).await?;
        let path = resource.path(object.namespace.as_deref().unwrap_or_default(), &object.name).map_err(failed)?;
        let live: Live = self.api.send(Call::get(path)).await.and_then(|a| a.parse()).map_err(failed)?;
        Ok(live.readiness(object.group(), &object.kind))
    }

    /// Reads an object's metadata; `None` if the object or its kind does not exist.
    ///
    /// # Errors
    /// The request or discovery fails.
    pub async fn find_live(&self, key: &ObjectKey, api_version: &str) -> Result<Option<Live>, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "read", object: key.to_string(), source };
        self.in_served_version(|| self.find_as_known(key, api_version)).await.map_err(failed)
    }

    /// Reads an object with its readiness; `None` if the object or its kind does not exist. If the server does not serve its
    /// path, discovery runs before anything is concluded from that.
    ///
    /// # Errors
    /// The request or discovery fails.
    pub(crate) async fn find_whole(&self, key: &ObjectKey, api_version: &str) -> Result<Option<Live>, Error> {
        self.in_served_version(|| self.read_live(key, api_version)).await
    }

    /// Reads an object with its readiness, as the last discovery shows it, so that polls need no other; `None` if the object
    /// or its kind does not exist.
    ///
    /// # Errors
    /// The request or discovery fails.
    pub(crate) async fn read_live(&self, key: &ObjectKey, api_version: &str) -> Result<Option<Live>, Error> {
        self.read_of((api_version, &key.kind), |resource| path_of(key, resource)).await
    }

    /// Reads an object with its readiness and its text; `None` if the object or its kind does not exist.
    ///
    /// # Errors
    /// The request or discovery fails.
    pub async fn ask(&self, key: &ObjectKey, api_version: &str) -> Result<Option<Live>, Error> {
        let path = |resource: &Resource| path_of(key, resource);
        let read = self.in_served_version(|| self.read_of::<Whole>((api_version, &key.kind), path)).await?;
        Ok(read.map(|whole| whole.live))
    }

    /// Reads the whole live object; `None` if it, or its kind, does not exist.
    ///
    /// # Errors
    /// The request or discovery fails.
    pub(crate) async fn read_whole(&self, object: &Object, decoration: &Decoration) -> Result<Option<Value>, Error> {
        let path = |resource: &Resource| path_of(&key_of(object, decoration, resource), resource);
        self.read_of((&object.api_version, &object.kind), path).await
    }

    /// Reads the object at a path below its kind.
    async fn read_of<T: DeserializeOwned>(
        &self,
        (api_version, kind): (&str, &str),
        path: impl FnOnce(&Resource) -> Result<Option<String>, Error>,
    ) -> Result<Option<T>, Error> {
        let resource = match self.mapper.any_version(api_version, kind).await {
            Err(Error::NoKind { .. }) => return Ok(None),
            found => found?,
        };
        let Some(path) = path(&resource)? else { return Ok(None) };
        match self.api().send(Call::get(path)).await {
            Err(error) if error.is_missing_object() => Ok(None),
            answer => Ok(Some(answer?.parse()?)),
        }
    }

    /// Reads an object's metadata in the version found by the last discovery.
    async fn find_as_known(&self, key: &ObjectKey, api_version: &str) -> Result<Option<Live>, Error> {
        let resource = match self.mapper.any_version(api_version, &key.kind).await {
            Err(Error::NoKind { .. }) => return Ok(None),
            found => found?,
        };
        match path_of(key, &resource)? {
            Some(path) => self.read_metadata(&path).await,
            None => Ok(None),
        }
    }
}

/// Returns the path of the object with this key; `None` if its kind was cluster-scoped and is namespaced by now: the object
/// went with the kind's definition.
fn path_of(key: &ObjectKey, resource: &Resource) -> Result<Option<String>, Error> {
    let is_gone = resource.namespaced && key.namespace.is_empty();
    if is_gone { Ok(None) } else { resource.path(&key.namespace, &key.name).map(Some) }
}
