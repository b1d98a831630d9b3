//! What is kept of a live object's managed fields until the object is written.
//!
//! An action reads all its objects before it writes the first, and others decide how many fields an object has.

use serde_json::Value;

use crate::kube::fields::migrate::migrated_managers;

/// Maximum size of the managed fields that are kept for a write, as JSON in bytes. Most objects have less, so taking
/// them over costs one read.
const MAX_KEPT: usize = 4 << 10;

static NONE: Value = Value::Null;

/// The managed fields of a live object.
#[derive(Clone, Debug)]
pub(in crate::kube) enum ManagedFields {
    /// They are as they were read.
    Known(Value),
    /// They are not kept, because none of them becomes ours.
    Stay,
    /// They are not kept, but some of them become ours: they are read again before the write.
    Move,
}

impl ManagedFields {
    /// Keeps them only if some of them become ours, and they are few. `owner` is the owner's uid; empty if there is no
    /// owner.
    pub(in crate::kube) fn reduced(self, owner: &str) -> ManagedFields {
        let ManagedFields::Known(fields) = &self else { return self };
        match migrated_managers(fields, owner) {
            None => ManagedFields::Stay,
            Some(_) if fields.to_string().len() > MAX_KEPT => ManagedFields::Move,
            Some(_) => self,
        }
    }

    /// Returns them as JSON; `null` if they are not kept.
    pub(in crate::kube) fn json(&self) -> &Value {
        match self {
            ManagedFields::Known(fields) => fields,
            ManagedFields::Stay | ManagedFields::Move => &NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_are_kept_only_if_some_become_ours_and_they_are_few() {
        let of = |manager: &str, count: usize| {
            let fields: Value = (0..count).map(|n| (format!("f:{n:07}"), json!({}))).collect();
            let entry = json!({"manager": manager, "operation": "Update", "fieldsV1": {"f:metadata": fields}});
            ManagedFields::Known(json!([entry])).reduced("u1")
        };
        assert!(matches!(of("kubectl", 30_000), ManagedFields::Stay));
        assert!(matches!(of("helm", 30_000), ManagedFields::Move));
        assert!(matches!(of("kubectl", 3), ManagedFields::Stay));
        let few = of("helm", 3);
        assert_eq!(few.json()[0]["manager"], "helm");
    }
}
