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
        let deployment = scope.apply(&caches.deployments, objects::deployment(app)).await;
        let service = scope.apply(&caches.services, objects::service(app)).await;
        let news = [
            deployment.as_ref().ok().and_then(|now| news::of_deployment(now.change, before.as_deref(), &now.object)),
            service.as_ref().ok().and_then(|now| news::of_service(now.change, &now.object)),
        ];
        news.into_iter().flatten().for_each(|outcome| scope.publish(outcome));
        let applied = match (&deployment, &service) {
            (Ok(deployment), Ok(_)) => Ok(&*deployment.object),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let status = status::next(app, applied, &caches.pods.of(app), Timestamp::now());
        scope.status(&status).await?;
        deployment.and(service).map(|_| Next::Wait)
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

#[cfg(test)]
mod tests {
    use helm_operator::testing::Server;

    use super::*;
    use crate::api::ReverseWordsAppSpec;

    #[tokio::test]
    async fn the_service_of_another_owner_stays_and_the_status_names_the_conflict() {
        let server = Server::new();
        let app = ReverseWordsApp::new("a", ReverseWordsAppSpec { replicas: None, app_version: None });
        server.put(&app);
        server.put(&Service { spec: None, ..objects::service(&app) });
        server.reconcile(&Controller, "default", "a").await.unwrap_err();
        assert!(server.get::<Service>("default", "service-a").unwrap().spec.is_none());
        assert_eq!(server.events(), ["Normal Created: Created Deployment dp-a with 1 pods"]);
        let conditions = server.get::<ReverseWordsApp>("default", "a").unwrap().status.unwrap().conditions;
        let ready = &conditions[0];
        assert_eq!((&*ready.type_, &*ready.status, &*ready.reason), ("Ready", "False", "ObjectConflict"));
    }
}
