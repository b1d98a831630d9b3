//! A running reconciler: how it handles a key of its queue.

use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::select_all;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PatchParams;
use kube::{Resource as _, ResourceExt as _};
use outside::sync::lock;
use serde_json::json;
use tokio::time::Instant;

use super::cache::{Cache, CheckOwned};
use super::contract::{Next, Reconciler};
use super::decoded::Invalid;
use super::failing::SHORTEST;
use super::failure::Failure;
use super::kind::{self, Kind};
use super::scope::{Scope, is_conflict, is_gone};
use super::serve::Served;
use super::settings::Settings;
use super::store::Listed;
use crate::ResourceKey;
use crate::context::Context;
use crate::events::MAX_NOTE;
use crate::metrics::{Metrics, ReconcileResult};
use crate::report::{self, Outcome};
use crate::runtime::concurrency::Permit;
use crate::runtime::queue::Queue;
use crate::runtime::workers::Reconcile;
use crate::shards::{Shard, Standing};

/// How long to wait for the event of a change that a write met, before the write is tried again.
const SEEN: Duration = Duration::from_secs(1);

/// How often the removal of a finalizer is tried before its cleanup is repeated.
const RELEASES: u32 = 3;

pub(super) struct Serving<R: Reconciler> {
    context: Context,
    reconciler: R,
    /// The field manager of its writes.
    manager: String,
    caches: R::Caches,
    resources: Cache<R::Resource>,
    settings: Settings<R::Resource>,
    /// Whether the stores are complete that the reconciler reads.
    listed: Vec<Listed>,
    /// Whether a resource owns objects that the reconciler would not see.
    checks: Vec<CheckOwned>,
    /// The uid and the last failure of each failing resource, so that each is published once.
    published: Mutex<HashMap<ResourceKey, (Option<String>, String)>>,
}

impl<R: Reconciler> Serving<R> {
    pub(super) fn new(
        context: Context,
        served: Served<R>,
        caches: R::Caches,
        resources: Cache<R::Resource>,
        settings: Settings<R::Resource>,
    ) -> Serving<R> {
        let Served { name: manager, reconciler } = served;
        let (listed, checks, published) = (Vec::new(), Vec::new(), Mutex::default());
        Serving { context, reconciler, manager, caches, resources, settings, listed, checks, published }
    }

    /// Sets the stores without which nothing is done, and the checks of what a resource owns.
    pub(super) fn reading(self, listed: Vec<Listed>, checks: Vec<CheckOwned>) -> Serving<R> {
        Serving { listed, checks, ..self }
    }

    /// Queues every resource each time that something is listed again that a store lacked.
    pub(super) async fn follow_lists(&self) -> Infallible {
        let mut listed = self.listed.clone();
        loop {
            if listed.is_empty() {
                return pending().await;
            }
            _ = select_all(listed.iter_mut().map(|list| list.regained().boxed())).await;
            self.settings.known.all().into_iter().for_each(|key| self.settings.queue.push(key));
        }
    }

    /// Does the next step for the resource, within the reconciler's timeout.
    pub(super) async fn work(&self, context: &Context, resource: &Arc<R::Resource>) -> Result<Next, Failure<R::Error>> {
        match self.settings.timeout {
            None => self.step(context, resource).await,
            Some(longest) => {
                let step = tokio::time::timeout(longest, self.step(context, resource)).await;
                step.unwrap_or(Err(Failure::Timeout(longest)))
            }
        }
    }

    async fn step(&self, context: &Context, resource: &Arc<R::Resource>) -> Result<Next, Failure<R::Error>> {
        let scope = Scope::new(context, resource, &self.manager);
        let scope = scope.of(&self.resources).formerly(self.reconciler.former_names());
        if resource.meta().deletion_timestamp.is_none() {
            let missing = missing(self.reconciler.finalizers(), resource.meta());
            return match &missing[..] {
                [] => {
                    self.check_owned(resource)?;
                    self.reconciler.reconcile(&scope, &self.caches).await.map_err(Failure::Reconciler)
                }
                _ => {
                    let all = resource.finalizers().iter().map(|name| &**name).chain(missing.iter().copied());
                    self.set_finalizers(context, resource, all.collect()).await
                }
            };
        }
        let Some(finalizer) = due_finalizer(&self.reconciler, resource) else { return Ok(Next::Wait) };
        if !self.is_confirmed(resource).await? {
            return Ok(Next::Wait);
        }
        self.check_owned(resource)?;
        match self.reconciler.cleanup(finalizer, &scope, &self.caches).await.map_err(Failure::Reconciler)? {
            Next::Wait => self.release(context, resource, finalizer).await,
            later => Ok(later),
        }
    }

    /// Checks that the caches have every object that the resource owns.
    fn check_owned(&self, resource: &R::Resource) -> Result<(), Failure<R::Error>> {
        undecodable_of(&self.checks, resource).map_or(Ok(()), |what| Err(Failure::OwnedUndecodable(what)))
    }

    /// Removes a finalizer whose cleanup is done. The cleanup itself and others may have written the resource since it
    /// began; only a new spec repeats the cleanup. After a conflict, the resource is read. A response that still has the
    /// finalizer is a failure: if nothing changed, no event follows.
    async fn release(
        &self,
        context: &Context,
        cleaned: &Arc<R::Resource>,
        finalizer: &str,
    ) -> Result<Next, Failure<R::Error>> {
        let newest = self.resources.store().newest(cleaned);
        for attempt in 0..RELEASES {
            let now = if attempt == 0 { Some(newest.meta().clone()) } else { self.read(cleaned).await? };
            let Some(now) = now.filter(|now| self.is_kept_by(finalizer, now)) else { return Ok(Next::Wait) };
            if !is_same_work(cleaned.meta(), &now) {
                break;
            }
            let others = now.finalizers.iter().flatten().map(|name| &**name).filter(|name| *name != finalizer);
            match self.write_finalizers(context, &now, others.collect()).await {
                Ok(stored) if self.is_kept_by(finalizer, &stored) => {
                    return Err(Failure::FinalizerKept(finalizer.to_owned()));
                }
                Ok(released) => {
                    // The event of an earlier change may come first, and must not repeat the cleanup. If others follow,
                    // they must see that change.
                    let own = self.reconciler.finalizers();
                    let is_last = missing(own, &released).len() == own.len();
                    if is_last || now.resource_version == newest.meta().resource_version {
                        self.resources.wrote(with_metadata(&*newest, released));
                    }
                    return Ok(Next::Wait);
                }
                Err(error) if is_conflict(&error) => {}
                Err(error) if is_gone(&error) => return Ok(Next::Wait),
                Err(error) => return Err(Failure::Finalizer(error)),
            }
        }
        Ok(Next::After(SEEN))
    }

    /// Returns whether a resource is being deleted, is this shard's, and has the finalizer.
    fn is_kept_by(&self, finalizer: &str, resource: &ObjectMeta) -> bool {
        resource.deletion_timestamp.is_some()
            && self.settings.standing(resource) == Standing::Ours
            && resource.finalizers.iter().flatten().any(|name| name == finalizer)
    }

    /// Writes the finalizers; the event of that change continues the work. If the resource changed in the meantime, the
    /// work continues without an event, because the event of an irrelevant change queues nothing. A response without
    /// the finalizers is a failure: if nothing changed, no event follows.
    async fn set_finalizers(
        &self,
        context: &Context,
        resource: &R::Resource,
        finalizers: Vec<&str>,
    ) -> Result<Next, Failure<R::Error>> {
        match self.write_finalizers(context, resource.meta(), finalizers).await {
            Ok(stored) => match missing(self.reconciler.finalizers(), &stored).first() {
                None => Ok(Next::Wait),
                Some(dropped) => Err(Failure::FinalizerDropped((*dropped).to_owned())),
            },
            Err(error) if is_conflict(&error) => Ok(Next::After(SEEN)),
            Err(error) if is_gone(&error) => Ok(Next::Wait),
            Err(error) => Err(Failure::Finalizer(error)),
        }
    }

    /// Writes the finalizers of a resource in the version that was seen. Returns its new metadata.
    async fn write_finalizers(
        &self,
        context: &Context,
        seen: &ObjectMeta,
        finalizers: Vec<&str>,
    ) -> Result<ObjectMeta, kube::Error> {
        let namespace = seen.namespace.as_deref().unwrap_or_default();
        let resources = kind::api::<R::Resource>(context.client.clone(), namespace);
        let (uid, version) = (&seen.uid, &seen.resource_version);
        let patch = json!({"metadata": {"uid": uid, "resourceVersion": version, "finalizers": finalizers}});
        let params = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        let name = seen.name.as_deref().unwrap_or_default();
        kind::merge(resources, name, &params, &patch).await
    }

    /// Gives a resource up to another shard, once no write for it is in flight. The sharder assigns it as soon as the
    /// labels are gone, so this is the last write. A response with the labels is a failure: if nothing changed, no event
    /// follows.
    pub(super) async fn give_up(&self, shard: &Shard, key: &ResourceKey, resource: &ObjectMeta) -> ReconcileResult {
        let resources = kind::api::<R::Resource>(self.context.client.clone(), &key.namespace);
        let Some(ring) = shard.ring() else { return ReconcileResult::Success };
        let patch = ring.acknowledgement(
            resource.uid.as_deref().unwrap_or_default(),
            resource.resource_version.as_deref().unwrap_or_default(),
        );
        let params = PatchParams { field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        let acknowledged = match shard.settled(key).await {
            true => kind::merge(resources, &key.name, &params, &patch).await.map(Some),
            false => Ok(None),
        };
        match acknowledged {
            Ok(Some(stored)) if shard.standing(&stored) == Standing::Drained => {
                return self.failed(key, self.reference(key), &Failure::DrainUndone);
            }
            Ok(Some(_)) => {
                tracing::info!(resource = %key, "The resource goes to another shard");
                shard.follow(key, Standing::Others);
                self.forget(key);
                return ReconcileResult::Success;
            }
            Err(error) if is_conflict(&error) => {
                tracing::debug!(resource = %key, "The resource changed before it went to another shard");
            }
            Err(error) if is_gone(&error) => {
                self.forget(key);
                return ReconcileResult::Success;
            }
            Err(error) => return self.failed(key, self.reference(key), &Failure::Drain(error)),
            Ok(None) => tracing::info!(resource = %key, "Waiting for a write in flight"),
        }
        self.settings.queue.push_after(key.clone(), SEEN);
        ReconcileResult::RequeueAfter
    }

    /// Returns whether a deleted resource is being deleted and still this shard's, by a fresh read. A process that
    /// serves everything knows by its watch.
    async fn is_confirmed(&self, resource: &R::Resource) -> Result<bool, Failure<R::Error>> {
        let Some(shard) = &self.settings.shard else { return Ok(true) };
        let now = self.read(resource).await?;
        Ok(now.is_some_and(|now| now.deletion_timestamp.is_some() && shard.standing(&now) == Standing::Ours))
    }

    /// Reads a resource's metadata afresh. Returns `None` if it is gone, even if another has its name.
    async fn read(&self, resource: &R::Resource) -> Result<Option<ObjectMeta>, Failure<R::Error>> {
        let namespace = resource.namespace().unwrap_or_default();
        let resources = kind::api::<R::Resource>(self.context.client.clone(), &namespace);
        let now = kind::metadata(resources, &resource.name_any()).await.map_err(Failure::Finalizer)?;
        Ok(now.filter(|now| now.uid == resource.meta().uid))
    }

    /// Returns whether the reconciler has work for the resource. A deleted resource is cleaned up even if the filters
    /// reject it now, because its finalizer would keep it forever.
    fn serves(&self, resource: &R::Resource) -> bool {
        let waits_for_cleanup = || due_finalizer(&self.reconciler, resource).is_some();
        (resource.meta().deletion_timestamp.is_some() && waits_for_cleanup()) || self.settings.serves(resource)
    }

    /// Logs, counts and publishes a failure, each message once, and schedules the next attempt.
    fn failed(&self, key: &ResourceKey, object: ObjectReference, failure: &Failure<R::Error>) -> ReconcileResult {
        let (reason, message) = (failure.reason(), failure.message());
        let controller = &self.context.controller;
        self.context.metrics.outcome(controller, reason);
        match failure.is_terminal() {
            true => {
                // First, because a change of the status may set the timer as soon as the failure counts.
                self.settings.queue.cancel(key);
                if let Some(pause) = self.settings.failing.failed_terminally(key) {
                    self.settings.queue.push_after(key.clone(), pause);
                }
                tracing::error!(%controller, resource = %key, reason, error = message, "Reconciler error; waiting for a change");
            }
            false => {
                let wait = self.settings.failing.failed(key).min(failure.longest_wait());
                self.settings.queue.push_after(key.clone(), wait);
                tracing::error!(%controller, resource = %key, reason, retry_in = ?wait, error = message, "Reconciler error");
            }
        }
        let now = (object.uid.clone(), message.clone());
        let last = lock(&self.published).insert(key.clone(), now.clone());
        if last != Some(now) {
            let outcome = Outcome::warning(reason, "Reconcile", report::shorten(&message, MAX_NOTE));
            self.context.events.publish(object, outcome);
        }
        ReconcileResult::Error
    }

    /// Forgets a resource's failures, and queues it if a change waited for the next attempt.
    fn stop_retrying(&self, key: &ResourceKey) {
        if self.settings.failing.end(key) {
            self.settings.queue.push(key.clone());
        }
    }

    fn succeeded(&self, key: &ResourceKey) {
        self.stop_retrying(key);
        lock(&self.published).remove(key);
    }

    /// Forgets a resource that this process does not serve any more.
    fn forget(&self, key: &ResourceKey) {
        self.settings.failing.end(key);
        lock(&self.published).remove(key);
        self.settings.queue.forget(key);
    }

    fn is_gone(&self, key: &ResourceKey) -> ReconcileResult {
        self.forget(key);
        if self.settings.known.remove(key, || self.exists(key)) {
            let kind = R::Resource::kind(&());
            tracing::info!(resource = %key, "{kind} resource not found. Ignoring since object must be deleted");
        }
        ReconcileResult::Success
    }

    /// Ends the right to write for a resource that is gone or another shard's by now. Its event may have come before
    /// that right began, and no other follows.
    pub(super) fn follow_present(&self, shard: &Shard, key: &ResourceKey) {
        let seen = self.resources.get(key).map(|resource| resource.meta().clone());
        let now = seen.or_else(|| Some(self.resources.invalid(key)?.metadata));
        shard.follow(key, now.map_or(Standing::Others, |now| shard.standing(&now)));
    }

    fn exists(&self, key: &ResourceKey) -> bool {
        self.resources.get(key).is_some() || self.resources.invalid(key).is_some()
    }

    /// Returns the reference by which events name the resource, even if it was deleted or cannot be decoded.
    fn reference(&self, key: &ResourceKey) -> ObjectReference {
        let metadata = match (self.resources.get(key), self.resources.invalid(key)) {
            (Some(resource), _) => resource.meta().clone(),
            (None, Some(invalid)) => invalid.metadata,
            (None, None) => Default::default(),
        };
        ObjectReference {
            api_version: Some(R::Resource::api_version(&()).into_owned()),
            kind: Some(R::Resource::kind(&()).into_owned()),
            name: Some(key.name.to_string()),
            // Without one, an event goes to the namespace `default`, to other readers.
            namespace: Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            field_path: None,
        }
    }
}

/// Returns which object of the resource does not decode, and why.
pub(super) fn undecodable_of(checks: &[CheckOwned], resource: &impl Kind) -> Option<String> {
    let (uid, key) = (resource.meta().uid.as_deref()?, ResourceKey::of(resource));
    checks.iter().find_map(|check| check(uid, &key))
}

/// Returns the first of the reconciler's finalizers that the resource has: the next one to clean up for.
pub(super) fn due_finalizer<'r, R: Reconciler>(reconciler: &'r R, resource: &R::Resource) -> Option<&'r str> {
    reconciler.finalizers().iter().copied().find(|name| has_finalizer(resource, name))
}

/// Returns which of these finalizers a resource lacks.
fn missing<'f>(finalizers: &[&'f str], resource: &ObjectMeta) -> Vec<&'f str> {
    let has = |name: &str| resource.finalizers.iter().flatten().any(|known| known == name);
    finalizers.iter().copied().filter(|name| !has(name)).collect()
}

/// Returns whether a cleanup for one state of a resource also counts for another. Without a generation, any part of them
/// may differ.
fn is_same_work(cleaned: &ObjectMeta, now: &ObjectMeta) -> bool {
    now.resource_version == cleaned.resource_version || now.generation.is_some() && now.generation == cleaned.generation
}

fn with_metadata<K: kube::Resource + Clone>(object: &K, metadata: ObjectMeta) -> K {
    let mut object = object.clone();
    *object.meta_mut() = metadata;
    object
}

fn has_finalizer<K: kube::Resource>(resource: &K, name: &str) -> bool {
    resource.finalizers().iter().any(|finalizer| finalizer == name)
}

impl<R: Reconciler> Reconcile for Serving<R> {
    fn queue(&self) -> &Queue<ResourceKey> {
        &self.settings.queue
    }

    fn metrics(&self) -> &Metrics {
        &self.context.metrics
    }

    fn controller(&self) -> &Arc<str> {
        &self.context.controller
    }

    fn kind(&self) -> Cow<'_, str> {
        R::Resource::kind(&())
    }

    async fn informed(&self) {
        self.context.contact.resumed().await;
    }

    async fn reconcile(&self, key: &ResourceKey, _permit: &Permit) -> ReconcileResult {
        self.settings.failing.begin(key);
        if let Some(invalid) = self.resources.invalid(key) {
            return self.attend_invalid(key, invalid).await;
        }
        let Some(resource) = self.resources.newest(key) else { return self.is_gone(key) };
        let Some(shard) = &self.settings.shard else { return self.attend(&self.context, key, &resource).await };
        if self.settings.standing(resource.meta()) == Standing::Drained {
            return self.give_up(shard, key, resource.meta()).await;
        }
        let holding = shard.begin(key);
        let client = shard.client(key, self.context.client.clone());
        let context = self.context.writing_with(client);
        match self.resources.newest(key) {
            // If it has been moved to another shard in the meantime, that event has queued it again.
            Some(resource) if self.settings.standing(resource.meta()) == Standing::Ours => {
                let attended = self.attend(&context, key, &resource).await;
                if holding.is_leaving() { ReconcileResult::Success } else { attended }
            }
            _ => {
                self.follow_present(shard, key);
                ReconcileResult::Success
            }
        }
    }

    async fn panicked(&self, key: &ResourceKey) -> ReconcileResult {
        self.failed(key, self.reference(key), &Failure::Panicked)
    }
}

impl<R: Reconciler> Serving<R> {
    /// Reconciles a resource, and schedules what follows. Once all watches were interrupted, its writes fail, because they
    /// may rest on objects of a server that has been restored since.
    async fn attend(&self, context: &Context, key: &ResourceKey, resource: &Arc<R::Resource>) -> ReconcileResult {
        if !self.serves(resource) {
            self.stop_retrying(key);
            return ReconcileResult::Success;
        }
        if let Some(what) = self.listed.iter().find_map(|list| list.lacks(&key.namespace)) {
            return self.failed(key, self.reference(key), &Failure::WatchRefused(what));
        }
        let (context, began) = (context.as_of_now(), Instant::now());
        match self.work(&context, resource).await {
            Ok(Next::Wait) => {
                self.succeeded(key);
                self.settings.queue.cancel(key);
                ReconcileResult::Success
            }
            Ok(Next::After(time)) => {
                self.succeeded(key);
                self.settings.queue.push_after(key.clone(), time.max(SHORTEST));
                ReconcileResult::RequeueAfter
            }
            // A write that was not sent is not a failure: another shard continues.
            Err(_) if self.is_leaving(key) => ReconcileResult::Success,
            // It failed because watches were interrupted, or may have.
            Err(_) if self.context.contact.was_lost_since(began) => {
                self.settings.queue.push_after(key.clone(), SHORTEST);
                ReconcileResult::RequeueAfter
            }
            Err(failure) => self.failed(key, self.reference(key), &failure),
        }
    }

    /// Reports a resource that cannot be decoded, or gives it up to another shard: its labels can be read.
    async fn attend_invalid(&self, key: &ResourceKey, invalid: Invalid) -> ReconcileResult {
        match (&self.settings.shard, self.settings.standing(&invalid.metadata)) {
            (Some(shard), Standing::Drained) => self.give_up(shard, key, &invalid.metadata).await,
            (Some(_), Standing::Others) => ReconcileResult::Success,
            _ => self.failed(key, self.reference(key), &Failure::Undecodable(invalid.cause)),
        }
    }

    fn is_leaving(&self, key: &ResourceKey) -> bool {
        self.settings.shard.as_ref().is_some_and(|shard| shard.holding(key).is_leaving())
    }
}
