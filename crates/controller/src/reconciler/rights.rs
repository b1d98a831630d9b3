//! The permissions of a reconciler: `generate rbac` writes its role from them, and the startup checks them.

use kube::Resource;

use super::kind::Kind;
use crate::rights::Need;

/// The permissions that a reconciler needs, besides reading its own resources, changing their metadata, and publishing
/// events.
///
/// ```
/// use controller::reconciler::Rights;
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::{Pod, Secret};
///
/// let rights = Rights::none()
///     .status()
///     .applies::<Deployment>()
///     .reads::<Pod>()
///     .rule("batch", "jobs", &["create"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rights {
    all: Vec<Right>,
    writes_status: bool,
    owns_objects: bool,
}

/// The verbs that are needed on a resource of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    pub group: String,
    pub resource: String,
    pub verbs: Vec<&'static str>,
}

/// The verbs in the order in which roles list them.
const VERBS: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The verbs that a watch and a [`Cache`](super::Cache) need.
const READ: &[&str] = &["get", "list", "watch"];

impl Rights {
    /// Needs no further permission.
    pub fn none() -> Rights {
        Rights::default()
    }

    /// Adds writing the status of the reconciler's resources, as [`Scope::status`](super::Scope::status) does.
    #[must_use]
    pub fn status(self) -> Rights {
        Rights { writes_status: true, ..self }
    }

    /// Adds reading and watching objects, as [`Watching::mapped`](super::Watching::mapped) does.
    #[must_use]
    pub fn reads<K: Resource<DynamicType = ()>>(self) -> Rights {
        self.on::<K>(READ)
    }

    /// Adds watching, creating and changing objects that a resource owns, as [`Scope::apply`](super::Scope::apply)
    /// does.
    #[must_use]
    pub fn applies<K: Resource<DynamicType = ()>>(self) -> Rights {
        let rights = self.on::<K>(READ).on::<K>(&["create", "patch"]);
        Rights { owns_objects: true, ..rights }
    }

    /// Adds watching and deleting objects, as [`Scope::delete`](super::Scope::delete) does.
    #[must_use]
    pub fn deletes<K: Resource<DynamicType = ()>>(self) -> Rights {
        self.on::<K>(READ).on::<K>(&["delete"])
    }

    /// Adds any other rule of a role, on a resource such as `deployments` or `deployments/scale`. The core group is
    /// `""`.
    #[must_use]
    pub fn rule(mut self, group: &str, resource: &str, verbs: &[&'static str]) -> Rights {
        add(&mut self.all, group, resource, verbs);
        self
    }

    fn on<K: Resource<DynamicType = ()>>(self, verbs: &[&'static str]) -> Rights {
        self.rule(&K::group(&()), &K::plural(&()), verbs)
    }

    /// Returns whether the reconciler sets owner references, for which some clusters require an additional permission.
    pub fn owns_objects(&self) -> bool {
        self.owns_objects
    }

    /// Returns all permissions; those of the library on resources of kind `R` come first. It patches finalizers, and the
    /// labels of a ring: a role does not depend on whether the process is a shard.
    pub fn of_reconciler<R: Kind>(&self) -> Vec<Right> {
        let (group, plural) = (R::group(&()), R::plural(&()));
        let mut all = Vec::new();
        add(&mut all, &group, &plural, READ);
        add(&mut all, &group, &plural, &["patch"]);
        if self.writes_status {
            add(&mut all, &group, &format!("{plural}/status"), &["patch"]);
        }
        for right in &self.all {
            add(&mut all, &right.group, &right.resource, &right.verbs);
        }
        all
    }
}

impl Right {
    pub fn need(&self) -> Need<'_> {
        Need { group: &self.group, resource: &self.resource, verbs: &self.verbs, name: None, namespace: None }
    }

    /// Returns whether the permission suffices for a watch of this resource.
    pub fn covers_watch(&self, group: &str, resource: &str) -> bool {
        (&*self.group, &*self.resource) == (group, resource) && ["list", "watch"].iter().all(|v| self.verbs.contains(v))
    }
}

/// Adds verbs on a resource, each once.
fn add(all: &mut Vec<Right>, group: &str, resource: &str, verbs: &[&'static str]) {
    let is_same = |right: &Right| right.group == group && right.resource == resource;
    let at = all.iter().position(is_same).unwrap_or_else(|| {
        all.push(Right { group: group.to_owned(), resource: resource.to_owned(), verbs: Vec::new() });
        all.len() - 1
    });
    let own = &mut all[at].verbs;
    own.extend(verbs);
    own.sort_by_key(|verb| (VERBS.iter().position(|known| known == verb).unwrap_or(VERBS.len()), *verb));
    own.dedup();
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::core::PartialObjectMeta;

    use super::*;

    fn texts(rights: &Rights) -> Vec<String> {
        let all = rights.of_reconciler::<ConfigMap>();
        all.iter().map(|right| format!("{}/{} {}", right.group, right.resource, right.verbs.join(","))).collect()
    }

    #[test]
    fn the_library_reads_and_patches_resources_and_writes_only_what_is_declared() {
        let own = "/configmaps get,list,watch,patch";
        assert_eq!(texts(&Rights::none()), [own], "to set finalizers, and to go to another shard");
        assert_eq!(texts(&Rights::none().status()), [own, "/configmaps/status patch"]);
    }

    #[test]
    fn each_resource_has_one_rule_with_its_verbs_in_order() {
        let rights = Rights::none()
            .deletes::<Deployment>()
            .applies::<Deployment>()
            .reads::<PartialObjectMeta<Pod>>()
            .applies::<ConfigMap>()
            .rule("apps", "deployments/scale", &["update", "get", "use"]);
        let expected = [
            "/configmaps get,list,watch,create,patch",
            "apps/deployments get,list,watch,create,patch,delete",
            "/pods get,list,watch",
            "apps/deployments/scale get,update,use",
        ];
        assert_eq!(texts(&rights), expected);
        assert!(rights.owns_objects() && !Rights::none().reads::<Pod>().owns_objects());
    }

    #[test]
    fn a_watch_needs_list_and_watch() {
        let rights = Rights::none().rule("", "pods", &["list"]).reads::<Deployment>();
        let covers = |group: &str, resource: &str| {
            rights.of_reconciler::<ConfigMap>().iter().any(|right| right.covers_watch(group, resource))
        };
        assert!(covers("apps", "deployments") && covers("", "configmaps"));
        assert!(!covers("", "pods") && !covers("", "deployments"));
    }
}
