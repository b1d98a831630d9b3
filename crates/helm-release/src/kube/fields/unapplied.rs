//! Marks our entry of managed fields while it holds fields whose values we have not set yet: from the moment it gains
//! other managers' fields, or fields that block an apply, until the next apply.
//!
//! A process may die between the two writes. Without a mark, our entry would look as it does after an apply, over values
//! that others wrote: neither a watch nor a read would show the drift. The mark is the name of an annotation that no
//! object has. Since an apply replaces our entry, it also removes the mark.

use serde_json::{Value, json};

use crate::kube::fields::migrate::{union, without};
use crate::kube::fields::unowned::is_ours;

/// The annotation, as managed fields name it.
const UNAPPLIED: &str = "f:helm.sdk.operatorframework.io/unapplied";

/// Returns the managed fields with our entry marked.
pub(in crate::kube) fn as_unapplied(managers: Value) -> Value {
    changed(managers, |fields| union(fields, &mark(), 0))
}

/// Returns the managed fields without the mark; `None` if they are not marked.
pub(in crate::kube) fn as_applied(managers: &Value) -> Option<Value> {
    is_unapplied(managers).then(|| changed(managers.clone(), |fields| *fields = without(fields, &mark(), 0)))
}

/// Returns whether our entry is marked.
pub(in crate::kube) fn is_unapplied(managers: &Value) -> bool {
    let is_marked = |entry: &Value| !entry["fieldsV1"]["f:metadata"]["f:annotations"][UNAPPLIED].is_null();
    managers.as_array().into_iter().flatten().any(|entry| is_ours(entry) && is_marked(entry))
}

fn mark() -> Value {
    json!({"f:metadata": {"f:annotations": {UNAPPLIED: {}}}})
}

/// Changes the fields of our entry.
fn changed(mut managers: Value, change: impl Fn(&mut Value)) -> Value {
    let entries = managers.as_array_mut().into_iter().flatten();
    entries.filter(|entry| is_ours(entry)).for_each(|entry| change(&mut entry["fieldsV1"]));
    managers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::objects::decorate::FIELD_MANAGER;

    fn entry(manager: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Apply", "fieldsV1": fields})
    }

    #[test]
    fn only_our_entry_is_marked_and_the_mark_leaves_no_trace() {
        let annotated = json!({"f:data": {"f:a": {}}, "f:metadata": {"f:annotations": {"f:note": {}}}});
        for fields in [annotated, json!({"f:data": {"f:a": {}}})] {
            let before = json!([entry("helm", &fields), entry(FIELD_MANAGER, &fields)]);
            let marked = as_unapplied(before.clone());
            assert_eq!((marked[0] == before[0], marked[1] == before[1]), (true, false), "{fields}");
            assert_eq!(marked[1]["fieldsV1"]["f:data"], fields["f:data"]);
            assert_eq!((is_unapplied(&before), is_unapplied(&marked)), (false, true));
            assert_eq!(as_unapplied(marked.clone()), marked);
            assert_eq!((as_applied(&marked), as_applied(&before)), (Some(before), None));
        }
    }

    #[test]
    fn entries_of_others_and_unexpected_ones_are_not_marked() {
        let marked = entry("helm", &mark());
        for managers in [json!(null), json!([]), json!([marked]), json!([entry(FIELD_MANAGER, &json!("text"))])] {
            assert_eq!((is_unapplied(&managers), as_unapplied(managers.clone())), (false, managers));
        }
    }
}
