//! Who owns how many fields of an object, and who loses some.

use std::collections::BTreeMap;

use helm_release::kube::FIELD_MANAGER;
use serde_json::Value;

/// How many fields each other manager owns: by its name, operation and subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Managers(BTreeMap<[String; 3], usize>);

impl Managers {
    /// Reads `metadata.managedFields`.
    pub(super) fn of(managed_fields: &Value) -> Managers {
        let mut all = BTreeMap::new();
        for entry in managed_fields.as_array().into_iter().flatten().filter(|entry| entry["manager"] != FIELD_MANAGER) {
            let identity = ["manager", "operation", "subresource"];
            let identity = identity.map(|key| entry[key].as_str().unwrap_or_default().to_owned());
            *all.entry(identity).or_default() += leaves(&entry["fieldsV1"]);
        }
        Managers(all)
    }

    /// Returns the managers that own fewer fields afterwards, sorted.
    pub(super) fn losers(&self, after: &Managers) -> Vec<String> {
        let is_loser = |(manager, fields): &(&[String; 3], &usize)| after.0.get(*manager).unwrap_or(&0) < *fields;
        let mut losers: Vec<String> = self.0.iter().filter(is_loser).map(|(manager, _)| manager[0].clone()).collect();
        losers.dedup();
        losers
    }
}

/// Returns how many fields a set has.
fn leaves(fields: &Value) -> usize {
    match fields.as_object() {
        Some(inner) if !inner.is_empty() => inner.values().map(leaves).sum(),
        _ => 1,
    }
}
