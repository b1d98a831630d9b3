//! Applies and deletes objects: server-side apply as `helm-operator`, never over an object that is someone else's.

use std::sync::Arc;

use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

use super::api::{Api, Call, Error};
use super::decorate::{Decoration, is_kept};
use super::migrate::migrated_managers;
use super::{FIELD_MANAGER, Live, Mapper, Object, ObjectKey, Resource};

/// What is known of an object before it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It should not exist. If it does, it is taken only if it says that it is this release's.
    New,
    /// We applied it before.
    Ours,
    /// It may be a client-side manager's of this release: that manager's fields become ours first.
    MoveIn,
    /// As `MoveIn`, but whoever's it is: the user asked for it.
    Adopt,
}

/// An object after it was applied.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Which object.
    pub key: ObjectKey,
    /// The version in which it was applied.
    pub api_version: Arc<str>,
    /// The digest of what the chart says: [`Object::digest`].
    pub digest: String,
    /// Whether it outlives its release.
    pub kept: bool,
    /// The object as the server has it now.
    pub live: Live,
}

/// Why an object was not applied or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// It exists and is someone else's.
    #[error("{object} in namespace {namespace:?} exists and cannot be imported into the current release: {why}")]
    Foreign {
        /// Kind and name.
        object: String,
        /// Its namespace.
        namespace: String,
        /// What it lacks.
        why: String,
    },
    /// The request failed.
    #[error("cannot {verb} {object}")]
    Failed {
        /// `apply` or `delete`.
        verb: &'static str,
        /// Kind and name.
        object: String,
        /// Why.
        #[source]
        source: Error,
    },
}

/// Applies and deletes. Cheap to clone.
#[derive(Clone)]
pub struct Applier {
    pub(super) api: Arc<dyn Api>,
    /// Which resource serves a kind.
    pub mapper: Arc<Mapper>,
}

impl Applier {
    /// An applier for the server behind `api`.
    pub fn new(api: Arc<dyn Api>) -> Applier {
        Applier { mapper: Arc::new(Mapper::new(api.clone())), api }
    }

    /// The server.
    pub fn api(&self) -> &Arc<dyn Api> {
        &self.api
    }

    /// The object's key in this release.
    pub async fn key(&self, object: &Object, decoration: &Decoration) -> Result<ObjectKey, ApplyError> {
        let resource = self.resource(object).await?;
        Ok(key_of(object, decoration, &resource))
    }

    /// Applies objects that are in install order: one kind after the other, objects of one kind at once.
    pub async fn apply_all(
        &self,
        objects: &[(&Object, Mode)],
        decoration: &Decoration,
    ) -> Result<Vec<Applied>, ApplyError> {
        let mut applied = Vec::with_capacity(objects.len());
        for group in objects.chunk_by(|(a, _), (b, _)| a.kind == b.kind) {
            applied
                .extend(try_join_all(group.iter().map(|(object, mode)| self.apply(object, decoration, *mode))).await?);
        }
        Ok(applied)
    }

    /// Applies one object. Repeating it changes nothing.
    pub async fn apply(&self, object: &Object, decoration: &Decoration, mode: Mode) -> Result<Applied, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        let resource = self.resource(object).await?;
        let key = key_of(object, decoration, &resource);
        let path = resource.path(&key.namespace, &object.name).map_err(failed)?;
        let body = decoration.decorate(object, &resource);
        let answer = match mode {
            Mode::Ours => self.force(&path, &body).await.map_err(failed)?,
            Mode::New => match self.create(&path, &body).await {
                Err(error) if error.is_conflict() => self.move_in(object, decoration, &path, &body, false).await?,
                created => created.map_err(failed)?,
            },
            Mode::MoveIn | Mode::Adopt => self.move_in(object, decoration, &path, &body, mode == Mode::Adopt).await?,
        };
        let digest = object.digest(&decoration.namespace);
        Ok(Applied { key, api_version: resource.api_version.clone(), digest, kept: is_kept(object), live: answer })
    }

    async fn resource(&self, object: &Object) -> Result<Arc<Resource>, ApplyError> {
        let found = self.mapper.resource(&object.api_version, &object.kind).await;
        found.map_err(|source| ApplyError::Failed { verb: "apply", object: describe(object), source })
    }

    async fn force(&self, path: &str, body: &Value) -> Result<Live, Error> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
        self.api.send(Call::apply(path, bytes(body))).await?.parse()
    }

    /// Creates by apply: no object has resource version 1, so one that exists is a conflict and is left alone.
    async fn create(&self, path: &str, body: &Value) -> Result<Live, Error> {
        let mut body = body.clone();
        body["metadata"]["resourceVersion"] = "1".into();
        self.force(path, &body).await
    }

    async fn move_in(
        &self,
        object: &Object,
        decoration: &Decoration,
        path: &str,
        body: &Value,
        adopt: bool,
    ) -> Result<Live, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        let live = match self.api.send(Call::get(path)).await {
            Err(error) if error.is_not_found() => return self.force(path, body).await.map_err(failed),
            answer => answer.and_then(|a| a.parse::<Value>()).map_err(failed)?,
        };
        if !adopt && let Err(why) = decoration.check_ownership(&live) {
            let namespace = decoration.namespace.clone();
            return Err(ApplyError::Foreign { object: describe(object), namespace, why });
        }
        if let Some(managers) = migrated_managers(&live["metadata"]["managedFields"]) {
            let patch = json!([
                {"op": "replace", "path": "/metadata/managedFields", "value": managers},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
            ]);
            self.api.send(Call::json_patch(path, bytes(&patch))).await.map_err(failed)?;
        }
        self.force(path, body).await.map_err(failed)
    }

    /// Deletes an object in the background. Already gone is fine. With a uid, an object of another uid is left alone; without one, the
    /// object is read first and left alone unless it is this release's. Says whether a delete was sent.
    pub async fn delete(
        &self,
        key: &ObjectKey,
        api_version: &str,
        uid: Option<&str>,
        decoration: &Decoration,
    ) -> Result<bool, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "delete", object: key.to_string(), source };
        let resource = match self.mapper.resource(api_version, &key.kind).await {
            // A kind that is served no more has no objects.
            Err(Error::NoKind { .. }) => return Ok(false),
            found => found.map_err(failed)?,
        };
        let path = resource.path(&key.namespace, &key.name).map_err(failed)?;
        let uid = match uid {
            Some(uid) => uid.to_owned(),
            None => match self.uid_if_ours(&path, decoration).await.map_err(failed)? {
                Some(uid) => uid,
                None => return Ok(false),
            },
        };
        let options = json!({"propagationPolicy": "Background", "preconditions": {"uid": uid}});
        match self.api.send(Call::delete(path, bytes(&options))).await {
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
            answer => answer.map(|_| true).map_err(failed),
        }
    }

    async fn uid_if_ours(&self, path: &str, decoration: &Decoration) -> Result<Option<String>, Error> {
        let live: Value = match self.api.send(Call::get(path)).await {
            Err(error) if error.is_not_found() => return Ok(None),
            answer => answer?.parse()?,
        };
        if let Err(why) = decoration.check_ownership(&live) {
            tracing::info!(path, why, "left an object alone that is not this release's");
            return Ok(None);
        }
        Ok(live["metadata"]["uid"].as_str().map(str::to_owned))
    }

    /// Makes an object of the chart's `crds` folder as it stands, unless it exists. Says whether it was made.
    pub async fn apply_definition(&self, object: &Object) -> Result<bool, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        let resource = self.resource(object).await?;
        let path = resource.path(object.namespace.as_deref().unwrap_or_default(), &object.name).map_err(failed)?;
        match self.create(&path, &object.body).await {
            Err(error) if error.is_conflict() => Ok(false),
            made => made.map(|_| true).map_err(failed),
        }
    }

    /// How a live object is doing.
    pub async fn readiness(&self, object: &Object) -> Result<super::Readiness, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "read", object: describe(object), source };
        let resource = self.resource(object).await?;
        let path = resource.path(object.namespace.as_deref().unwrap_or_default(), &object.name).map_err(failed)?;
        let live: Live = self.api.send(Call::get(path)).await.and_then(|a| a.parse()).map_err(failed)?;
        Ok(live.readiness(object.group(), &object.kind))
    }

    /// Whether the object exists.
    pub async fn exists(&self, key: &ObjectKey, api_version: &str) -> Result<bool, Error> {
        let resource = match self.mapper.resource(api_version, &key.kind).await {
            Err(Error::NoKind { .. }) => return Ok(false),
            found => found?,
        };
        match self.api.send(Call::new(Method::GET, resource.path(&key.namespace, &key.name)?)).await {
            Err(error) if error.is_not_found() => Ok(false),
            answer => answer.map(|_| true),
        }
    }
}

fn key_of(object: &Object, decoration: &Decoration, resource: &Resource) -> ObjectKey {
    ObjectKey {
        group: resource.group().into(),
        kind: resource.kind.clone(),
        namespace: decoration.namespace_of(object, resource).into(),
        name: object.name.as_str().into(),
    }
}

pub(super) fn describe(object: &Object) -> String {
    format!("{} {:?}", object.kind, object.name)
}

pub(super) fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
