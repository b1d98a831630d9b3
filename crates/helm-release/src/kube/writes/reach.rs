//! Limits the namespaces and kinds of a release's objects: `objects` in watches.yaml. Checked before anything is
//! written.
//!
//! RBAC limits what an account may do. This limits what a chart's values may do with the operator's permissions.

use std::collections::BTreeSet;
use std::fmt;

use outside::Error;

use crate::kube::objects::decorate::Decoration;
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::writes::apply::{Applier, ApplyError, key_of};

/// The objects that a release may contain. Deletions are not limited: each requires the object's own proof of
/// ownership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The namespaces besides the release's own.
    pub namespaces: Allowed,
    /// The kinds of cluster-scoped objects, as in `kinds`.
    pub cluster_scoped: Allowed,
    /// All kinds: `Deployment` of any group, `Deployment.apps` of one, or `Node.` of the core group.
    pub kinds: Allowed,
}

/// A set of allowed names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Allowed {
    /// Every name.
    #[default]
    Any,
    /// These names only.
    These(BTreeSet<String>),
}

/// Why a release may not contain an object, and the key that allows it. `Display` explains both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfReach {
    /// The object's key.
    pub key: ObjectKey,
    /// The exceeded limit.
    pub limit: Limit,
}

/// A part of a [`Reach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The object's namespace.
    Namespace,
    /// Its kind, which is cluster-scoped.
    ClusterScoped,
    /// Its kind.
    Kind,
}

/// Maximum number of objects that an error lists.
const MAX_SHOWN: usize = 5;

impl Allowed {
    fn has(&self, name: &str) -> bool {
        match self {
            Allowed::Any => true,
            Allowed::These(names) => names.contains(name),
        }
    }

    fn has_kind(&self, key: &ObjectKey) -> bool {
        self.has(&key.kind) || self.has(&format!("{}.{}", key.kind, key.group))
    }
}

impl Reach {
    /// Checks whether a release in the namespace `own` may contain the object.
    ///
    /// # Errors
    /// The release may not contain the object.
    pub fn admits(&self, key: &ObjectKey, own: &str) -> Result<(), OutOfReach> {
        let limit = match &*key.namespace {
            "" if !self.cluster_scoped.has_kind(key) => Limit::ClusterScoped,
            namespace if !namespace.is_empty() && namespace != own && !self.namespaces.has(namespace) => {
                Limit::Namespace
            }
            _ if !self.kinds.has_kind(key) => Limit::Kind,
            _ => return Ok(()),
        };
        Err(OutOfReach { key: key.clone(), limit })
    }
}

impl Applier {
    /// Checks that a release may contain these objects. Objects of a kind that is not served yet are checked when they
    /// are written.
    ///
    /// # Errors
    /// [`ApplyError::OutOfReach`] with every object that it may not contain; or discovery fails.
    pub(crate) async fn check_reach(
        &self,
        objects: impl Iterator<Item = &Object>,
        reach: &Reach,
        decoration: &Decoration,
    ) -> Result<(), ApplyError> {
        let mut refused = Vec::new();
        for object in objects {
            let resource = match self.resource(object).await {
                Err(ApplyError::Failed { source: Error::NoKind { .. }, .. }) => continue,
                found => found?,
            };
            let key = key_of(object, decoration, &resource);
            refused.extend(reach.admits(&key, &decoration.namespace).err());
        }
        if refused.is_empty() { Ok(()) } else { Err(ApplyError::OutOfReach(refused)) }
    }
}

impl fmt::Display for OutOfReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectKey { group, kind, namespace, .. } = &self.key;
        write!(f, "{} is out of the release's reach: ", self.key)?;
        match self.limit {
            Limit::Namespace => write!(
                f,
                "it is in namespace {namespace:?}, which neither the chart's own text nor watches.yaml names; \
                 objects: {{namespaces: [{namespace}]}} in watches.yaml allows it"
            ),
            Limit::ClusterScoped => {
                let dot = if group.is_empty() { "" } else { "." };
                write!(
                    f,
                    "it has no namespace, and neither the chart's own text nor watches.yaml names its kind; \
                     objects: {{clusterScoped: [{kind}{dot}{group}]}} in watches.yaml allows it"
                )
            }
            Limit::Kind => {
                write!(f, "objects: {{kinds: […]}} in watches.yaml does not list {kind}; add it there to allow it")
            }
        }
    }
}

/// Describes the first few objects, and the number of the others.
pub(in crate::kube) fn describe_all(all: &[OutOfReach]) -> String {
    let mut lines: Vec<String> = all.iter().take(MAX_SHOWN).map(ToString::to_string).collect();
    if all.len() > MAX_SHOWN {
        lines.push(format!("and {} more", all.len() - MAX_SHOWN));
    }
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn these(names: &[&str]) -> Allowed {
        Allowed::These(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn limit(reach: &Reach, group: &str, kind: &str, namespace: &str) -> Option<Limit> {
        reach.admits(&ObjectKey::new(group, kind, namespace, "a"), "own").err().map(|refused| refused.limit)
    }

    #[test]
    fn a_release_contains_what_its_reach_names_and_its_own_namespace() {
        let reach = Reach { namespaces: these(&["far"]), cluster_scoped: these(&["ClusterRole"]), kinds: Allowed::Any };
        assert_eq!(limit(&reach, "", "Secret", "own"), None);
        assert_eq!(limit(&reach, "", "Secret", "far"), None);
        assert_eq!(limit(&reach, "", "Secret", "else"), Some(Limit::Namespace));
        assert_eq!(limit(&reach, "rbac.authorization.k8s.io", "ClusterRole", ""), None);
        assert_eq!(limit(&reach, "", "Namespace", ""), Some(Limit::ClusterScoped));
        assert_eq!(limit(&Reach::default(), "", "Namespace", ""), None);
    }

    #[test]
    fn a_list_of_kinds_names_them_with_or_without_group() {
        let reach = Reach { kinds: these(&["Secret", "Deployment.apps", "ClusterRole"]), ..Reach::default() };
        assert_eq!(limit(&reach, "", "Secret", "own"), None);
        assert_eq!(limit(&reach, "apps", "Deployment", "own"), None);
        assert_eq!(limit(&reach, "else", "Deployment", "own"), Some(Limit::Kind));
        assert_eq!(limit(&reach, "", "Namespace", ""), Some(Limit::Kind));
        let reach = Reach { cluster_scoped: these(&["Node."]), ..Reach::default() };
        assert_eq!(limit(&reach, "", "Node", ""), None);
        assert_eq!(limit(&reach, "else", "Node", ""), Some(Limit::ClusterScoped));
    }

    #[test]
    fn a_refusal_names_the_key_that_allows_the_object() {
        let text =
            |limit, namespace| OutOfReach { key: ObjectKey::new("", "Secret", namespace, "a"), limit }.to_string();
        assert!(text(Limit::Namespace, "far").ends_with("objects: {namespaces: [far]} in watches.yaml allows it"));
        assert!(
            text(Limit::ClusterScoped, "").ends_with("objects: {clusterScoped: [Secret]} in watches.yaml allows it")
        );
        assert!(text(Limit::Kind, "").contains("does not list Secret"));
        let (key, limit) = (ObjectKey::new("example.com", "Role", "", "a"), Limit::ClusterScoped);
        assert!(OutOfReach { key, limit }.to_string().contains("{clusterScoped: [Role.example.com]}"));
    }
}
