//! The Deployment of a `Memcached`, and how to recognise its pods.

use helm_operator::ResourceKey;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::core::ObjectMeta;

use crate::api::Memcached;

/// Selects the objects of every `Memcached`.
pub(crate) const SELECTOR: &str = "app=memcached,memcached_cr";

/// The label with the resource's name.
const OWNER: &str = "memcached_cr";

/// Returns the Deployment that should exist.
pub(crate) fn of(memcached: &Memcached) -> Deployment {
    let labels = Some([("app".to_owned(), "memcached".to_owned()), (OWNER.to_owned(), memcached.name_any())].into());
    Deployment {
        metadata: ObjectMeta { name: Some(memcached.name_any()), labels: labels.clone(), ..ObjectMeta::default() },
        spec: DeploymentSpec {
            replicas: Some(memcached.spec.size),
            selector: LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels, ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container()], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

fn container() -> Container {
    Container {
        name: "memcached".into(),
        image: Some("memcached:1.4.36-alpine".into()),
        command: Some(["memcached", "-m=64", "-o", "modern", "-v"].map(str::to_owned).into()),
        ports: Some(vec![ContainerPort {
            name: Some("memcached".into()),
            container_port: 11211,
            ..ContainerPort::default()
        }]),
        ..Container::default()
    }
}

/// Returns the resource that a labelled object belongs to.
pub(crate) fn memcached_of(object: &impl ResourceExt) -> Option<ResourceKey> {
    Some(ResourceKey::new(&object.namespace()?, object.labels().get(OWNER)?))
}
