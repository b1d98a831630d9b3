//! Watches backups, their Deployments and pods, each reduced to the needed parts before it is cached.

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use helm_operator::backoff::Backoff;
use helm_operator::context::Context;
use helm_operator::native;
use helm_operator::report::chain;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Config, Controller, WatchStreamExt as _, controller, watcher as watch};
use kube::{Api, Resource as _, ResourceExt as _};

use super::{Error, Shared, objects, reconcile, retry};
use crate::api::memcached_backup::MemcachedBackup;

/// Reconciles the objects of these APIs until the context shuts down; then lets running reconciles finish.
pub(super) async fn serve(
    context: Context,
    backups: Api<MemcachedBackup>,
    deployments: Api<Deployment>,
    pods: Api<PartialObjectMeta<Pod>>,
) -> Result<(), native::Error> {
    let (backup_store, backup_writer) = reflector::store();
    let (deployment_store, deployment_writer) = reflector::store();
    let (pod_store, pod_writer) = reflector::store();
    let ours = || watcher::Config::default().labels(objects::SELECTOR);

    let counted = context.clone();
    let backups =
        backup_events(watch(backups, watcher::Config::default()), counted).reflect(backup_writer).applied_objects();
    let deployments = watch(deployments, ours()).default_backoff().modify(objects::strip).reflect(deployment_writer);
    let pods = watch(pods, ours()).default_backoff().modify(|pod| objects::strip_metadata(&mut pod.metadata));
    let pods = pods.reflect(pod_writer).touched_objects();

    let concurrency = u16::try_from(context.config.max_concurrent_reconciles).unwrap_or(u16::MAX);
    let shutdown = context.shutdown.clone().cancelled_owned();
    let shared = Shared { context, deployments: deployment_store, pods: pod_store, backoff: Backoff::default() };
    let unlisted = stopped_before_the_first_list(backup_store.clone(), shared.context.clone());
    let controller = Controller::for_stream(backups, backup_store)
        .owns_stream(deployments.touched_objects())
        .watches_stream(pods, |pod| owner(&pod))
        .with_config(Config::default().concurrency(concurrency))
        .graceful_shutdown_on(shutdown)
        .run(reconcile, retry, Arc::new(shared))
        .for_each(|result| {
            log(result);
            ready(())
        });
    select(pin!(controller), pin!(unlisted)).await;
    Ok(())
}

/// Completes if the shutdown comes before the first backup. Nothing runs by then, but kube's controller would wait for its first list, which
/// never completes if the kind is not served.
async fn stopped_before_the_first_list(backups: Store<MemcachedBackup>, context: Context) {
    let listed = backups.wait_until_ready();
    match select(pin!(listed), pin!(context.shutdown.cancelled())).await {
        Either::Left(_) => pending().await,
        Either::Right(_) => {}
    }
}

/// The backups' event stream; also records existing backups in the metrics.
fn backup_events(
    events: impl Stream<Item = watcher::Result<Event<MemcachedBackup>>> + Send + 'static,
    context: Context,
) -> impl Stream<Item = watcher::Result<Event<MemcachedBackup>>> + Send + 'static {
    let gvk = GroupVersionKind::gvk(
        &MemcachedBackup::group(&()),
        &MemcachedBackup::version(&()),
        &MemcachedBackup::kind(&()),
    );
    let events = events.default_backoff().modify(|backup| objects::strip_metadata(&mut backup.metadata));
    events.inspect_ok(move |event| {
        let place = |backup: &MemcachedBackup| (backup.namespace().unwrap_or_default(), backup.name_any());
        match event {
            Event::Apply(backup) | Event::InitApply(backup) => {
                let (namespace, name) = place(backup);
                let created = backup.creation_timestamp().map_or(0.0, |time| time.0.as_second() as f64);
                context.metrics.resource_created(&gvk, &namespace, &name, created);
            }
            Event::Delete(backup) => {
                let (namespace, name) = place(backup);
                context.metrics.resource_deleted(&gvk, &namespace, &name);
            }
            Event::Init | Event::InitDone => {}
        }
    })
}

/// Returns the backup that a pod's labels name; the pod's owner is a ReplicaSet.
fn owner(pod: &PartialObjectMeta<Pod>) -> Option<ObjectRef<MemcachedBackup>> {
    let name = objects::backup_of(&pod.metadata)?;
    Some(ObjectRef::new(name).within(pod.metadata.namespace.as_deref()?))
}

type Reconciled = (ObjectRef<MemcachedBackup>, controller::Action);

/// Logs watch errors. Failed reconciles have been reported already, and a resource that vanished is not an error.
fn log(result: Result<Reconciled, controller::Error<Error, watcher::Error>>) {
    match result {
        Ok(_) | Err(controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_)) => {}
        Err(error) => tracing::warn!(error = chain(&error), "Watch failed, trying again"),
    }
}
