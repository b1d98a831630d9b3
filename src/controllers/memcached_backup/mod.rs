//! Serves `MemcachedBackup`: keeps a Deployment of its size, and lists the pods' names in its status.
//!
//! `decide` judges, `objects` describes what should exist. The garbage collector deletes the Deployment with its owner,
//! so there is no finalizer.

mod decide;
mod objects;
#[cfg(test)]
mod tests;

use helm_operator::reconciler::{
    Applied, Cache, Change, Next, Reconciler, Rights, Scope, Selector, Watching, WriteError,
};
use helm_operator::report::{Outcome, Reason as _, chain};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;

use crate::api::memcached_backup::{MemcachedBackup, MemcachedBackupStatus};

/// Serves every `MemcachedBackup`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Controller;

/// What a reconcile reads.
pub(crate) struct Caches {
    deployments: Cache<Deployment>,
    /// Their owners are ReplicaSets: labels say which backup they belong to.
    pods: Cache<PartialObjectMeta<Pod>>,
}

impl Reconciler for Controller {
    type Resource = MemcachedBackup;
    type Error = WriteError;
    type Caches = Caches;

    fn watch(&self, watching: &mut Watching<MemcachedBackup>) -> Caches {
        Caches {
            deployments: watching.owned(objects::SELECTOR),
            // A pod that was evicted stays, but runs no more.
            pods: watching
                .objects(Selector::from(objects::SELECTOR).fields("status.phase!=Failed"))
                .in_own_namespace()
                .mapped(objects::backup_of),
        }
    }

    fn rights(&self) -> Rights {
        Rights::none().status().applies::<Deployment>().reads::<Pod>()
    }

    async fn reconcile(&self, scope: &Scope<'_, MemcachedBackup>, caches: &Caches) -> Result<Next, WriteError> {
        let backup = scope.resource();
        let before = caches.deployments.of(backup).first().map(|deployment| objects::replicas(deployment));
        let applied = scope.apply(&caches.deployments, objects::deployment(backup)).await;
        let observed = decide::Observed {
            deployment: applied.as_ref().ok().map(|applied| objects::summary(&applied.object)),
            nodes: nodes(backup, caches),
        };
        let problem = applied.as_ref().err().map(|error| (error.reason(), chain(error)));
        let status = decide::next_status(backup, observed, problem, Timestamp::now());
        scope.status(&status).await?;
        publish(scope, before, &applied?, &status);
        Ok(Next::Wait)
    }
}

/// Returns the names of the backup's pods, sorted, without those that terminate.
fn nodes(backup: &MemcachedBackup, caches: &Caches) -> Vec<String> {
    let pods = caches.pods.of(backup);
    let alive = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    alive.map(|pod| pod.name_any()).collect()
}

/// Publishes an event for each change, once.
fn publish(
    scope: &Scope<'_, MemcachedBackup>,
    before: Option<i32>,
    applied: &Applied<Deployment>,
    status: &MemcachedBackupStatus,
) {
    let (backup, name) = (scope.resource(), applied.object.name_any());
    let size = backup.spec.size;
    match (applied.change, before) {
        (Change::Created, _) => {
            scope.publish(Outcome::normal("Created", "Create", format!("Created deployment {name} with size {size}")));
        }
        (Change::Updated, Some(from)) if from != size => {
            scope.publish(Outcome::normal(
                "Scaled",
                "Scale",
                format!("Scaled deployment {name} from {from} to {size}"),
            ));
        }
        _ => {}
    }
    let (before, after) = (decide::ready(backup.status.as_ref()), decide::ready(Some(status)));
    if let Some(ready) = after.filter(|after| after.status == "True" && before.is_none_or(|b| b.status != "True")) {
        scope.publish(Outcome::normal("Ready", "Reconcile", ready.message.clone()));
    }
}
