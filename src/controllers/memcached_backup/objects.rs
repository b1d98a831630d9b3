//! The Deployment of a `MemcachedBackup`, and how to recognise its pods.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
    SeccompProfile, SecurityContext, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};

use super::decide::Deployed;
use crate::api::memcached_backup::MemcachedBackup;

/// Selects everything that this controller creates.
pub(super) const SELECTOR: &str =
    "app.kubernetes.io/name=memcached-backup,app.kubernetes.io/managed-by=memcached-operator";

const INSTANCE: &str = "app.kubernetes.io/instance";
const IMAGE: &str = "memcached:1.6.39-alpine";
/// The image's user `memcache`.
const USER: i64 = 11211;

/// The Deployment as created; later, only its replicas are managed.
pub(super) fn deployment(backup: &MemcachedBackup) -> Deployment {
    let labels = labels(&backup.name_any());
    Deployment {
        metadata: ObjectMeta {
            name: Some(backup.name_any()),
            namespace: backup.namespace(),
            labels: Some(labels.clone()),
            owner_references: backup.controller_owner_ref(&()).map(|owner| vec![owner]),
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

/// Returns the name of the backup that an object with these labels belongs to.
pub(super) fn backup_of(metadata: &ObjectMeta) -> Option<&String> {
    metadata.labels.as_ref()?.get(INSTANCE)
}

/// Returns whether the Deployment belongs to this backup.
pub(super) fn is_owned(deployment: &Deployment, backup: &MemcachedBackup) -> bool {
    owns(backup, &deployment.metadata)
}

/// Returns whether this backup owns the object.
pub(super) fn owns(backup: &MemcachedBackup, metadata: &ObjectMeta) -> bool {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| owner.controller == Some(true) && Some(&owner.uid) == backup.metadata.uid.as_ref())
}

/// Returns the relevant parts of a Deployment.
pub(super) fn summary(deployment: &Deployment) -> Deployed {
    let status = deployment.status.as_ref();
    Deployed {
        // The API server defaults to one.
        replicas: deployment.spec.replicas.unwrap_or(1),
        ready: status.and_then(|s| s.ready_replicas).unwrap_or(0),
        current: status.and_then(|s| s.observed_generation) >= deployment.metadata.generation,
    }
}

/// Drops what no decision needs, before the cache stores the object.
pub(super) fn strip(deployment: &mut Deployment) {
    strip_metadata(&mut deployment.metadata);
    deployment.spec = DeploymentSpec { replicas: deployment.spec.replicas, ..DeploymentSpec::default() };
    if let Some(status) = &mut deployment.status {
        status.conditions = None;
    }
}

/// Drops annotations and managed fields.
pub(super) fn strip_metadata(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    metadata.annotations = None;
}
