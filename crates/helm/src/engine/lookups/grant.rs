//! Computes what `lookup` in watches.yaml must allow for a chart, beyond what every release may read.

use std::collections::BTreeSet;
use std::fmt;

use super::{LookupCall, LookupNamespace};

/// A value for the key `lookup` in watches.yaml. `Display` formats it as YAML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupGrant {
    /// Namespaces other than the release's own.
    pub namespaces: BTreeSet<String>,
    /// Whether all namespaces are needed, because the namespace is known only during a render.
    pub all: bool,
}

impl LookupGrant {
    /// Returns the grant that these calls need.
    pub fn of<'a>(calls: impl IntoIterator<Item = &'a LookupCall>) -> LookupGrant {
        let mut grant = LookupGrant::default();
        for call in calls {
            match &call.namespace {
                _ if call.is_open() => {}
                LookupNamespace::Constant(namespace) | LookupNamespace::Default { namespace, .. }
                    if !namespace.is_empty() =>
                {
                    grant.namespaces.insert(namespace.clone());
                }
                _ => grant.all = true,
            }
        }
        grant
    }

    /// Returns whether nothing needs to be allowed.
    pub fn is_empty(&self) -> bool {
        !self.all && self.namespaces.is_empty()
    }

    /// Returns whether this grant allows everything that the other one allows.
    pub fn covers(&self, other: &LookupGrant) -> bool {
        self.all || (!other.all && self.namespaces.is_superset(&other.namespaces))
    }
}

impl fmt::Display for LookupGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespaces: Vec<&str> = self.namespaces.iter().map(String::as_str).collect();
        match self.all {
            true => f.write_str("{all: true}"),
            false => write!(f, "{{namespaces: [{}]}}", namespaces.join(", ")),
        }
    }
}

impl LookupCall {
    /// Returns whether every release may make the call: in its own namespace, or for an object that the template names explicitly. A name without a
    /// namespace finds only objects that have no namespace.
    pub fn is_open(&self) -> bool {
        match &self.namespace {
            LookupNamespace::Own => true,
            LookupNamespace::Constant(namespace) => {
                let is_spelled_out = self.kind.is_some() && self.name.is_some();
                is_spelled_out || (namespace.is_empty() && self.name.as_deref() != Some(""))
            }
            LookupNamespace::Default { .. } | LookupNamespace::Computed => false,
        }
    }
}

/// Shows the location and the namespace: `web/templates/a.yaml:3 looks up a Secret in the namespace of the value operator.namespace ("far")`.
impl fmt::Display for LookupCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_deref().unwrap_or("an object");
        write!(f, "{}:{} looks up {kind} in ", self.template, self.line)?;
        match &self.namespace {
            LookupNamespace::Own => f.write_str("the release's namespace"),
            LookupNamespace::Constant(namespace) if namespace.is_empty() => f.write_str("all namespaces"),
            LookupNamespace::Constant(namespace) => write!(f, "namespace {namespace:?}"),
            LookupNamespace::Default { path, namespace } => {
                write!(f, "the namespace that the value {path} names ({namespace:?} by default)")
            }
            LookupNamespace::Computed => f.write_str("a namespace that its templates compute"),
        }
    }
}
