//! Serves `MemcachedBackup`: keeps a Deployment of its size, and lists the pods' names in its status.
//!
//! `decide` decides, this file acts. Writes only on change. Garbage collection deletes the Deployment with its owner, so there is no
//! finalizer.

mod decide;
mod objects;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, try_join_all};
use helm_operator::backoff::Backoff;
use helm_operator::context::Context;
use helm_operator::native;
use helm_operator::report::{self, Outcome, Reason, chain};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;

use crate::api::memcached_backup::{MemcachedBackup, MemcachedBackupStatus};
use decide::{Observed, Step, next_status, next_step};

/// The controller's name in logs, metrics and events.
const NAME: &str = "memcachedbackup-controller";
/// The field manager of this controller's writes.
const FIELD_MANAGER: &str = "memcached-operator";

/// Serves every `MemcachedBackup`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Controller;

impl native::Controller for Controller {
    fn name(&self) -> &str {
        NAME
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), native::Error>> {
        async move {
            context.metrics.controller(&context.controller, context.config.max_concurrent_reconciles);
            let apis = context.apis().into_iter().zip(context.apis()).zip(context.apis());
            // One set of caches per namespace, because a restarted watch replaces its whole cache.
            try_join_all(
                apis.map(|((backups, deployments), pods)| watch::serve(context.clone(), backups, deployments, pods)),
            )
            .await
            .map(drop)
        }
        .boxed()
    }
}

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read the caches: the watches ended")]
    Caches,
    #[error("cannot create deployment {0:?}")]
    Create(String, #[source] kube::Error),
    #[error("deployment {0:?} exists and belongs to something else")]
    Foreign(String),
    #[error("cannot scale deployment {0:?}")]
    Scale(String, #[source] kube::Error),
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
}

impl Reason for Error {
    fn reason(&self) -> &'static str {
        match self {
            Error::Caches => "WatchEnded",
            Error::Create(..) => "CreateFailed",
            Error::Foreign(_) => "DeploymentConflict",
            Error::Scale(..) => "ScaleFailed",
            Error::Status(_) => "StatusFailed",
        }
    }
}

/// State that the reconciles of one namespace share.
struct Shared {
    context: Context,
    deployments: Store<Deployment>,
    pods: Store<PartialObjectMeta<Pod>>,
    backoff: Backoff<ObjectRef<MemcachedBackup>>,
}

async fn reconcile(backup: Arc<MemcachedBackup>, shared: Arc<Shared>) -> Result<Action, Error> {
    let object = backup.object_ref(&());
    report::reconcile(&shared.context, &object, work(&backup, &shared, &object)).await
}

fn retry(backup: Arc<MemcachedBackup>, _: &Error, shared: Arc<Shared>) -> Action {
    Action::requeue(shared.backoff.failed(ObjectRef::from_obj(&*backup)))
}

async fn work(backup: &MemcachedBackup, shared: &Shared, object: &ObjectReference) -> Result<Action, Error> {
    shared.deployments.wait_until_ready().await.map_err(|_| Error::Caches)?;
    shared.pods.wait_until_ready().await.map_err(|_| Error::Caches)?;
    if backup.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let observed = observe(backup, shared);
    let acted = act(next_step(&observed), backup, shared, object).await;
    let problem = acted.as_ref().err().map(|error| (error.reason(), chain(error)));
    let status = next_status(&observed, problem, Timestamp::now());
    if backup.status.as_ref() != Some(&status) {
        write_status(backup, shared, &status).await?;
        publish_ready(backup, shared, object, &status).await;
    }
    acted?;
    shared.backoff.forget(&ObjectRef::from_obj(backup));
    Ok(Action::await_change())
}

fn observe(backup: &MemcachedBackup, shared: &Shared) -> Observed {
    let (name, namespace) = (backup.name_any(), backup.namespace().unwrap_or_default());
    let deployment = shared.deployments.get(&ObjectRef::new(&name).within(&namespace));
    let ours = |pod: &&Arc<PartialObjectMeta<Pod>>| {
        pod.metadata.namespace.as_ref() == Some(&namespace)
            && objects::backup_of(&pod.metadata) == Some(&name)
            && pod.metadata.deletion_timestamp.is_none()
    };
    let mut nodes: Vec<String> = shared.pods.state().iter().filter(ours).map(|pod| pod.name_any()).collect();
    nodes.sort();
    Observed {
        size: backup.spec.size,
        generation: backup.metadata.generation,
        deployment: deployment.as_deref().filter(|d| objects::is_owned(d, backup)).map(objects::summary),
        nodes,
        status: backup.status.clone(),
    }
}

async fn act(step: Step, backup: &MemcachedBackup, shared: &Shared, object: &ObjectReference) -> Result<(), Error> {
    let namespace = backup.namespace().unwrap_or_default();
    let deployments: Api<Deployment> = Api::namespaced(shared.context.client.clone(), &namespace);
    let name = backup.name_any();
    let outcome = match step {
        Step::Nothing => return Ok(()),
        Step::Create => {
            if !create(&deployments, backup).await? {
                return Ok(());
            }
            Outcome::normal("Created", "Create", format!("Created deployment {name} with size {}", backup.spec.size))
        }
        Step::Scale { from, to } => {
            let (patch, params) = (json!({"spec": {"replicas": to}}), PatchParams::apply(FIELD_MANAGER));
            let scaled = deployments.patch(&name, &params, &Patch::Merge(patch)).await;
            scaled.map_err(|error| Error::Scale(name.clone(), error))?;
            Outcome::normal("Scaled", "Scale", format!("Scaled deployment {name} from {from} to {to}"))
        }
    };
    report::report(&shared.context, object, &outcome).await;
    Ok(())
}

/// Creates the Deployment; returns `false` if it exists already and the cache has not seen it yet.
async fn create(deployments: &Api<Deployment>, backup: &MemcachedBackup) -> Result<bool, Error> {
    let name = backup.name_any();
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match deployments.create(&params, &objects::deployment(backup)).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_already_exists() => match deployments.get_metadata(&name).await {
            Ok(found) if objects::owns(backup, &found.metadata) => Ok(false),
            Ok(_) => Err(Error::Foreign(name)),
            Err(error) => Err(Error::Create(name, error)),
        },
        Err(error) => Err(Error::Create(name, error)),
    }
}

async fn write_status(backup: &MemcachedBackup, shared: &Shared, status: &MemcachedBackupStatus) -> Result<(), Error> {
    let namespace = backup.namespace().unwrap_or_default();
    let backups: Api<MemcachedBackup> = Api::namespaced(shared.context.client.clone(), &namespace);
    let (version, kind) = (MemcachedBackup::api_version(&()), MemcachedBackup::kind(&()));
    // The uid prevents the apply from recreating a resource that was just deleted.
    let patch =
        json!({"apiVersion": version, "kind": kind, "metadata": {"uid": backup.metadata.uid}, "status": status});
    let params = PatchParams::apply(FIELD_MANAGER).force();
    match backups.patch_status(&backup.name_any(), &params, &Patch::Apply(patch)).await {
        Ok(_) => Ok(()),
        // The resource is gone or was recreated: nothing to report.
        Err(kube::Error::Api(failure)) if failure.is_not_found() || failure.is_conflict() => Ok(()),
        Err(error) => Err(Error::Status(error)),
    }
}

/// Publishes changes of `Ready`, once each.
async fn publish_ready(
    backup: &MemcachedBackup,
    shared: &Shared,
    object: &ObjectReference,
    status: &MemcachedBackupStatus,
) {
    let (before, after) = (decide::ready(backup.status.as_ref()), decide::ready(Some(status)));
    let Some(after) = after else { return };
    if before.is_some_and(|b| (&b.status, &b.reason) == (&after.status, &after.reason)) {
        return;
    }
    let outcome = match after.reason.as_str() {
        decide::READY => Outcome::normal("Ready", "Reconcile", after.message.clone()),
        decide::PROGRESSING => return,
        _ => Outcome::warning("ReconcileFailed", "Reconcile", after.message.clone()),
    };
    report::report(&shared.context, object, &outcome).await;
}
