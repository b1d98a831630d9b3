//! The key of a resource, as queues hold it.

use std::sync::Arc;

use kube::ResourceExt as _;
use outside::intern;

use super::fair_queue::Grouped;

/// The namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    /// The namespace. Empty for a cluster-scoped object, except for a cluster-scoped resource that a chart serves,
    /// which has its release's.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// Formats the key as `namespace/name`, or only the name of a cluster-scoped object.
impl std::fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.namespace {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

impl Grouped for ResourceKey {
    fn group(&self) -> Arc<str> {
        self.namespace.clone()
    }
}

impl ResourceKey {
    /// Returns the key of an object. The key of a cluster-scoped object has no namespace.
    pub fn of<K: kube::Resource>(object: &K) -> ResourceKey {
        ResourceKey::new(object.meta().namespace.as_deref().unwrap_or_default(), &object.name_any())
    }

    /// Returns the key of the object with this namespace and name, which are [interned](intern).
    pub fn new(namespace: &str, name: &str) -> ResourceKey {
        ResourceKey { namespace: intern(namespace), name: intern(name) }
    }
}
