//! `status.inventory`: the objects of the release, in the form of Flux and of `cli-utils`, for tools that show a
//! resource with its objects. Pure.

use helm_release::kube::ObjectKey;
use serde::{Deserialize, Serialize};

/// The maximum number of objects in the status, because each list of resources contains them.
pub(crate) const MAX_ENTRIES: usize = 100;
/// The maximum size of an object in the status, in bytes of JSON. Those with longer names are only counted.
pub(crate) const MAX_ENTRY_BYTES: usize = 150;

/// The objects of a release.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inventory {
    entries: Vec<Entry>,
    /// How many objects are not listed, because there are too many or their names are too long.
    #[serde(default, skip_serializing_if = "is_zero")]
    omitted: usize,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Returns the listed objects, each with its `apiVersion`, and how many more there are. Anyone who may write the
    /// status may have changed it, so it is cut to our maximum length, and entries that name no object are only
    /// counted.
    pub(crate) fn objects(&self) -> (Vec<(ObjectKey, String)>, usize) {
        let named: Vec<_> = self.entries.iter().take(MAX_ENTRIES).filter_map(Entry::object).collect();
        let omitted = self.omitted.saturating_add(self.entries.len() - named.len());
        (named, omitted)
    }
}

impl Entry {
    /// Returns its size in JSON with the comma after it. Names and versions need no escapes.
    fn size(&self) -> usize {
        r#"{"id":"","v":""},"#.len() + self.id.len() + self.v.len()
    }

    /// Returns the object that an entry names, with its `apiVersion`.
    fn object(&self) -> Option<(ObjectKey, String)> {
        let (namespace, rest) = self.id.split_once('_')?;
        let (rest, kind) = rest.rsplit_once('_')?;
        let (name, group) = rest.rsplit_once('_')?;
        let name = name.replace("__", ":");
        let version = if group.is_empty() { self.v.clone() } else { format!("{group}/{}", self.v) };
        (!name.is_empty() && !kind.is_empty()).then(|| (ObjectKey::new(group, kind, namespace, &name), version))
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
        assert_eq!(serde_json::to_value(&listed).unwrap(), expected);
        let back = objects.map(|(key, version)| (key, version.to_owned())).to_vec();
        assert_eq!(listed.objects(), (back, 0));
        let odd: Inventory =
            serde_json::from_value(json!({"entries": [{"id": "x", "v": ""}, {"id": "____", "v": "v1"}]})).unwrap();
        assert_eq!(odd.objects(), (vec![], 2));
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
        assert_eq!(serde_json::to_string(entry).unwrap().len(), MAX_ENTRY_BYTES + 1, "brackets instead of the comma");
    }
}
