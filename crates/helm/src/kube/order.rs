//! In which order kinds are installed and uninstalled: Helm's `pkg/release/v1/util/kind_sorter.go`.

use super::Object;

/// Helm's install order. Kinds that are not here come last, by name; uninstalling goes the other way round.
const INSTALL: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Helm's uninstall order.
const UNINSTALL: [&str; 38] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
    "Ingress",
    "IngressClass",
    "Service",
    "CronJob",
    "Job",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "DaemonSet",
    "RoleBindingList",
    "RoleBinding",
    "RoleList",
    "Role",
    "ClusterRoleBindingList",
    "ClusterRoleBinding",
    "ClusterRoleList",
    "ClusterRole",
    "CustomResourceDefinition",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ConfigMap",
    "SecretList",
    "Secret",
    "ServiceAccount",
    "PodDisruptionBudget",
    "PodSecurityPolicy",
    "LimitRange",
    "ResourceQuota",
    "NetworkPolicy",
    "Namespace",
    "PriorityClass",
];

/// Sorts objects into the order in which they are installed; equal kinds keep theirs.
pub fn install_order(objects: &mut [Object]) {
    objects.sort_by(|a, b| rank(&INSTALL, &a.kind).cmp(&rank(&INSTALL, &b.kind)));
}

/// Sorts keys by kind into the order in which they are uninstalled; equal kinds keep theirs.
pub fn uninstall_order<T>(items: &mut [T], kind: impl Fn(&T) -> &str) {
    items.sort_by(|a, b| rank(&UNINSTALL, kind(a)).cmp(&rank(&UNINSTALL, kind(b))));
}

fn rank<'a>(order: &[&str], kind: &'a str) -> (usize, &'a str) {
    match order.iter().position(|k| *k == kind) {
        Some(at) => (at, ""),
        None => (order.len(), kind),
    }
}
