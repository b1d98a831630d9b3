//! Serves `__Kind__`: keeps a Deployment with its size and image, and lists the pods in its status.
//!
//! `deployment` returns the desired object; `next_status` and `event` return what users see.
//! Deleting the resource deletes the Deployment, because the resource owns it.

use std::collections::BTreeMap;

use helm_operator::ResourceKey;
use helm_operator::reconciler::{
    Cache, Change, Conditions, Next, Reconciler, Rights, Scope, Watching, WriteError,
};
use helm_operator::report::{Outcome, Reason as _, chain};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::core::{ObjectMeta, PartialObjectMeta};

use crate::api::__module__::{__Kind__, __Kind__Status};

/// Selects the objects of this controller.
const SELECTOR: &str = "app=__kind__,__kind___cr";

/// The label with the name of the resource that an object belongs to.
const OWNER: &str = "__kind___cr";

/// Serves every `__Kind__`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Controller;

/// The watched objects. Reading them costs no request.
pub struct Caches {
    deployments: Cache<Deployment>,
    pods: Cache<PartialObjectMeta<Pod>>,
}

impl Reconciler for Controller {
    type Resource = __Kind__;
    type Error = WriteError;
    type Caches = Caches;

    /// Declares the objects whose changes trigger a reconcile of their resource. A pod's owner is a
    /// ReplicaSet, so a label names its resource.
    fn watch(&self, watching: &mut Watching<__Kind__>) -> Caches {
        let owner = |pod: &PartialObjectMeta<Pod>| {
            Some(ResourceKey::new(
                &pod.namespace()?,
                pod.labels().get(OWNER)?,
            ))
        };
        Caches {
            deployments: watching.owned(SELECTOR),
            pods: watching.objects(SELECTOR).in_own_namespace().mapped(owner),
        }
    }

    /// Returns the permissions of the controller, from which `make manifests` writes the role.
    fn rights(&self) -> Rights {
        Rights::none()
            .status()
            .applies::<Deployment>()
            .reads::<Pod>()
    }

    async fn reconcile(
        &self,
        scope: &Scope<'_, __Kind__>,
        caches: &Caches,
    ) -> Result<Next, WriteError> {
        let resource = scope.resource();
        let before = caches
            .deployments
            .of(resource)
            .first()
            .and_then(|found| found.spec.replicas);
        let applied = scope.apply(&caches.deployments, deployment(resource)).await;
        let nodes = caches
            .pods
            .of(resource)
            .iter()
            .map(|pod| pod.name_any())
            .collect();
        let found = applied.as_ref().map(|applied| &*applied.object);
        scope.status(&next_status(resource, found, nodes)).await?;
        if let Some(event) = event(resource, applied?.change, before) {
            scope.publish(event);
        }
        Ok(Next::Wait)
    }
}

/// Returns the Deployment that the resource should have.
fn deployment(resource: &__Kind__) -> Deployment {
    let name = resource.name_any();
    let labels: BTreeMap<String, String> = [("app", "__kind__"), (OWNER, &name)]
        .map(|(key, value)| (key.into(), value.into()))
        .into();
    let container = Container {
        name: "memcached".into(),
        image: Some(resource.spec.image.clone()),
        command: Some(
            ["memcached", "--memory-limit=64", "-o", "modern", "-v"]
                .map(Into::into)
                .into(),
        ),
        ports: Some(vec![ContainerPort {
            name: Some("memcached".into()),
            container_port: 11211,
            ..ContainerPort::default()
        }]),
        ..Container::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: Some(name),
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

/// Returns the status. Equal arguments give an equal status, which is not written again.
fn next_status(
    resource: &__Kind__,
    deployment: Result<&Deployment, &WriteError>,
    nodes: Vec<String>,
) -> __Kind__Status {
    let last = resource
        .status
        .iter()
        .flat_map(|status| status.conditions.clone());
    let conditions = Conditions::after(resource, &last.collect::<Vec<_>>());
    let size = resource.spec.size;
    let conditions = match deployment.map(ready_pods) {
        Err(error) => conditions.set_false("Ready", error.reason(), chain(error)),
        Ok(ready) if ready == size => conditions.set_true(
            "Ready",
            "PodsReady",
            format!("{ready} of {size} pods are ready"),
        ),
        Ok(ready) => {
            let message = format!("{ready} of {size} pods are ready");
            conditions.set_false("Ready", "Progressing", message)
        }
    };
    __Kind__Status {
        nodes,
        conditions: conditions.list(),
    }
}

/// Counts the pods that are ready and up to date; 0 until Kubernetes has seen the current spec.
fn ready_pods(deployment: &Deployment) -> i32 {
    let Some(status) = &deployment.status else {
        return 0;
    };
    let is_current = status.observed_generation >= deployment.metadata.generation;
    let ready = status.ready_replicas.min(status.updated_replicas);
    if is_current { ready.unwrap_or(0) } else { 0 }
}

/// Returns the event for a change, which is published once and also appears in the log and metrics.
fn event(resource: &__Kind__, change: Change, before: Option<i32>) -> Option<Outcome> {
    let (name, size) = (resource.name_any(), resource.spec.size);
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

#[cfg(test)]
mod tests {
    use helm_operator::testing::Server;
    use k8s_openapi::api::apps::v1::DeploymentStatus;

    use super::*;
    use crate::api::__module__::__Kind__Spec;

    fn resource(size: i32) -> __Kind__ {
        let image = "memcached:1".to_owned();
        __Kind__::new("demo", __Kind__Spec { size, image })
    }

    /// Returns the Deployment with this many ready pods.
    fn with_ready(mut deployment: Deployment, ready: i32) -> Deployment {
        deployment.status = Some(DeploymentStatus {
            ready_replicas: Some(ready),
            updated_replicas: Some(ready),
            ..DeploymentStatus::default()
        });
        deployment
    }

    /// Returns a pod of the resource.
    fn pod(name: &str) -> Pod {
        let labels = deployment(&resource(1)).metadata.labels;
        let metadata = ObjectMeta {
            name: Some(name.into()),
            labels,
            ..ObjectMeta::default()
        };
        Pod {
            metadata,
            ..Pod::default()
        }
    }

    #[test]
    fn ready_means_that_all_pods_are_ready() {
        for (size, ready, expected) in [
            (2, 0, "False"),
            (2, 1, "False"),
            (2, 2, "True"),
            (0, 0, "True"),
        ] {
            let resource = resource(size);
            let deployment = with_ready(deployment(&resource), ready);
            let status = next_status(&resource, Ok(&deployment), Vec::new());
            assert_eq!(status.conditions[0].status, expected, "{ready} of {size}");
        }
    }

    #[tokio::test]
    async fn a_new_resource_gets_its_deployment_and_a_status() {
        let server = Server::new();
        server.put(&resource(2));
        server.put(&pod("demo-b"));
        server.put(&pod("demo-a"));
        server
            .reconcile(&Controller, "default", "demo")
            .await
            .unwrap();
        let deployment: Deployment = server.get("default", "demo").unwrap();
        assert_eq!(deployment.spec.replicas, Some(2));
        let status = server
            .get::<__Kind__>("default", "demo")
            .unwrap()
            .status
            .unwrap();
        assert_eq!(status.nodes, ["demo-a", "demo-b"]);
        assert_eq!(status.conditions[0].message, "0 of 2 pods are ready");
        assert_eq!(
            server.events(),
            ["Normal Created: Created Deployment demo with 2 pods"]
        );
    }

    #[tokio::test]
    async fn another_size_scales_the_deployment_once() {
        let server = Server::new();
        for size in [1, 3, 3] {
            let mut resource = resource(size);
            resource.status = server
                .get::<__Kind__>("default", "demo")
                .and_then(|r| r.status);
            server.put(&resource);
            server
                .reconcile(&Controller, "default", "demo")
                .await
                .unwrap();
        }
        let events = server.events();
        assert_eq!(
            events[1..],
            ["Normal Scaled: Scaled Deployment demo from 1 to 3 pods"]
        );
    }

    #[tokio::test]
    async fn the_deployment_of_another_owner_stays_and_the_status_names_the_conflict() {
        let server = Server::new();
        server.put(&resource(1));
        server.put(&with_ready(deployment(&resource(5)), 5));
        server
            .reconcile(&Controller, "default", "demo")
            .await
            .unwrap_err();
        let found: Deployment = server.get("default", "demo").unwrap();
        assert_eq!(found.spec.replicas, Some(5));
        let status = server
            .get::<__Kind__>("default", "demo")
            .unwrap()
            .status
            .unwrap();
        assert_eq!(status.conditions[0].reason, "ObjectConflict");
    }
}
