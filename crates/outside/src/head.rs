//! The metadata that most readers of an object need.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// An object, of which only the head is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Headed {
    /// Its metadata.
    pub metadata: Head,
}

/// Metadata without the parts that may be large or unreadable: anyone who may write an object may nest its managed
/// fields too deeply.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)] // Kubernetes documents them.
pub struct Head {
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub resource_version: Option<String>,
    pub finalizers: Vec<Arc<str>>,
    pub deletion_timestamp: Option<IgnoredAny>,
}
