//! The reconciler of `ReverseWordsApp`.

use helm_operator::reconciler::{Cache, Next, Reconciler, Rights, Scope, Watching, WriteError};
use helm_operator::report::Outcome;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::jiff::Timestamp;

use crate::api::ReverseWordsApp;
use crate::{news, objects, status};

/// Serves every `ReverseWordsApp`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Controller;

/// What a reconcile reads.
pub(crate) struct Caches {
    deployments: Cache<Deployment>,
    services: Cache<Service>,
    pods: Cache<Pod>,
}

/// How many resources are reconciled at once.
const WORKERS: usize = 10;

impl Reconciler for Controller {
    type Resource = ReverseWordsApp;
    type Error = WriteError;
    type Caches = Caches;

    fn watch(&self, watching: &mut Watching<ReverseWordsApp>) -> Caches {
        watching.concurrency(WORKERS).ignore_status();
        Caches {
            deployments: watching.owned(objects::SELECTOR),
            services: watching.owned(objects::SELECTOR),
            pods: watching.objects(objects::SELECTOR).in_own_namespace().mapped(objects::app_of),
        }
    }

    fn rights(&self) -> Rights {
        Rights::none().status().applies::<Deployment>().applies::<Service>().reads::<Pod>()
    }

    async fn reconcile(&self, scope: &Scope<'_, ReverseWordsApp>, caches: &Caches) -> Result<Next, WriteError> {
        let app = scope.resource();
        let before = caches.deployments.of(app).first().cloned();
        let deployment = scope.apply(&caches.deployments, objects::deployment(app)).await?;
        let service = scope.apply(&caches.services, objects::service(app)).await?;
        let news = [
            news::of_deployment(deployment.change, before.as_deref(), &deployment.object),
            news::of_service(service.change, &service.object),
        ];
        news.into_iter().flatten().for_each(|outcome| scope.publish(outcome));
        let status = status::next(app, &deployment.object, &caches.pods.of(app), Timestamp::now());
        scope.status(&status).await?;
        Ok(Next::Wait)
    }

    fn finalizers(&self) -> &[&str] {
        &["finalizer.reversewordsapp.apps.linuxera.org"]
    }

    /// Deletes nothing: the garbage collector deletes Deployment and Service. Code for anything else goes here.
    async fn cleanup(&self, _: &str, scope: &Scope<'_, ReverseWordsApp>, _: &Caches) -> Result<Next, WriteError> {
        scope.publish(Outcome::normal("Finalized", "Delete", "Successfully finalized ReverseWordsApp"));
        Ok(Next::Wait)
    }
}
