//! A custom resource reduced to what the reconciler needs of it; managed fields and foreign metadata are dropped while parsing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use helm::kube::Owner;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::annotations::Annotations;
use crate::status::Status;

/// Our finalizer: operator-sdk's.
pub(super) const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";
/// That of helm-operator-plugins and of old operator-sdk: recognised and removed.
pub(super) const LEGACY_FINALIZER: &str = "uninstall-helm-release";

/// A custom resource, reduced.
#[derive(Clone, Debug)]
pub(super) struct Primary {
    /// Name, namespace, uid and resource version only.
    metadata: ObjectMeta,
    pub(super) api_version: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) generation: i64,
    /// Seconds since the epoch at which it was created.
    pub(super) created: f64,
    pub(super) deleting: bool,
    pub(super) finalizers: Vec<String>,
    pub(super) annotations: Annotations,
    /// `spec` as JSON text: compact, and parsed only to render.
    pub(super) spec: Arc<str>,
    pub(super) status: Status,
    /// Whether the schema makes `status.conditions` one field.
    pub(super) conditions_are_one_field: bool,
    /// Whether operator-sdk left the whole manifest, Secrets too, in the status.
    pub(super) has_manifest: bool,
}

/// Which custom resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ResourceKey {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

impl std::fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl ResourceKey {
    pub(super) fn new(namespace: &str, name: &str) -> ResourceKey {
        ResourceKey { namespace: namespace.into(), name: name.into() }
    }
}

impl Primary {
    pub(super) fn key(&self) -> ResourceKey {
        ResourceKey::new(self.namespace(), self.name())
    }

    pub(super) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Empty for a cluster-scoped resource.
    pub(super) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// Ours or an upstream's.
    pub(super) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|f| is_ours(f))
    }

    /// The finalizers without ours and the upstreams'.
    pub(super) fn other_finalizers(&self) -> Vec<&String> {
        self.finalizers.iter().filter(|f| !is_ours(f)).collect()
    }

    /// Whether something changed that a reconcile could have to act on; our own status writes do not.
    pub(super) fn differs_from(&self, older: &Primary) -> bool {
        self.uid() != older.uid()
            || self.generation != older.generation
            || self.deleting != older.deleting
            || self.annotations != older.annotations
            || self.has_finalizer() != older.has_finalizer()
            || self.spec != older.spec
    }

    pub(super) fn owner(&self) -> Owner {
        Owner {
            api_version: self.api_version.to_string(),
            kind: self.kind.to_string(),
            name: self.name().to_owned(),
            namespace: self.namespace().to_owned(),
            uid: self.uid().to_owned(),
        }
    }
}

fn is_ours(finalizer: &str) -> bool {
    finalizer == FINALIZER || finalizer == LEGACY_FINALIZER
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Full {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: Meta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    #[serde(default)]
    generation: i64,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    managed_fields: Vec<Value>,
}

impl<'de> Deserialize<'de> for Primary {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Primary, D::Error> {
        Full::deserialize(from).map(Primary::from)
    }
}

impl From<Full> for Primary {
    fn from(full: Full) -> Primary {
        let meta = full.metadata;
        let one_field = |entry: &Value| {
            let field = entry.pointer("/fieldsV1/f:status/f:conditions").and_then(Value::as_object);
            field.is_some_and(serde_json::Map::is_empty)
        };
        Primary {
            conditions_are_one_field: meta.managed_fields.iter().any(one_field),
            has_manifest: full.status.pointer("/deployedRelease/manifest").is_some(),
            api_version: full.api_version.into(),
            kind: full.kind.into(),
            generation: meta.generation,
            created: meta
                .creation_timestamp
                .and_then(|t| t.parse::<jiff::Timestamp>().ok())
                .map_or(0.0, |t| t.as_second() as f64),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.unwrap_or_default(),
            annotations: Annotations::new(&meta.annotations.unwrap_or_default()),
            spec: full.spec.to_string().into(),
            status: serde_json::from_value(full.status).unwrap_or_default(),
            metadata: ObjectMeta {
                name: meta.name,
                namespace: meta.namespace,
                uid: meta.uid,
                resource_version: meta.resource_version,
                ..ObjectMeta::default()
            },
        }
    }
}

impl kube::Resource for Primary {
    type DynamicType = kube::core::ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(resource: &Self::DynamicType) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &Self::DynamicType) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &Self::DynamicType) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &Self::DynamicType) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &Self::DynamicType) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
