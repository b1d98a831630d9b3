//! Applies and deletes objects: server-side apply as `helm-operator`, never over an object that is someone else's.

use std::sync::Arc;

use futures::future::try_join_all;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use serde_json::Value;

use super::api::{Api, Call, Error};
use super::client_side::Schemas;
use super::decorate::{Decoration, is_kept};
use super::write::{Before, Body, Way, Writing, Written};
use super::{Live, Mapper, Object, ObjectKey, Proven, Resource, Rule};

/// How often an apply is tried again because the live object was not what it had been.
const MAX_TRIES: usize = 5;
/// How many objects are read at once before a write.
const MAX_READS: usize = 16;

/// An object that is to be applied, and what may be there already.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// What the chart says.
    pub object: &'a Object,
    /// Whose existing object may be changed.
    pub rule: Rule,
    /// What is there.
    pub seen: Seen,
    /// Which way it was written before.
    pub before: Before,
}

/// What is known of the live object.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Nothing: it is read before it is changed.
    Unknown,
    /// It does not exist.
    Absent,
    /// A watch has shown that this uid is ours and applied by us.
    Ours {
        /// The object's uid.
        uid: String,
    },
    /// It was read, and the rule admits it.
    Read(Box<Existing>),
}

/// The metadata of a live object that the rule admits.
#[derive(Clone, Debug)]
pub struct Existing {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) managed_fields: Value,
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
    /// Which way it was written.
    pub way: Way,
    /// Whether the server was asked to change anything: a client's merge may find that all is as it should be.
    pub changed: bool,
}

/// Why an object was not applied or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Objects exist and are someone else's. Nothing was written.
    #[error("{}", conflicts(.0))]
    Foreign(Vec<Conflict>),
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

/// An existing object that the release may not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Which object.
    pub key: ObjectKey,
    /// Whose it is, or what its metadata lacks.
    pub why: String,
}

/// How many conflicts an error spells out.
const MAX_SHOWN: usize = 5;

fn conflicts(all: &[Conflict]) -> String {
    let text = |c: &Conflict| {
        let place = match &*c.key.namespace {
            "" => String::new(),
            namespace => format!(" in namespace {namespace:?}"),
        };
        format!("{}{place} exists and cannot be imported into the current release: {}", c.key, c.why)
    };
    let mut lines: Vec<String> = all.iter().take(MAX_SHOWN).map(text).collect();
    if all.len() > MAX_SHOWN {
        lines.push(format!("and {} more", all.len() - MAX_SHOWN));
    }
    lines.join("; ")
}

/// Applies and deletes. Cheap to clone.
#[derive(Clone)]
pub struct Applier {
    pub(super) api: Arc<dyn Api>,
    pub(super) schemas: Arc<Schemas>,
    /// Which resource serves a kind.
    pub mapper: Arc<Mapper>,
}

impl Applier {
    /// An applier for the server behind `api`.
    pub fn new(api: Arc<dyn Api>) -> Applier {
        Applier { mapper: Arc::new(Mapper::new(api.clone())), schemas: Arc::new(Schemas::new(api.clone())), api }
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

    /// The key in this release of an object that was applied before; absent if its kind is served no more, in no version: then there is none.
    ///
    /// # Errors
    /// The server is away.
    pub async fn recorded_key(
        &self,
        object: &Object,
        decoration: &Decoration,
    ) -> Result<Option<ObjectKey>, ApplyError> {
        match self.mapper.any_version(&object.api_version, &object.kind).await {
            Err(Error::NoKind { .. }) => Ok(None),
            Ok(resource) => Ok(Some(key_of(object, decoration, &resource))),
            Err(source) => Err(ApplyError::Failed { verb: "find", object: describe(object), source }),
        }
    }

    /// Applies objects that are in install order: one kind after the other, objects of one kind at once.
    pub async fn apply_all(&self, targets: &[Target<'_>], writing: &Writing<'_>) -> Result<Vec<Applied>, ApplyError> {
        let objects = targets.iter().map(|target| target.object);
        let definitions: Vec<&Object> = objects.filter(|o| o.kind == "CustomResourceDefinition").collect();
        let writing = &Writing { definitions: &definitions, ..*writing };
        let mut applied = Vec::with_capacity(targets.len());
        for group in targets.chunk_by(|a, b| a.object.kind == b.object.kind) {
            applied.extend(try_join_all(group.iter().map(|target| self.apply(target, writing))).await?);
        }
        Ok(applied)
    }

    /// Applies one object. Repeating it changes nothing.
    ///
    /// What is known of the live object may be out of date: the server is told what was seen, and where that is no longer true the
    /// object is read and judged by the rule again.
    ///
    /// # Errors
    /// The object is someone else's, its kind is not served, or the server refuses.
    pub async fn apply(&self, target: &Target<'_>, writing: &Writing<'_>) -> Result<Applied, ApplyError> {
        let (object, decoration) = (target.object, writing.decoration);
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        let body = self.body(object, decoration).await?;
        let mut seen = target.seen.clone();
        if writing.moves_back(target.before) && matches!(seen, Seen::Ours { .. }) {
            seen = Seen::Unknown;
        }
        let mut tries = 0;
        let Written { live, way, changed } = loop {
            tries += 1;
            match &seen {
                Seen::Unknown => {}
                seen => match self.write(&body, seen, target.before, writing).await {
                    Err(error) if error.is_conflict() && tries < MAX_TRIES => {}
                    answer => break answer.map_err(failed)?,
                },
            }
            seen = self
                .survey_one(&body.path, &body.key, target.rule, decoration)
                .await
                .map_err(failed)?
                .map_err(|c| ApplyError::Foreign(vec![c]))?;
        };
        let digest = object.digest(&decoration.namespace);
        let api_version = body.resource.api_version.clone();
        Ok(Applied { key: body.key, api_version, digest, kept: is_kept(object), live, way, changed })
    }

    /// Asks server-side apply what it says of an object, without writing it. An unowned default in the way counts as refused.
    pub async fn rehearse(&self, object: &Object, decoration: &Decoration) -> Result<(), ApplyError> {
        let body = self.body(object, decoration).await?;
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        self.dry_run(&body).await.map_err(failed)
    }

    async fn body(&self, object: &Object, decoration: &Decoration) -> Result<Body, ApplyError> {
        let resource = self.resource(object).await?;
        let key = key_of(object, decoration, &resource);
        let path = resource.path(&key.namespace, &object.name);
        let path = path.map_err(|source| ApplyError::Failed { verb: "apply", object: describe(object), source })?;
        let json = decoration.decorate(object, &resource);
        Ok(Body { resource, key, path, json })
    }

    /// Reads the metadata of objects before anything is written: one request each, at once.
    ///
    /// # Errors
    /// [`ApplyError::Foreign`] with every object that its rule does not admit.
    pub async fn survey(
        &self,
        objects: &[(&Object, Rule)],
        decoration: &Decoration,
    ) -> Result<Vec<(ObjectKey, Seen)>, ApplyError> {
        let looks: Vec<_> =
            objects.iter().map(|(object, rule)| self.survey_object(object, *rule, decoration).boxed()).collect();
        let (found, foreign): (Vec<_>, Vec<_>) =
            stream::iter(looks).buffered(MAX_READS).try_collect::<Vec<_>>().await?.into_iter().partition(Result::is_ok);
        let foreign: Vec<Conflict> = foreign.into_iter().filter_map(Result::err).collect();
        if foreign.is_empty() { Ok(found.into_iter().flatten().collect()) } else { Err(ApplyError::Foreign(foreign)) }
    }

    async fn survey_object(
        &self,
        object: &Object,
        rule: Rule,
        decoration: &Decoration,
    ) -> Result<Result<(ObjectKey, Seen), Conflict>, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "read", object: describe(object), source };
        let resource = self.resource(object).await?;
        let key = key_of(object, decoration, &resource);
        let path = resource.path(&key.namespace, &object.name).map_err(failed)?;
        let seen = self.survey_one(&path, &key, rule, decoration).await.map_err(failed)?;
        Ok(seen.map(|seen| (key, seen)))
    }

    async fn survey_one(
        &self,
        path: &str,
        key: &ObjectKey,
        rule: Rule,
        decoration: &Decoration,
    ) -> Result<Result<Seen, Conflict>, Error> {
        let answer = match self.api.send(Call::metadata(path)).await {
            Err(error) if error.is_not_found() => return Ok(Ok(Seen::Absent)),
            answer => answer?,
        };
        let live: Live = answer.parse()?;
        if let Err(why) = rule.admits(decoration, &live) {
            return Ok(Err(Conflict { key: key.clone(), why }));
        }
        let mut whole: Value = answer.parse()?;
        let Proven { uid, resource_version } = live.proven();
        let managed_fields = whole["metadata"]["managedFields"].take();
        Ok(Ok(Seen::Read(Box::new(Existing { uid, resource_version, managed_fields }))))
    }

    async fn resource(&self, object: &Object) -> Result<Arc<Resource>, ApplyError> {
        let found = self.mapper.resource(&object.api_version, &object.kind).await;
        found.map_err(|source| ApplyError::Failed { verb: "apply", object: describe(object), source })
    }

    /// Makes an object of the chart's `crds` folder as it stands, unless it exists. Says whether it was made.
    pub async fn apply_definition(&self, object: &Object) -> Result<bool, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        let resource = self.resource(object).await?;
        let path = resource.path(object.namespace.as_deref().unwrap_or_default(), &object.name).map_err(failed)?;
        let made = match self.create(&path, &object.body).await {
            Err(refused) if refused.may_suit_a_client() => {
                let made = self.post(&resource, "", &object.body).await;
                made.map_err(|error| if error.is_conflict() { error } else { refused })
            }
            made => made,
        };
        match made {
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

    /// An object's metadata as the server has it; nothing if the object or its kind does not exist.
    ///
    /// # Errors
    /// The server refuses or is away.
    pub async fn look_up(&self, key: &ObjectKey, api_version: &str) -> Result<Option<Live>, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "read", object: key.to_string(), source };
        let resource = match self.mapper.any_version(api_version, &key.kind).await {
            Err(Error::NoKind { .. }) => return Ok(None),
            found => found.map_err(failed)?,
        };
        let path = resource.path(&key.namespace, &key.name).map_err(failed)?;
        self.read(&path).await.map_err(failed)
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
