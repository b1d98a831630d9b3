//! What one reconcile of one resource may do.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PatchParams;
use kube::core::object::HasStatus;
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde_json::{Value, json};

use super::apply::{differs, subresource_differs};
use super::cache::Cache;
use super::former::{Names, owner_manager};
use super::kind::{self, Kind};
use super::options::{Apply, Conflicts, Ownership};
use super::status::{STATUS, without_copies};
use super::store::Store;
use crate::ResourceKey;
use crate::context::Context;
use crate::events;
use crate::report::{Outcome, Reason};
use crate::runtime::readiness;

/// How often the write or deletion of an object that keeps changing is tried in one reconcile.
pub(super) const ATTEMPTS: u32 = 5;

/// A resource that is being reconciled, with helpers for the common cases: apply what it owns, write a status, publish
/// an event.
pub struct Scope<'a, R> {
    context: &'a Context,
    resource: &'a Arc<R>,
    manager: &'a str,
    /// The field managers of earlier versions, see [`Reconciler::former_names`](super::Reconciler::former_names).
    former: &'a [&'a str],
    /// The store of the resources, which knows their last written status.
    resources: Arc<Store<R>>,
}

/// What an apply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It created the object.
    Created,
    /// It updated the object.
    Updated,
    /// It changed nothing: the object is as wanted, is being deleted, or was only to be created and exists.
    Unchanged,
}

/// An object after an apply.
#[derive(Clone, Debug)]
pub struct Applied<K> {
    /// What the apply did.
    pub change: Change,
    /// The object as the server returned it, or as the cache has it.
    pub object: Arc<K>,
}

/// The reason why a write failed. A reconciler may return it as its own error.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum WriteError {
    /// An object of that name exists and does not belong to the resource.
    #[error("{kind} {name:?} exists and belongs to something else: delete it, or rename one of the two")]
    Foreign { kind: String, name: String },
    /// The resource cannot own an object there.
    #[error("{kind} {name:?} {place}: {owner} cannot own it")]
    Elsewhere {
        kind: String,
        name: String,
        /// The place of the object: `is in namespace "x"`.
        place: String,
        owner: String,
    },
    /// The resource is cluster-scoped, and the object is in a namespace that the process does not watch.
    #[error("{kind} {name:?} is in namespace {namespace:?}, which is not watched: add it to WATCH_NAMESPACE")]
    NotWatched { kind: String, name: String, namespace: String },
    /// The resource is cluster-scoped, and the object names no namespace.
    #[error("{kind} {name:?} needs a namespace: its resource has none")]
    NoNamespace { kind: String, name: String },
    /// The object could not be written.
    #[error("cannot write {kind} {name:?}")]
    Write { kind: String, name: String, source: kube::Error },
    /// The object or status is not a JSON object.
    #[error("cannot encode {0}")]
    Encode(String, #[source] serde_json::Error),
    /// The status could not be written.
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
    /// The definition in the cluster has no status subresource, so there is no status to write.
    #[error("cannot write the status: {kind} has no status subresource in the cluster")]
    NoStatus { kind: String },
}

impl Reason for WriteError {
    fn reason(&self) -> &'static str {
        match self {
            WriteError::Foreign { .. } => "ObjectConflict",
            WriteError::Elsewhere { .. } | WriteError::NoNamespace { .. } | WriteError::Encode(..) => "InvalidObject",
            WriteError::NotWatched { .. } => "NotWatched",
            WriteError::Write { .. } => "WriteFailed",
            WriteError::Status(_) | WriteError::NoStatus { .. } => "StatusFailed",
        }
    }

    /// Returns whether the object is invalid, because the next attempt would write the same one.
    fn is_terminal(&self) -> bool {
        self.reason() == "InvalidObject"
    }
}

impl<'a, R: Kind> Scope<'a, R> {
    /// Creates the scope of a reconcile whose writes have this field manager. The library does so, and tests may.
    pub fn new(context: &'a Context, resource: &'a Arc<R>, manager: &'a str) -> Scope<'a, R> {
        Scope { context, resource, manager, former: &[], resources: Arc::new(Store::new(Vec::new())) }
    }

    /// Shares what was written with the other reconciles of the resources in this cache.
    pub(super) fn of(self, resources: &Cache<R>) -> Scope<'a, R> {
        Scope { resources: resources.store().clone(), ..self }
    }

    /// Names the field managers of earlier versions.
    pub(super) fn formerly(self, former: &'a [&'a str]) -> Scope<'a, R> {
        Scope { former, ..self }
    }

    /// Returns the field managers of the writes, now and formerly.
    pub(super) fn names(&self) -> Names<'_> {
        let uid = self.resource.meta().uid.as_deref().unwrap_or_default();
        Names { present: self.manager, former: self.former, uid }
    }

    /// Returns the resource as last seen.
    pub fn resource(&self) -> &R {
        self.resource
    }

    /// Returns the process's handles: client, settings, metrics.
    pub fn context(&self) -> &Context {
        self.context
    }

    /// Returns the API of a kind in the resource's namespace. For a cluster-scoped resource or kind, it covers the
    /// whole cluster.
    pub fn api<K: Kind>(&self) -> Api<K> {
        self.api_in(&self.namespace())
    }

    /// Returns the API of a kind in a namespace.
    pub fn api_in<K: Kind>(&self, namespace: &str) -> Api<K> {
        kind::api(self.context.client.clone(), namespace)
    }

    fn namespace(&self) -> String {
        self.resource.namespace().unwrap_or_default()
    }

    /// Makes an object exist as given, by default owned by the resource; [`Apply`] has other options. `cache` must
    /// cover the object. Fields that the object omits stay with other managers; fields that an earlier apply set and
    /// this one omits are removed.
    ///
    /// Sends nothing if the object is as wanted, as cached or as last written through `cache`: any number of reconciles
    /// need one write.
    ///
    /// A namespaced resource owns objects in its own namespace, which the object need not name. A cluster-scoped
    /// resource owns cluster-scoped objects, and objects in the namespaces that they name, if these are watched.
    ///
    /// # Errors
    /// Fails if an object of that name has another controller, or none, if the resource cannot own the object there, or
    /// if the server rejects the object; [`Ownership`] has the rules for objects without a controller. When a foreign
    /// object that `cache` contains changes or is deleted, the resource is reconciled again.
    pub async fn apply<K: Kind>(&self, cache: &Cache<K>, apply: impl Into<Apply<K>>) -> Result<Applied<K>, WriteError> {
        let apply = self.placed(apply.into())?;
        let cached = cache.newest(&ResourceKey::of(&apply.object));
        let wanted = encode(&apply.object)?;
        let applied = match cached {
            Some(live) if !self.may_write(&apply, live.meta()) => {
                cache.wake_on_change(&live, ResourceKey::of(&**self.resource));
                Err(foreign(&apply.object))
            }
            Some(live) if apply.create_only || live.meta().deletion_timestamp.is_some() => Ok(unchanged(live)),
            Some(live)
                if !self.is_renamed(&apply, live.meta()) && !differs(&wanted, &encode(&*live)?, self.manager) =>
            {
                Ok(unchanged(live))
            }
            Some(live) => self.write(&apply, &wanted, live.meta()).await.map(|object| update_of(&apply, &live, object)),
            None => self.create(&apply, &wanted).await,
        }?;
        // Nothing older than a new object can be cached.
        if applied.change == Change::Updated && !apply.dry_run {
            cache.wrote((*applied.object).clone());
        }
        self.join_owners(cache, &apply, applied).await
    }

    /// Adds the resource to the object's owners, or removes it if an earlier apply added it.
    ///
    /// The reference has a field manager of its resource, because it is the one field in which the applies of several
    /// resources differ: with one manager, each would remove the others' references.
    async fn join_owners<K: Kind>(
        &self,
        cache: &Cache<K>,
        apply: &Apply<K>,
        applied: Applied<K>,
    ) -> Result<Applied<K>, WriteError> {
        let live = &*applied.object;
        let (Some(owner), None) = (self.resource.owner_ref(&()), &live.meta().deletion_timestamp) else {
            return Ok(applied);
        };
        let (manager, uid) = (owner_manager(self.manager, &owner.uid), owner.uid.clone());
        let mut managers = live.meta().managed_fields.iter().flatten();
        let owners = match apply.ownership {
            Ownership::Owner => vec![owner],
            _ if managers.any(|entry| entry.manager.as_ref() == Some(&manager)) => Vec::new(),
            _ => return Ok(applied),
        };
        let mut wanted = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"ownerReferences": owners},
        });
        if !differs(&wanted, &encode(live)?, &manager) {
            return Ok(applied);
        }
        if apply.dry_run {
            let mut trial = live.clone();
            trial.owner_references_mut().retain(|known| known.uid != uid);
            trial.owner_references_mut().extend(owners);
            return Ok(Applied { object: Arc::new(trial), ..applied });
        }
        wanted["metadata"]["uid"] = live.uid().into();
        let params = PatchParams::apply(&manager).force();
        let written = kind::apply(self.api_of(live), (&live.name_any(), ""), &params, &wanted).await;
        let written = written.map_err(|source| failed(live, source))?;
        cache.wrote(written.clone());
        let change = if applied.change == Change::Created { Change::Created } else { Change::Updated };
        Ok(Applied { change, object: Arc::new(written) })
    }

    /// Sets the object's namespace and its reference to a controller.
    fn placed<K: Kind>(&self, mut apply: Apply<K>) -> Result<Apply<K>, WriteError> {
        let (kind, name, own) = (kind(&apply.object), apply.object.name_any(), self.namespace());
        let metadata = apply.object.meta_mut();
        if kind::is_namespaced::<K>() && metadata.namespace.is_none() {
            match own.is_empty() {
                true => return Err(WriteError::NoNamespace { kind, name }),
                false => metadata.namespace = Some(own.clone()),
            }
        }
        metadata.managed_fields = None;
        let owner = match apply.ownership {
            Ownership::Controller => self.resource.controller_owner_ref(&()),
            Ownership::Owner => None,
            Ownership::None => return Ok(apply),
        };
        // An owner in another namespace does not count: the garbage collector would delete the object.
        if !own.is_empty() && metadata.namespace.as_ref() != Some(&own) {
            let place = metadata
                .namespace
                .as_ref()
                .map_or("is cluster-scoped".to_owned(), |n| format!("is in namespace {n:?}"));
            return Err(WriteError::Elsewhere { kind, name, place, owner: R::kind(&()).into_owned() });
        }
        // No cache would contain it: each reconcile would write it, and none would delete it.
        let watched = &self.context.config.namespaces;
        if let Some(namespace) = metadata.namespace.as_ref().filter(|namespace| !watched.covers(namespace)) {
            return Err(WriteError::NotWatched { kind, name, namespace: namespace.clone() });
        }
        metadata.owner_references = owner.map(|owner| vec![owner]);
        Ok(apply)
    }

    /// Returns whether the resource is the object's controller.
    pub(super) fn owns(&self, metadata: &ObjectMeta) -> bool {
        let uid = self.resource.meta().uid.as_deref();
        let mut owners = metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.controller == Some(true) && Some(&*owner.uid) == uid)
    }

    /// Returns whether an apply may write an object in this state.
    fn may_write<K>(&self, apply: &Apply<K>, live: &ObjectMeta) -> bool {
        match apply.ownership {
            Ownership::Controller => self.owns(live),
            Ownership::Owner => self.names().may_join(live),
            Ownership::None => true,
        }
    }

    /// Returns whether an apply moves fields of the object to the reconciler's present name.
    fn is_renamed<K>(&self, apply: &Apply<K>, live: &ObjectMeta) -> bool {
        !apply.dry_run && self.names().move_in(live)
    }

    /// Creates an object that the cache does not contain. It may exist nevertheless, because the cache may lag behind
    /// or select other labels.
    async fn create<K: Kind>(&self, apply: &Apply<K>, wanted: &Value) -> Result<Applied<K>, WriteError> {
        let object = &apply.object;
        let found = kind::metadata(self.api_of(object), &object.name_any()).await;
        match found.map_err(|source| failed(object, source))? {
            Some(found) if !self.may_write(apply, &found) => Err(foreign(object)),
            Some(_) if apply.create_only => {
                let found = kind::get(self.api_of(object), &object.name_any()).await;
                Ok(unchanged(Arc::new(found.map_err(|source| failed(object, source))?)))
            }
            Some(found) => self.write(apply, wanted, &found).await.map(updated),
            None => {
                let created = self.send(apply, wanted, &ObjectMeta::default()).await;
                let created = created.map_err(|source| failed(object, source))?;
                Ok(Applied { change: Change::Created, object: Arc::new(created) })
            }
        }
    }

    /// Applies the object in the state that was judged. If the resource must be its controller, an object that has
    /// changed since is read and judged again: it may have been handed over. If it changes faster than an apply takes,
    /// the last attempt names no version, because it would never be written otherwise.
    async fn write<K: Kind>(&self, apply: &Apply<K>, wanted: &Value, judged: &ObjectMeta) -> Result<K, WriteError> {
        let (object, mut judged) = (&apply.object, judged.clone());
        if !apply.dry_run {
            let renamed = self.rename::<K>(&judged, |now| self.may_write(apply, now)).await;
            judged = renamed.map_err(|source| failed(object, source))?.unwrap_or(judged);
        }
        for _ in 1..ATTEMPTS {
            let conflict = match self.send(apply, wanted, &judged).await {
                Err(error) if is_conflict(&error) && apply.ownership == Ownership::Controller => error,
                written => return written.map_err(|source| failed(object, source)),
            };
            let found = kind::metadata(self.api_of(object), &object.name_any()).await;
            judged = match found.map_err(|source| failed(object, source))? {
                Some(found) if has_changed(&judged, &found) => found,
                // Another manager has a field, or the object has gone.
                _ => return Err(failed(object, conflict)),
            };
            if !self.owns(&judged) {
                return Err(foreign(object));
            }
        }
        judged.resource_version = None;
        self.send(apply, wanted, &judged).await.map_err(|source| failed(object, source))
    }

    /// Applies the object once. The uid of the judged state prevents the apply from changing another object of that
    /// name, and its version, if given, from taking back an object that was handed over. Without a uid, the apply asks
    /// for resource version 1, which no object has: it creates the object, or conflicts with an existing one.
    async fn send<K: Kind>(&self, apply: &Apply<K>, wanted: &Value, judged: &ObjectMeta) -> kube::Result<K> {
        let (object, uid, mut wanted) = (&apply.object, judged.uid.as_deref(), wanted.clone());
        let version = match (uid, apply.ownership) {
            (None, _) => Some("1"),
            (Some(_), Ownership::Controller) => judged.resource_version.as_deref(),
            // Whoever owns the object, it may be written.
            (Some(_), Ownership::Owner | Ownership::None) => None,
        };
        for (field, value) in [("uid", uid), ("resourceVersion", version)] {
            value.into_iter().for_each(|value| wanted["metadata"][field] = value.into());
        }
        let force = uid.is_some() && apply.conflicts == Conflicts::TakeOver;
        let params = PatchParams { force, dry_run: apply.dry_run, ..PatchParams::apply(self.manager) };
        kind::apply(self.api_of(object), (&object.name_any(), ""), &params, &wanted).await
    }

    fn api_of<K: Kind>(&self, object: &K) -> Api<K> {
        self.api_in(object.meta().namespace.as_deref().unwrap_or_default())
    }

    /// Writes the status if it differs from the resource's, as last seen or written, and returns whether it did. Fields
    /// of the status that other managers set stay, and so do their conditions, which [`Conditions`](super::Conditions)
    /// may have copied. Conditions of several managers need `x-kubernetes-list-type: map`: without it, the list is one
    /// value, and who writes it writes all of them.
    ///
    /// There is no such method for other subresources. A `Scale` is in no list or watch, so there is nothing to compare
    /// it with before a write. Set the replicas of an owned object by [`apply`](Self::apply); for other objects,
    /// [`api`](Self::api) has kube's `patch_scale` and `patch_subresource`.
    ///
    /// # Errors
    /// Fails if the server rejects the status, or if its definition of the kind has no status subresource. A resource
    /// that no longer exists is not an error.
    pub async fn status(&self, status: &R::Status) -> Result<bool, WriteError>
    where
        R: HasStatus,
        R::Status: Serialize,
    {
        let wanted = serde_json::to_value(status).map_err(|e| WriteError::Encode("the status".into(), e))?;
        let mut newest = self.resources.newest(self.resource);
        if let Some(renamed) = self.rename::<R>(newest.meta(), |_| true).await.map_err(WriteError::Status)? {
            *Arc::make_mut(&mut newest).meta_mut() = renamed;
        }
        let (read, newest) = (encode(&**self.resource)?, encode(&*newest)?);
        let wanted = without_copies(wanted, &read, &newest, self.manager);
        // The uid prevents the apply from writing to a new resource with the name of a deleted one.
        let patch = json!({
            "apiVersion": R::api_version(&()), "kind": R::kind(&()),
            "metadata": {"uid": self.resource.uid()}, "status": wanted,
        });
        if !subresource_differs(&patch, &newest, self.manager, STATUS) {
            return Ok(false);
        }
        let (api, name, params) = (self.api::<R>(), self.resource.name_any(), PatchParams::apply(self.manager).force());
        match kind::apply(api.clone(), (&name, STATUS), &params, &patch).await {
            Ok(written) => {
                self.resources.wrote(written);
                Ok(true)
            }
            // Another resource may have its name, or none. Of the same one, the subresource may be missing, or a webhook
            // may refuse the status with a code that reads like a conflict.
            Err(error) if is_gone(&error) => match kind::metadata(api, &name).await.map_err(WriteError::Status)? {
                Some(live) if live.uid == self.resource.meta().uid => Err(match is_conflict(&error) {
                    true => WriteError::Status(error),
                    false => WriteError::NoStatus { kind: readiness::kind(&R::kind(&()), &R::api_version(&())) },
                }),
                _ => Ok(false),
            },
            Err(error) => Err(WriteError::Status(error)),
        }
    }

    /// Logs, counts and publishes an outcome for the resource's users, in the background. Call it once for each change,
    /// not for each reconcile.
    pub fn publish(&self, outcome: Outcome) {
        let object = reference(&**self.resource);
        log(self.context, &object, &outcome);
        let Context { metrics, events, controller, .. } = self.context;
        events::publish(metrics, events, controller, object, outcome);
    }
}

fn log(context: &Context, object: &ObjectReference, outcome: &Outcome) {
    let (namespace, name) = place(object);
    let (controller, reason, message) = (&*context.controller, outcome.reason, &outcome.message);
    match outcome.warning {
        true => tracing::error!(controller, namespace, name, reason, "{message}"),
        false => tracing::info!(controller, namespace, name, reason, "{message}"),
    }
}

fn place(object: &ObjectReference) -> (&str, &str) {
    (object.namespace.as_deref().unwrap_or_default(), object.name.as_deref().unwrap_or_default())
}

/// Returns the reference by which events name the object.
pub(super) fn reference<K: Kind>(object: &K) -> ObjectReference {
    object.object_ref(&())
}

fn kind<K: Kind>(_: &K) -> String {
    K::kind(&()).into_owned()
}

fn foreign<K: Kind>(object: &K) -> WriteError {
    WriteError::Foreign { kind: kind(object), name: object.name_any() }
}

fn failed<K: Kind>(object: &K, source: kube::Error) -> WriteError {
    WriteError::Write { kind: kind(object), name: object.name_any(), source }
}

/// Returns whether this is another state of the same object.
fn has_changed(judged: &ObjectMeta, found: &ObjectMeta) -> bool {
    found.uid == judged.uid && found.resource_version != judged.resource_version
}

/// Encodes the object as JSON, with its kind, which Rust types of custom resources do not encode.
fn encode<K: Kind>(object: &K) -> Result<Value, WriteError> {
    let mut encoded = serde_json::to_value(object).map_err(|e| WriteError::Encode(kind(object), e))?;
    encoded["apiVersion"] = K::api_version(&()).into();
    encoded["kind"] = K::kind(&()).into();
    Ok(encoded)
}

fn unchanged<K>(object: Arc<K>) -> Applied<K> {
    Applied { change: Change::Unchanged, object }
}

/// Returns what an apply did to a live object. The server may store it in another form than it was applied in.
fn update_of<K: Kind>(apply: &Apply<K>, live: &Arc<K>, object: K) -> Applied<K> {
    let (now, before) = (object.resource_version(), live.resource_version());
    let is_same = !apply.dry_run && now.is_some() && now == before;
    let change = if is_same { Change::Unchanged } else { Change::Updated };
    Applied { change, object: Arc::new(object) }
}

fn updated<K>(object: K) -> Applied<K> {
    Applied { change: Change::Updated, object: Arc::new(object) }
}

/// Returns whether the object was deleted, was changed, or has been replaced by another of its name.
pub(super) fn is_gone(error: &kube::Error) -> bool {
    is_conflict(error) || is_missing(error)
}

pub(super) fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

/// Returns whether the object was changed, or has been replaced by another of its name.
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}
