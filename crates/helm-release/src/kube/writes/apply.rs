//! Applies objects as the field manager `helm-operator`, but never over an object that belongs to someone else.

use std::sync::Arc;

use futures::future::join_all;
use helm::sequence::Turn;
use outside::{ActingAs, Api, Error};
use serde_json::Value;

use super::autoscaler::has_replicas;
use crate::kube::kinds::mapping::Mapper;
use crate::kube::kinds::resource::Resource;
use crate::kube::live_state::live::Live;
use crate::kube::live_state::ownership::Rule;
use crate::kube::objects::decorate::{Decoration, is_kept};
use crate::kube::objects::object::{Object, ObjectDigest, ObjectKey};
use crate::kube::objects::pointer::Pointer;
use crate::kube::objects::rules::DriftPolicy;
use crate::kube::writes::check::{Conflict, Part, describe_all};
use crate::kube::writes::client_side::Schemas;
use crate::kube::writes::failures::Failures;
use crate::kube::writes::found::Found;
use crate::kube::writes::limit::WriteLimit;
use crate::kube::writes::reach::{OutOfReach, describe_all as describe_unreached};
use crate::kube::writes::recreate::{DeletionError, Guard, Stuck};
use crate::kube::writes::write::{ApplyMethod, Body, Policy, Previous, WriteOptions, Written};

/// Maximum number of tries to write or delete an object that keeps changing between check and request.
pub(in crate::kube::writes) const MAX_TRIES: usize = 5;

/// An object to apply, and the known state of the live one.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    /// The chart's object.
    pub object: &'a Object,
    /// Which existing object may be changed.
    pub rule: Rule,
    /// The known state of the live object.
    pub observed: Found,
    /// How the object was written before.
    pub previous: Previous,
    /// Whether the object differs from the one that was applied last, or may differ without a trace in the records.
    pub changed: bool,
    /// The fields that are set on creation and left to other managers afterwards.
    pub handed_over: Vec<Pointer>,
    /// Whether it was applied in this form and the server deletes it once it finished. Then it is not recreated if it
    /// is missing.
    pub expires: bool,
    /// Whether it did not exist before the first write, and no deployed revision has it. Somebody may make it until this
    /// write; the record must say so before the release takes it over.
    pub is_new: bool,
}

/// An applied object.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The object's key.
    pub key: ObjectKey,
    /// The `apiVersion` in which it was applied.
    pub api_version: Arc<str>,
    /// The digest of the chart's object: [`Object::digest`].
    pub digest: ObjectDigest,
    /// Whether it outlives its release.
    pub kept: bool,
    /// Whether the server deletes it once it finished.
    pub expires: bool,
    /// The drift policy in its annotation.
    pub drift: Option<DriftPolicy>,
    /// The live object after the write.
    pub live: Live,
    /// How it was written.
    pub method: ApplyMethod,
    /// Whether the write changed it: an apply or a three-way merge may find nothing to change.
    pub changed: bool,
    /// When it is applied, if the release has an order.
    pub turn: Turn,
}

impl Applied {
    /// Describes an object after a write.
    ///
    /// A Job that is being deleted may not have finished. It counts as one that expires only if it was applied in this
    /// form before.
    pub(in crate::kube) fn of(target: &Target<'_>, body: Body, written: Written, decoration: &Decoration) -> Applied {
        let Written { live, method, changed } = written;
        let object = target.object;
        let digest = object.digest(&decoration.namespace);
        let api_version = body.resource.api_version.clone();
        let drift = object.drift_policy().unwrap_or_default();
        let has_ttl = object.expires() || live.expires(object.group(), &object.kind);
        let (kept, expires) = (is_kept(object), has_ttl && (target.expires || !live.deleting));
        let turn = object.turn;
        Applied { key: body.key, api_version, digest, kept, expires, drift, live, method, changed, turn }
    }
}

/// Why an object was not applied or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Existing objects do not belong to the release. Nothing was written.
    #[error("{}", describe_all(.0))]
    Foreign(Vec<Conflict>),
    /// An object that a watch showed to be the release's belongs to someone else, which the watch has yet to show. It was
    /// not written, but others may have been. Once the watch has caught up, the next attempt finds it before its first
    /// write, as [`ApplyError::Foreign`].
    #[error("{}", describe_all(std::slice::from_ref(.0)))]
    Taken(Conflict),
    /// Somebody has made this object since the record of the action was written. It was not written, but others may have
    /// been. The next attempt notes that it was there before, so that no clean-up deletes it, and takes it over.
    #[error("{0} was made by somebody else since this action began; the next attempt takes it over")]
    Appeared(ObjectKey),
    /// The release may not contain these objects. Nothing was written.
    #[error("{}", describe_unreached(.0))]
    OutOfReach(Vec<OutOfReach>),
    /// Replacing a custom resource definition would lose objects, or another release owns it. It was not written.
    #[error("cannot replace {object}: {why}")]
    Definition {
        /// Kind and name.
        object: String,
        /// The data that would be lost.
        why: String,
    },
    /// The server rejects changes of immutable fields, and the object may not be deleted and recreated. It was not
    /// written.
    #[error("cannot apply {object}, and cannot recreate it, because {guard}")]
    Guarded {
        /// Kind and name.
        object: String,
        /// The reason, and the remedy.
        guard: Box<Guard>,
        /// The server's error about the fields.
        #[source]
        source: Error,
    },
    /// The object is being recreated, and its deletion is not complete. Applying again continues to wait.
    #[error("cannot recreate {object}: after {seconds} s it is still being deleted{}", held_by(.finalizers))]
    StillDeleting {
        /// Kind and name.
        object: String,
        /// How long the action waited, in seconds.
        seconds: u64,
        /// The finalizers that hold the object.
        finalizers: Vec<String>,
    },
    /// An object of the chart's `crds` folder is being deleted, with everything that goes with it. It was not written: it
    /// would be gone a moment later. Once it is gone, the next attempt creates it.
    #[error(
        "cannot apply {object}: it is being deleted; the next attempt after that creates it; if it stays, look for what its finalizers wait for, such as objects of its kind that have finalizers themselves, and if only this chart brings what removes those, set `crds: skip` in watches.yaml until it is gone{}",
        held_by(.finalizers)
    )]
    BeingDeleted {
        /// Kind and name.
        object: String,
        /// The finalizers that hold the object.
        finalizers: Vec<String>,
    },
    /// Objects must be recreated, but that could not be recorded. They were not deleted.
    #[error("cannot record that {objects} will be deleted and created anew")]
    Unrecorded {
        /// Their keys.
        objects: String,
        /// The cause.
        #[source]
        source: DeletionError,
    },
    /// The request failed.
    #[error("cannot {verb} {object}")]
    Failed {
        /// `apply`, `delete`, `read`, `find` or `list`.
        verb: &'static str,
        /// Kind and name.
        object: String,
        /// The cause.
        #[source]
        source: Error,
    },
}

impl ApplyError {
    /// Returns whether the failure concerns only this object, because contact with the server is not lost.
    pub(crate) fn concerns_one_object(&self) -> bool {
        let ApplyError::Failed { source, .. } = self else { return true };
        !matches!(source, Error::Transport(_) | Error::TimedOut { .. } | Error::Outdated | Error::Moved)
    }
}

/// Applies, deletes and reads the objects of releases, and runs their hooks, on behalf of [`crate::action`]. Cheap to
/// clone; clones share discovery and OpenAPI caches.
///
/// # Flow of an apply
/// 1. Discovery maps the object's kind to a resource. A kind that is unknown triggers one new discovery.
/// 2. The live object is checked by its own metadata, from the caller's cache or read.
/// 3. A new object is created by server-side apply with a resource version that no object has, so that an existing one
///    is never overwritten. An existing one is applied with its uid, after moving fields of the release's earlier
///    managers to ours, and with the resource version that is known: a watch may be late. If that conflicts, the object
///    is read, and one that is still the release's is applied in any state, because its controller writes its status.
/// 4. Fields that are handed over to other managers are created with the chart's value, and then released; see
///    [`Pointer`].
/// 5. If the server permanently rejects the apply and the [`Policy`] allows it, the object is created or merged
///    client-side, as Helm does.
/// 6. If it rejects only immutable fields, an object that may be recreated is deleted, and created once its deletion is
///    complete.
///
/// # Guarantees
/// Applying twice changes nothing. An object that changes hands between reading and writing is never overwritten: the
/// write conflicts, and the object is checked again, up to 5 times. Other requests are not retried; the caller decides
/// by [`Error::is_transient`].
///
/// A cancelled call may or may not have written the object; applying again completes it.
#[derive(Clone)]
pub struct Applier {
    pub(in crate::kube) api: Arc<dyn Api>,
    pub(in crate::kube) schemas: Arc<Schemas>,
    /// Maps kinds to the resources that serve them.
    pub mapper: Arc<Mapper>,
}

impl Applier {
    /// Creates an applier for the server behind `api`. Sends no request yet.
    pub fn new(api: Arc<dyn Api>) -> Applier {
        Applier { mapper: Arc::new(Mapper::new(api.clone())), schemas: Arc::new(Schemas::new(api.clone())), api }
    }

    /// Returns an applier that sends every request as this user, such as `system:serviceaccount:NAMESPACE:NAME`.
    /// Discovery and OpenAPI stay shared: they are the same for every user.
    #[must_use]
    pub fn acting_as(&self, user: &str) -> Applier {
        let api = Arc::new(ActingAs { api: self.api.clone(), user: user.into() });
        Applier { api, ..self.clone() }
    }

    /// Returns an applier that sends requests through another connection to the same server. Discovery and OpenAPI stay
    /// shared.
    #[must_use]
    pub fn through(&self, api: Arc<dyn Api>) -> Applier {
        Applier { api, ..self.clone() }
    }

    /// Returns an applier that sends requests through another connection, on which other kinds may be served: its
    /// discovery starts with what is known and is not shared.
    #[must_use]
    pub fn with_own_discovery(&self, api: Arc<dyn Api>) -> Applier {
        Applier { mapper: Arc::new(self.mapper.through(api.clone())), api, ..self.clone() }
    }

    /// Returns the server.
    pub fn api(&self) -> &Arc<dyn Api> {
        &self.api
    }

    /// Returns the object's key in this release.
    ///
    /// # Errors
    /// The kind is not served, or discovery fails.
    pub(crate) async fn key(&self, object: &Object, decoration: &Decoration) -> Result<ObjectKey, ApplyError> {
        let resource = self.resource(object).await?;
        Ok(key_of(object, decoration, &resource))
    }

    /// Returns the key of an object that was applied before; `None` if its kind is no longer served in any version, so
    /// the object cannot exist.
    ///
    /// # Errors
    /// Discovery fails.
    pub(crate) async fn recorded_key(
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

    /// Applies objects in install order: one kind after the other, up to 16 objects of one kind concurrently. Adds each to
    /// `applied`, even if others fail, except a Job that has finished and that the server has already deleted.
    ///
    /// # Errors
    /// The failure after which the options do not continue, or else the first one, as for [`Applier::apply`]. Objects of
    /// earlier kinds and of the same kind may be applied, and those of later kinds if the options continue after every
    /// failure.
    pub(crate) async fn apply_each(
        &self,
        targets: &[Target<'_>],
        options: &WriteOptions<'_>,
        applied: &mut Vec<Applied>,
    ) -> Result<(), ApplyError> {
        let objects = targets.iter().map(|target| target.object);
        let definitions: Vec<&Object> = objects.filter(|o| o.kind == "CustomResourceDefinition").collect();
        let options = &WriteOptions { definitions: &definitions, ..*options };
        let mut failures = Failures::default();
        for group in targets.chunk_by(|a, b| a.object.kind == b.object.kind) {
            let limit = WriteLimit::new();
            let tried = join_all(group.iter().map(|target| limit.within(self.try_apply(target, options)))).await;
            let mut stuck = Vec::new();
            for one in tried {
                match one {
                    Ok(Ok(one)) => applied.extend(one),
                    Ok(Err(one)) => stuck.push(one),
                    Err(error) => failures.add(error, options),
                }
            }
            self.recreate_each(stuck, options, applied, &mut failures).await;
            if failures.stops {
                break;
            }
        }
        failures.result()
    }

    /// Applies one object; returns it as stuck if the server rejects only immutable fields.
    async fn try_apply<'a>(
        &self,
        target: &'a Target<'a>,
        options: &WriteOptions<'_>,
    ) -> Result<Result<Option<Applied>, Stuck<'a>>, ApplyError> {
        match self.apply(target, options).await {
            Err(ApplyError::Failed { source, .. }) if source.is_immutable() => Ok(Err(Stuck { target, source })),
            applied => applied.map(Ok),
        }
    }

    /// Applies one object; returns `None` if it finished and was deleted. Repeating it changes nothing.
    ///
    /// `target.observed` may be outdated: the write carries the observed state as a precondition. If the precondition
    /// fails, the object is read and checked against the rule again.
    ///
    /// # Errors
    /// The object belongs to someone else, its kind is not served, or the server rejects it.
    pub(crate) async fn apply(
        &self,
        target: &Target<'_>,
        options: &WriteOptions<'_>,
    ) -> Result<Option<Applied>, ApplyError> {
        let (object, decoration) = (target.object, options.decoration);
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        let mut body = self.body(object, decoration).await?;
        body.handed_over.clone_from(&target.handed_over);
        let mut observed = target.observed.clone();
        if options.returns_to_apply(target.previous) && matches!(observed, Found::Ours { .. }) {
            observed = Found::Unknown;
        }
        let is_known = matches!(observed, Found::Ours { .. });
        let mut tries = 0;
        let written = loop {
            tries += 1;
            let part = if body.needs_whole(&observed) { Part::Whole } else { Part::Metadata };
            if part == Part::Metadata && !observed.must_be_read() {
                if observed.is_kept() {
                    body.tie_by_annotations(object, decoration);
                }
                match self.write(&body, &observed, target.previous, options).await {
                    Err(error) if tries < MAX_TRIES && fails_precondition(&error, &observed) => {}
                    Err(error) => return Err(failed(self.explain(object, error).await)),
                    Ok(written) => break written,
                }
            }
            let found = self.check_path(object, &body.path, &body.key, target.rule, decoration, part).await;
            observed = found.map_err(failed)?.map_err(|conflict| match target.observed {
                Found::Ours { .. } => ApplyError::Taken(conflict),
                _ => ApplyError::Foreign(vec![conflict]),
            })?;
            if target.expires && matches!(observed, Found::Absent) {
                return Ok(None);
            }
            if target.is_new && matches!(&observed, Found::Read(found) if found.made_by_others.is_some()) {
                return Err(ApplyError::Appeared(body.key));
            }
            self.leave_replicas(&mut body, &observed, decoration).await.map_err(failed)?;
            if is_known {
                observed = observed.seen_again();
            }
        };
        Ok(Some(Applied::of(target, body, written, decoration)))
    }

    /// Dry-runs a server-side apply. An unowned default that blocks it counts as rejected.
    ///
    /// # Errors
    /// As [`Applier::apply`].
    pub(crate) async fn dry_run(&self, object: &Object, decoration: &Decoration) -> Result<(), ApplyError> {
        let body = self.body(object, decoration).await?;
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        self.send_dry_run(&body).await.map(drop).map_err(failed)
    }

    /// Dry-runs a merge over the live object. An object that does not exist, or that is not written client-side, is
    /// accepted.
    ///
    /// # Errors
    /// As [`Applier::apply`].
    pub(crate) async fn dry_run_merge(&self, object: &Object, options: &WriteOptions<'_>) -> Result<(), ApplyError> {
        if options.policy == Policy::Server {
            return Ok(());
        }
        let body = self.body(object, options.decoration).await?;
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        self.send_merge_dry_run(&body, options).await.map_err(failed)
    }

    pub(in crate::kube) async fn body(&self, object: &Object, decoration: &Decoration) -> Result<Body, ApplyError> {
        let resource = self.resource(object).await?;
        let key = key_of(object, decoration, &resource);
        let path = resource.path(&key.namespace, &object.name);
        let path = path.map_err(|source| ApplyError::Failed { verb: "apply", object: describe(object), source })?;
        let json = decoration.decorate(object, &resource);
        let owner = decoration.owner.as_ref().map(|owner| owner.uid.clone()).unwrap_or_default();
        Ok(Body { resource, key, path, json, handed_over: Vec::new(), owner })
    }

    /// Hands the replicas over if an autoscaler outside the release sets them.
    async fn leave_replicas(&self, body: &mut Body, live: &Found, decoration: &Decoration) -> Result<(), Error> {
        let Found::Read(existing) = live else { return Ok(()) };
        if existing.whole.is_some()
            && has_replicas(&body.json)
            && !body.handed_over.contains(&Pointer::replicas())
            && self.is_autoscaled(&body.key, existing.managed_fields.json(), decoration).await?
        {
            body.handed_over.push(Pointer::replicas());
        }
        Ok(())
    }

    pub(in crate::kube) async fn resource(&self, object: &Object) -> Result<Arc<Resource>, ApplyError> {
        let found = self.mapper.resource(&object.api_version, &object.kind).await;
        found.map_err(|source| ApplyError::Failed { verb: "apply", object: describe(object), source })
    }

    /// Returns why a request for an object failed: if the server does not serve its path, the kind is no longer served.
    pub(in crate::kube) async fn explain(&self, object: &Object, error: Error) -> Error {
        if !error.is_unserved_path() || self.mapper.refresh().await.is_err() {
            return error;
        }
        match self.mapper.resource(&object.api_version, &object.kind).await {
            Err(gone @ Error::NoKind { .. }) => gone,
            _ => error,
        }
    }

    /// Creates an object of the chart's `crds` folder unchanged, unless it exists. Returns whether it was created.
    ///
    /// # Errors
    /// It exists, but is being deleted. The server rejects it or is unreachable.
    pub(crate) async fn apply_definition(&self, object: &Object) -> Result<bool, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "apply", object: describe(object), source };
        let resource = self.resource(object).await?;
        let path = resource.path(object.namespace.as_deref().unwrap_or_default(), &object.name).map_err(failed)?;
        let made = match self.create(&path, &object.body).await.map(|_| ()) {
            Err(refused) if refused.may_succeed_client_side() => {
                let made = self.post(&resource, "", &object.body).await.map(|_| ());
                made.map_err(|error| if error.is_conflict() { error } else { refused })
            }
            made => made,
        };
        match made {
            Err(error) if error.is_conflict() => self.check_stays(object, &path).await.map(|()| false),
            made => made.map(|()| true).map_err(failed),
        }
    }
}

pub(in crate::kube) fn key_of(object: &Object, decoration: &Decoration, resource: &Resource) -> ObjectKey {
    ObjectKey::new(resource.group(), &resource.kind, decoration.namespace_of(object, resource), &object.name)
}

fn held_by(finalizers: &[String]) -> String {
    if finalizers.is_empty() { String::new() } else { format!(" (finalizers: {})", finalizers.join(", ")) }
}

pub(in crate::kube) fn describe(object: &Object) -> String {
    format!("{} {:?}", object.kind, object.name)
}

pub(in crate::kube) fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Returns whether the server no longer has the object in the state in which it was observed. If that names a version, and
/// the object is gone, the answer is a 404.
fn fails_precondition(error: &Error, observed: &Found) -> bool {
    error.is_conflict() || (observed.owned().is_some() && error.is_missing_object())
}
