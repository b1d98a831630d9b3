//! The API server's defaults in a re-applied object. The server in memory sets no defaults. Without this module, a list
//! that an apply replaces as a whole would lose its items' defaults (a StatefulSet's claim templates), a field that is
//! derived from another would be missing, and so would the default of a field that its manager no longer sends.

use serde_json::Value;

/// Adds to an object in memory what the API server added when it received the same apply, and removes what it does not
/// store, such as `hostIPC: false`. The API server applies to the object before the earlier writes, so fields that
/// memory has, or has removed, are left alone.
pub(super) fn add(kept: &mut Value, before: &Value, sent: &Value, answered: &Value) {
    for part in ["spec", "data"] {
        if let Some(kept) = kept.get_mut(part) {
            add_below(kept, &before[part], &sent[part], &answered[part]);
        }
    }
}

fn add_below(kept: &mut Value, before: &Value, sent: &Value, answered: &Value) {
    match (kept, answered) {
        (Value::Object(map), Value::Object(answered)) => {
            for (key, value) in answered {
                match map.get_mut(key) {
                    Some(inner) => add_below(inner, &before[key], &sent[key], value),
                    None if before.get(key).is_none() && sent.get(key).is_none() => {
                        map.insert(key.clone(), value.clone());
                    }
                    None => {}
                }
            }
            let unstored = sent.as_object().into_iter().flatten().filter(|(key, _)| !answered.contains_key(*key));
            unstored.for_each(|(key, _)| _ = map.remove(key));
        }
        (Value::Array(items), Value::Array(answered)) if items.len() == answered.len() => {
            // In a list that is exactly what was sent, earlier items do not matter.
            let is_replaced = sent.as_array().is_some_and(|sent| alike(sent, items));
            for (at, (item, value)) in items.iter_mut().zip(answered).enumerate() {
                let before = if is_replaced { &Value::Null } else { before.get(at).unwrap_or(&Value::Null) };
                if is_part(item, value) {
                    add_below(item, before, sent.get(at).unwrap_or(&Value::Null), value);
                }
            }
        }
        _ => {}
    }
}

/// Returns whether an object in memory lacks a field that it had before.
pub(super) fn has_lost(kept: &Value, before: &Value) -> bool {
    match (kept, before) {
        (Value::Object(kept), Value::Object(before)) => {
            before.iter().any(|(key, value)| kept.get(key).is_none_or(|inner| has_lost(inner, value)))
        }
        (Value::Array(kept), Value::Array(before)) => kept.iter().zip(before).any(|(one, value)| has_lost(one, value)),
        _ => false,
    }
}

/// Restores fields that an apply removed from an object in memory, if the API server would set them to the same value
/// again. `anew` is the object that it would create from what was sent.
pub(super) fn restore(kept: &mut Value, before: &Value, anew: &Value) {
    for part in ["spec", "data"] {
        if let Some(kept) = kept.get_mut(part) {
            restore_below(kept, &before[part], &anew[part]);
        }
    }
}

fn restore_below(kept: &mut Value, before: &Value, anew: &Value) {
    match (kept, anew) {
        (Value::Object(map), Value::Object(anew)) => {
            for (key, value) in anew {
                match map.get_mut(key) {
                    Some(inner) => restore_below(inner, &before[key], value),
                    None if before.get(key) == Some(value) => _ = map.insert(key.clone(), value.clone()),
                    None => {}
                }
            }
        }
        (Value::Array(items), Value::Array(anew)) if items.len() == anew.len() => {
            for (at, (item, value)) in items.iter_mut().zip(anew).enumerate() {
                restore_below(item, before.get(at).unwrap_or(&Value::Null), value);
            }
        }
        _ => {}
    }
}

/// Returns whether items equal those that were sent, ignoring empty structures that the API server adds.
fn alike(sent: &[Value], items: &[Value]) -> bool {
    sent.len() == items.len() && sent.iter().zip(items).all(|(sent, item)| is_part(sent, item) && is_part(item, sent))
}

/// Returns whether one value is part of another. An empty value is part of every value.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Null, _) => true,
        (Value::Object(part), _) if part.is_empty() => true,
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(key, inner)| is_part(inner, whole.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| is_part(part, whole))
        }
        _ => part == whole,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn added(kept: Value, before: Value, sent: Value, answered: Value) -> Value {
        let of = |spec: Value| json!({"kind": "StatefulSet", "spec": spec});
        let mut kept = of(kept);
        add(&mut kept, &of(before), &of(sent), &of(answered));
        kept["spec"].take()
    }

    #[test]
    fn a_list_that_was_replaced_gets_the_defaults_of_its_items_again() {
        let claim = json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
        let mut whole = claim.clone();
        whole["spec"]["volumeMode"] = "Filesystem".into();
        whole["status"] = json!({"phase": "Pending"});
        let mut stored = claim.clone();
        stored["status"] = json!({});
        let list = |one: &Value| json!({"claims": [one]});
        assert_eq!(added(list(&stored), list(&whole), list(&claim), list(&whole)), list(&whole));
        // The API server met other claims, which earlier writes have replaced here.
        let mut other = whole.clone();
        other["metadata"]["name"] = "other".into();
        assert_eq!(added(list(&stored), list(&whole), list(&claim), list(&other)), list(&stored));
        let more = json!({"claims": [whole, other]});
        assert_eq!(added(list(&stored), list(&whole), list(&claim), more), list(&stored));
    }

    #[test]
    fn what_an_apply_gives_up_gets_its_default_again_if_that_is_what_it_was() {
        let object = |spec: Value| json!({"kind": "Service", "spec": spec});
        let before = object(json!({"affinity": "None", "policy": "Local", "ports": [{"port": 1, "protocol": "TCP"}]}));
        let sent = object(json!({"ports": [{"port": 1}]}));
        let anew = object(json!({"affinity": "None", "policy": "Cluster", "ports": [{"port": 1, "protocol": "TCP"}]}));
        let mut kept = sent.clone();
        assert!(has_lost(&kept, &before));
        restore(&mut kept, &before, &anew);
        let expected = json!({"affinity": "None", "ports": [{"port": 1, "protocol": "TCP"}]});
        assert_eq!(kept["spec"], expected, "the policy is not what it was");
        let mut whole = before.clone();
        restore(&mut whole, &before, &anew);
        assert!(!has_lost(&whole, &before) && whole == before);
    }

    #[test]
    fn a_field_that_follows_another_is_added_and_one_that_earlier_writes_decide_stays() {
        let kept = json!({"account": "a", "replicas": 3});
        let before = json!({"replicas": 3, "removed": 1});
        let sent = json!({"account": "a"});
        let answered = json!({"account": "a", "accountToo": "a", "replicas": 1, "removed": 1});
        let expected = json!({"account": "a", "accountToo": "a", "replicas": 3});
        assert_eq!(added(kept, before, sent, answered), expected);
    }

    #[test]
    fn what_the_server_does_not_store_goes() {
        let kept = json!({"hostIPC": false, "replicas": 3, "other": false});
        let sent = json!({"hostIPC": false, "replicas": 3});
        let answered = json!({"replicas": 3});
        assert_eq!(added(kept, Value::Null, sent, answered), json!({"replicas": 3, "other": false}));
    }

    #[test]
    fn a_list_with_items_of_others_keeps_what_was_removed_from_them() {
        let kept = json!({"containers": [{"name": "a", "image": "2"}, {"name": "theirs"}]});
        let before = json!({"containers": [{"name": "a", "image": "1", "removed": 1}, {"name": "theirs"}]});
        let sent = json!({"containers": [{"name": "a", "image": "2"}]});
        let answered =
            json!({"containers": [{"name": "a", "image": "2", "removed": 1, "policy": "Always"}, {"name": "theirs"}]});
        let expected = json!({"containers": [{"name": "a", "image": "2", "policy": "Always"}, {"name": "theirs"}]});
        assert_eq!(added(kept, before, sent, answered), expected);
    }
}
