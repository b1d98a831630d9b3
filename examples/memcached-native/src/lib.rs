//! The reconciler of `Memcached`, and its type.

mod api;
mod deployment;

pub use api::{Memcached, MemcachedSpec, MemcachedStatus};

use helm_operator::native::{Cache, Change, Next, Reconciler, Rights, Scope, Watching, WriteError};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;

/// Serves every `Memcached`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Controller;

/// What a reconcile reads.
pub struct Caches {
    deployments: Cache<Deployment>,
    pods: Cache<PartialObjectMeta<Pod>>,
}

impl Reconciler for Controller {
    type Resource = Memcached;
    type Error = WriteError;
    type Caches = Caches;

    fn watch(&self, watching: &mut Watching<Memcached>) -> Caches {
        Caches {
            deployments: watching.owned(deployment::SELECTOR),
            pods: watching.mapped(deployment::SELECTOR, deployment::memcached_of),
        }
    }

    fn rights(&self) -> Rights {
        Rights::none().status().applies::<Deployment>().reads::<Pod>()
    }

    async fn reconcile(&self, scope: &Scope<'_, Memcached>, caches: &Caches) -> Result<Next, WriteError> {
        let memcached = scope.resource();
        let (namespace, name) = (memcached.namespace().unwrap_or_default(), memcached.name_any());
        let before = caches.deployments.of(memcached).first().map(|deployment| deployment.spec.replicas);
        let applied = scope.apply(&caches.deployments, deployment::of(memcached)).await?;
        match (applied.change, before) {
            (Change::Created, _) => {
                tracing::info!(Deployment.Namespace = namespace, Deployment.Name = name, "Creating a new Deployment");
            }
            (Change::Updated, Some(replicas)) if replicas != Some(memcached.spec.size) => {
                tracing::info!(Deployment.Namespace = namespace, Deployment.Name = name, "Update deployment size");
            }
            _ => {}
        }
        let nodes = caches.pods.of(memcached).iter().map(|pod| pod.name_any()).collect();
        if scope.status(&MemcachedStatus { nodes }).await? {
            tracing::info!(namespace, name, "Update status");
        }
        Ok(Next::Wait)
    }
}
