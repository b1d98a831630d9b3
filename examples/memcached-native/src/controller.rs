//! The reconciler of `Memcached`.

use helm_operator::reconciler::{Cache, Change, Next, Reconciler, Rights, Scope, Watching, WriteError};
use helm_operator::report::Outcome;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;

use crate::api::{Memcached, MemcachedStatus};
use crate::deployment;

/// Serves every `Memcached`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Controller;

/// What a reconcile reads.
pub(crate) struct Caches {
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
            pods: watching.objects(deployment::SELECTOR).in_own_namespace().mapped(deployment::memcached_of),
        }
    }

    fn rights(&self) -> Rights {
        Rights::none().status().applies::<Deployment>().reads::<Pod>()
    }

    async fn reconcile(&self, scope: &Scope<'_, Memcached>, caches: &Caches) -> Result<Next, WriteError> {
        let memcached = scope.resource();
        let before = caches.deployments.of(memcached).first().and_then(|deployment| deployment.spec.replicas);
        let applied = scope.apply(&caches.deployments, deployment::of(memcached)).await?;
        if let Some(news) = news(memcached, applied.change, before) {
            scope.publish(news);
        }
        let nodes = caches.pods.of(memcached).iter().map(|pod| pod.name_any()).collect();
        scope.status(&MemcachedStatus { nodes }).await?;
        Ok(Next::Wait)
    }
}

/// Returns what the log and an event say, once for each change.
fn news(memcached: &Memcached, change: Change, before: Option<i32>) -> Option<Outcome> {
    let (name, size) = (memcached.name_any(), memcached.spec.size);
    match (change, before) {
        (Change::Created, _) => {
            let message = format!("Created Deployment {name} with {size} pods");
            Some(Outcome::normal("Created", "Create", message))
        }
        (Change::Updated, Some(from)) if from != size => {
            let message = format!("Scaled Deployment {name} from {from} to {size} pods");
            Some(Outcome::normal("Scaled", "Scale", message))
        }
        _ => None,
    }
}
