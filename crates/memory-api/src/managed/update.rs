//! Ownership after a create, replace or patch.

use serde_json::{Value, json};

use super::{By, Entry, Identity, Managers, Operation, compared, strip, take_managed, unmanaged};
use crate::schema::Type;

/// Records in `new` the owners of its fields after a write over `live`, which has no uid for a create.
pub(crate) fn update(of: &Type, live: &Value, new: &mut Value, by: &By) {
    let is_reset = |fields: &Value| fields == &json!([]) || fields == &json!([{}]);
    let mut managers = match new["metadata"].get("managedFields") {
        Some(fields) if by.subresource.is_empty() && is_reset(fields) => Managers::default(),
        Some(fields) if by.subresource.is_empty() && !fields.is_null() => Managers::of(new),
        _ => Managers::of(live),
    };
    let exists = live["metadata"]["uid"].is_string();
    if managers.entries.is_empty() && exists {
        return managers.write(new);
    }
    take_managed(new);
    track(&mut managers, of, (&unmanaged(live), new), by);
    managers.cap();
    managers.write(new);
}

/// Gives the writer ownership of the fields that it changed, and removes them and the deleted fields from all other
/// managers.
pub(super) fn track(managers: &mut Managers, of: &Type, (live, new): (&Value, &Value), by: &By) {
    let comparison = compared(of, live, new, by);
    let mut written = comparison.written();
    managers.subtract(&written, None);
    managers.subtract(&comparison.removed, None);
    strip(&mut written);
    if written.is_empty() {
        return;
    }
    let identity = Identity {
        operation: Operation::Update,
        manager: by.manager.to_owned(),
        api_version: by.api_version.to_owned(),
        subresource: by.subresource.to_owned(),
    };
    let entry = managers.entries.entry(identity).or_insert_with(|| Entry {
        api_version: by.api_version.to_owned(),
        time: String::new(),
        fields: Default::default(),
    });
    entry.fields.add(&written);
    by.now.clone_into(&mut entry.time);
}
