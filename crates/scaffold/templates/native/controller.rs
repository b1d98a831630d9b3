//! Serves `__Kind__`: keeps a Deployment with its size and image, and reports whether all copies are ready.
//!
//! A start to build on: `deployment` says what should exist, `next_status` what users see; both are pure, so unit tests need no cluster. The garbage
//! collector deletes the Deployment with its owner.

use std::collections::BTreeMap;

use helm_operator::native::{Cache, Next, Reconciler, Rights, Scope, Watching, WriteError};
use helm_operator::report::{Reason as _, chain};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use crate::api::__module__::{__Kind__, __Kind__Status};

/// Selects the Deployments of this controller.
const SELECTOR: &str = "app.kubernetes.io/managed-by=__kind__-controller";

/// Serves every `__Kind__`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Controller;

impl Reconciler for Controller {
    type Resource = __Kind__;
    type Error = WriteError;
    type Caches = Cache<Deployment>;

    fn watch(&self, watching: &mut Watching<__Kind__>) -> Cache<Deployment> {
        watching.owned(SELECTOR)
    }

    /// `make manifests` writes the role from them.
    fn rights(&self) -> Rights {
        Rights::none().status().applies::<Deployment>()
    }

    async fn reconcile(
        &self,
        scope: &Scope<'_, __Kind__>,
        deployments: &Cache<Deployment>,
    ) -> Result<Next, WriteError> {
        let resource = scope.resource();
        let applied = scope.apply(deployments, deployment(resource)).await;
        let found = applied.as_ref().map(|applied| &*applied.object);
        let problem = found
            .as_ref()
            .err()
            .map(|error| (error.reason(), chain(*error)));
        let status = next_status(resource, found.ok(), problem, Timestamp::now());
        scope.status(&status).await?;
        applied?;
        Ok(Next::Wait)
    }
}

/// What should exist.
fn deployment(resource: &__Kind__) -> Deployment {
    let name = resource.name_any();
    let managed = SELECTOR.split_once('=').unwrap_or_default();
    let labels: BTreeMap<String, String> = [managed, ("app.kubernetes.io/instance", &name)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let container = Container {
        name: "main".to_owned(),
        image: Some(resource.spec.image.clone()),
        ..Container::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: resource.namespace(),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: DeploymentSpec {
            replicas: Some(resource.spec.size),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    containers: vec![container],
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

/// Returns the next status; equal to the old one if nothing changed. `problem` is a failure's reason and message.
fn next_status(
    resource: &__Kind__,
    deployment: Option<&Deployment>,
    problem: Option<(&str, String)>,
    now: Timestamp,
) -> __Kind__Status {
    let (size, ready) = (resource.spec.size, ready_copies(deployment));
    let (status, reason, message) = match problem {
        Some((reason, message)) => ("False", reason, message),
        None if ready == size => (
            "True",
            "CopiesReady",
            format!("{ready} of {size} copies are ready"),
        ),
        None => (
            "False",
            "Progressing",
            format!("{ready} of {size} copies are ready"),
        ),
    };
    let before = resource
        .status
        .iter()
        .flat_map(|status| &status.conditions)
        .find(|known| known.type_ == "Ready");
    // Kubernetes stores whole seconds.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let since = before
        .filter(|known| known.status == status)
        .map_or(now, |known| known.last_transition_time.clone());
    __Kind__Status {
        observed_generation: resource.metadata.generation,
        conditions: vec![Condition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: resource.metadata.generation,
            last_transition_time: since,
        }],
    }
}

/// The copies that are ready and up to date; none until the Deployment's controller has seen its spec.
fn ready_copies(deployment: Option<&Deployment>) -> i32 {
    let current = deployment.filter(|deployment| {
        let seen = deployment
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        seen >= deployment.metadata.generation
    });
    let status = current.and_then(|deployment| deployment.status.as_ref());
    status.map_or(0, |status| {
        status
            .ready_replicas
            .unwrap_or(0)
            .min(status.updated_replicas.unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DeploymentStatus;

    use super::*;
    use crate::api::__module__::__Kind__Spec;

    fn resource(size: i32) -> __Kind__ {
        __Kind__::new(
            "demo",
            __Kind__Spec {
                size,
                image: "nginx".to_owned(),
            },
        )
    }

    fn with_ready(mut deployment: Deployment, ready: i32) -> Deployment {
        let status = DeploymentStatus {
            ready_replicas: Some(ready),
            updated_replicas: Some(ready),
            ..DeploymentStatus::default()
        };
        deployment.status = Some(status);
        deployment
    }

    #[test]
    fn the_deployment_follows_size_and_image() {
        let deployment = deployment(&resource(3));
        assert_eq!(deployment.metadata.name.as_deref(), Some("demo"));
        assert_eq!(deployment.spec.replicas, Some(3));
        let pod = deployment.spec.template.spec.unwrap();
        assert_eq!(pod.containers[0].image.as_deref(), Some("nginx"));
    }

    #[test]
    fn ready_means_that_all_copies_are_ready() {
        for (size, ready, expected) in [
            (2, 0, "False"),
            (2, 1, "False"),
            (2, 2, "True"),
            (0, 0, "True"),
        ] {
            let resource = resource(size);
            let deployment = with_ready(deployment(&resource), ready);
            let status = next_status(&resource, Some(&deployment), None, Timestamp::UNIX_EPOCH);
            assert_eq!(status.conditions[0].status, expected, "{ready} of {size}");
        }
    }

    #[test]
    fn a_failure_is_reported_with_its_reason() {
        let problem = Some(("WriteFailed", "no quota".to_owned()));
        let status = next_status(&resource(1), None, problem, Timestamp::UNIX_EPOCH);
        assert_eq!(status.conditions[0].reason, "WriteFailed");
    }
}
