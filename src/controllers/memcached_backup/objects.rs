//! The Deployment of a `MemcachedBackup`, and how to recognise its pods.

use std::collections::BTreeMap;

use helm_operator::ResourceKey;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
    SeccompProfile, SecurityContext, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;

use super::decide::Deployed;
use crate::api::memcached_backup::MemcachedBackup;

/// Selects everything that this controller creates.
pub(super) const SELECTOR: &str =
    "app.kubernetes.io/name=memcached-backup,app.kubernetes.io/managed-by=memcached-operator";

const INSTANCE: &str = "app.kubernetes.io/instance";
const IMAGE: &str = "memcached:1.6.39-alpine";
/// The image's user `memcache`.
const USER: i64 = 11211;

/// Returns the Deployment that should exist.
pub(super) fn deployment(backup: &MemcachedBackup) -> Deployment {
    let labels = labels(&backup.name_any());
    Deployment {
        metadata: ObjectMeta {
            name: Some(backup.name_any()),
            namespace: backup.namespace(),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: DeploymentSpec {
            replicas: Some(backup.spec.size),
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(pod()),
            },
            ..DeploymentSpec::default()
        },
        status: None,
    }
}

fn labels(name: &str) -> BTreeMap<String, String> {
    let fixed = SELECTOR.split(',').filter_map(|label| label.split_once('='));
    fixed.chain([(INSTANCE, name)]).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn pod() -> PodSpec {
    PodSpec {
        automount_service_account_token: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), ..SeccompProfile::default() }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container()],
        ..PodSpec::default()
    }
}

fn container() -> Container {
    let request = [("cpu", "10m"), ("memory", "80Mi")];
    Container {
        name: "memcached".into(),
        image: Some(IMAGE.into()),
        args: Some(["-m", "64", "-o", "modern"].map(str::to_owned).into()),
        ports: Some(vec![ContainerPort {
            name: Some("memcached".into()),
            container_port: 11211,
            ..ContainerPort::default()
        }]),
        readiness_probe: Some(probe()),
        liveness_probe: Some(probe()),
        resources: Some(ResourceRequirements {
            requests: Some(request.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).into()),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), ..Capabilities::default() }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

fn probe() -> Probe {
    let port = IntOrString::String("memcached".into());
    Probe { tcp_socket: Some(TCPSocketAction { port, ..TCPSocketAction::default() }), ..Probe::default() }
}

/// Returns the backup that an object with these labels belongs to.
pub(super) fn backup_of(object: &impl kube::ResourceExt) -> Option<ResourceKey> {
    let metadata = object.meta();
    let name = metadata.labels.as_ref()?.get(INSTANCE)?;
    Some(ResourceKey::new(metadata.namespace.as_deref()?, name))
}

/// Returns how many pods the Deployment asks for. The API server defaults to one.
pub(super) fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

/// Returns the relevant parts of a Deployment.
pub(super) fn summary(deployment: &Deployment) -> Deployed {
    let status = deployment.status.as_ref();
    Deployed {
        replicas: replicas(deployment),
        ready: status.and_then(|s| s.ready_replicas).unwrap_or(0),
        current: status.and_then(|s| s.observed_generation) >= deployment.metadata.generation,
    }
}
