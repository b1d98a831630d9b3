//! `status.inventory`: the objects of the release, in the form of Flux and of `cli-utils`, for tools that show a
//! resource with its objects. Pure.

use helm_release::kube::ObjectKey;
use serde::Serialize;

/// The maximum number of objects in the status, because each list of resources contains them.
pub(crate) const MAX_ENTRIES: usize = 100;
/// The maximum size of an object in the status, in bytes of JSON. Those with longer names are only counted.
pub(crate) const MAX_ENTRY_BYTES: usize = 150;

/// The objects of a release.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Inventory {
    entries: Vec<Entry>,
    /// How many objects are not listed, because there are too many or their names are too long.
    #[serde(skip_serializing_if = "is_zero")]
    omitted: usize,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Entry {
    /// `NAMESPACE_NAME_GROUP_KIND`; the namespace is empty for cluster-scoped objects, the group for the core group.
    id: String,
    /// The version of the kind.
    v: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Inventory {
    /// Lists objects with the `apiVersion` in which each was applied, in their order.
    pub(crate) fn of<'o>(objects: impl IntoIterator<Item = (&'o ObjectKey, &'o str)>) -> Inventory {
        let mut inventory = Inventory::default();
        for (key, api_version) in objects {
            let entry = Entry { id: id(key), v: version(api_version).to_owned() };
            if inventory.entries.len() < MAX_ENTRIES && entry.size() <= MAX_ENTRY_BYTES {
                inventory.entries.push(entry);
            } else {
                inventory.omitted += 1;
            }
        }
        inventory
    }
}

impl Entry {
    /// Returns its size in JSON with the comma after it. Names and versions need no escapes.
    fn size(&self) -> usize {
        r#"{"id":"","v":""},"#.len() + self.id.len() + self.v.len()
    }
}

/// Names an object as `cli-utils` does, which replaces the colons in the names of RBAC's kinds.
fn id(key: &ObjectKey) -> String {
    format!("{}_{}_{}_{}", key.namespace, key.name.replace(':', "__"), key.group, key.kind)
}

fn version(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or(api_version, |(_, version)| version)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn objects_are_named_as_in_flux() {
        let objects = [
            (key("apps", "Deployment", "ns", "web"), "apps/v1"),
            (key("", "Service", "ns", "web"), "v1"),
            (key("rbac.authorization.k8s.io", "ClusterRole", "", "system:web"), "rbac.authorization.k8s.io/v1"),
        ];
        let listed = Inventory::of(objects.iter().map(|(key, version)| (key, *version)));
        let expected = json!({"entries": [
            {"id": "ns_web_apps_Deployment", "v": "v1"},
            {"id": "ns_web__Service", "v": "v1"},
            {"id": "_system__web_rbac.authorization.k8s.io_ClusterRole", "v": "v1"},
        ]});
        assert_eq!(serde_json::to_value(listed).unwrap(), expected);
    }

    #[test]
    fn objects_beyond_the_limits_are_counted() {
        let long = key("", "ConfigMap", "ns", &"x".repeat(MAX_ENTRY_BYTES));
        let short = key("", "ConfigMap", "ns", "a");
        let all = std::iter::once(&long).chain(std::iter::repeat_n(&short, MAX_ENTRIES + 2));
        let listed = Inventory::of(all.map(|key| (key, "v1")));
        assert_eq!((listed.entries.len(), listed.omitted), (MAX_ENTRIES, 3));
        let size = serde_json::to_string(&listed).unwrap().len();
        assert!(size <= MAX_ENTRY_BYTES * MAX_ENTRIES, "{size}");
        let longest = key("", "ConfigMap", "ns", &"x".repeat(MAX_ENTRY_BYTES - 33));
        let entry = &Inventory::of([(&longest, "v1")]).entries;
        assert_eq!(serde_json::to_string(entry).unwrap().len(), MAX_ENTRY_BYTES + 1, "brackets in place of the comma");
    }
}
