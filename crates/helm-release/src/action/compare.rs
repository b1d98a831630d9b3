//! Compares a recorded object with the one that the chart renders and with the live one. Pure.

use serde_json::{Map, Value, json};

use crate::kube::Object;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns whether an object grants or limits something. A mixture of the chart's and the live one, or a part of the live
/// one, may then allow more than either.
pub(super) fn is_whole(object: &Object) -> bool {
    match object.group() {
        // OpenShift also serves roles and bindings in its own group.
        RBAC | "authorization.openshift.io" => true,
        "" => matches!(&*object.kind, "LimitRange" | "ResourceQuota"),
        "networking.k8s.io" => object.kind == "NetworkPolicy",
        _ => false,
    }
}

/// Returns whether a recorded object is the rendered or the live one as a whole. Of its metadata, only the labels of a
/// ClusterRole count: they add its rules to roles that aggregate others.
pub(super) fn is_as_whole(recorded: &Value, rendered: Option<&Value>, live: &Value) -> bool {
    let wanted = content(recorded);
    if rendered.is_some_and(|rendered| content(rendered) == wanted && has_labels(recorded, rendered)) {
        return true;
    }
    // Drops what the server sets in a ClusterRole that aggregates others.
    let Ok(live) = Object::new(live.clone()).map(|live| live.as_sent()) else { return false };
    let all = content(&live);
    is_covered(&wanted, Some(&all), Some(&all)) && has_labels(recorded, &live)
}

/// Returns whether another object has all labels of a recorded ClusterRole.
fn has_labels(recorded: &Value, other: &Value) -> bool {
    fn labels(object: &Value) -> Option<&Map<String, Value>> {
        object.pointer("/metadata/labels")?.as_object()
    }
    let is_role = recorded["kind"] == "ClusterRole";
    let has = |(name, value): (&String, &Value)| labels(other).and_then(|labels| labels.get(name)) == Some(value);
    !is_role || labels(recorded).into_iter().flatten().all(has)
}

/// Returns an object without its metadata and status, as the server would store it: an empty list equals a missing one,
/// and defaults are set.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.remove("metadata");
        fields.remove("status");
    }
    drop_empty_lists(&mut content);
    content.get_mut("roleRef").into_iter().for_each(set_group);
    content.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten().for_each(set_group);
    let is_policy = content["kind"] == "NetworkPolicy";
    if let Some(spec) = content.get_mut("spec").and_then(Value::as_object_mut).filter(|_| is_policy) {
        set_policy_defaults(spec);
    }
    content
}

fn drop_empty_lists(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| value.as_array().is_none_or(|items| !items.is_empty()));
            fields.values_mut().for_each(drop_empty_lists);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_lists),
        _ => {}
    }
}

/// Sets the default group of a binding's role or subject. Service accounts are in the core group, which is omitted.
fn set_group(reference: &mut Value) {
    let Some(fields) = reference.as_object_mut() else { return };
    if fields.get("apiGroup").is_some_and(|group| *group != "") {
        return;
    }
    if fields.get("kind").is_some_and(|kind| *kind == "ServiceAccount") {
        fields.remove("apiGroup");
    } else {
        fields.insert("apiGroup".into(), RBAC.into());
    }
}

fn set_policy_defaults(spec: &mut Map<String, Value>) {
    let types = if spec.contains_key("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    spec.entry("policyTypes").or_insert(types);
    spec.entry("podSelector").or_insert_with(|| json!({}));
    for direction in ["ingress", "egress"] {
        let rules = spec.get_mut(direction).and_then(Value::as_array_mut).into_iter().flatten();
        let ports = rules.filter_map(|rule| rule.get_mut("ports")?.as_array_mut()).flatten();
        for port in ports.filter_map(Value::as_object_mut) {
            port.entry("protocol").or_insert_with(|| "TCP".into());
        }
    }
}

/// Returns whether each part of a recorded value is rendered or live, and no rendered part is missing.
pub(super) fn is_covered(recorded: &Value, rendered: Option<&Value>, live: Option<&Value>) -> bool {
    if rendered == Some(recorded) {
        return true;
    }
    match recorded {
        Value::Object(fields) => {
            let has_all = |rendered: &Map<String, Value>| rendered.keys().all(|name| fields.contains_key(name));
            let rendered = rendered.and_then(Value::as_object);
            (rendered.is_some() || live.is_some_and(Value::is_object))
                && rendered.is_none_or(has_all)
                && fields.iter().all(|(name, value)| {
                    is_covered(value, rendered.and_then(|all| all.get(name)), live.and_then(|live| live.get(name)))
                })
        }
        Value::Array(items) => {
            let same_length =
                |of: Option<&'_ Value>| of.and_then(Value::as_array).is_some_and(|all| all.len() == items.len());
            let (rendered, live) = (rendered.filter(|_| same_length(rendered)), live.filter(|_| same_length(live)));
            (rendered.is_some() || live.is_some())
                && items.iter().enumerate().all(|(at, item)| {
                    is_covered(item, rendered.and_then(|all| all.get(at)), live.and_then(|all| all.get(at)))
                })
        }
        Value::Null => live.is_none_or(Value::is_null),
        leaf => live.is_some_and(|live| live == leaf || (leaf.is_number() && live.as_f64() == leaf.as_f64())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an object of this kind with these fields.
    fn object(api_version: &str, kind: &str, fields: Value) -> Value {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        object
    }

    #[test]
    fn what_grants_or_limits_something_is_whole() {
        for (api_version, kind, expected) in [
            ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", true),
            ("authorization.openshift.io/v1", "Role", true),
            ("networking.k8s.io/v1", "NetworkPolicy", true),
            ("networking.k8s.io/v1", "Ingress", false),
            ("v1", "ResourceQuota", true),
            ("v1", "LimitRange", true),
            ("v1", "Secret", false),
            ("example.com/v1", "ResourceQuota", false),
        ] {
            let object = Object::new(object(api_version, kind, json!({}))).unwrap();
            assert_eq!(is_whole(&object), expected, "{api_version} {kind}");
        }
    }

    #[test]
    fn a_role_is_the_charts_or_the_live_one_as_a_whole() {
        let role = |label: &str, resource: &str, verb: &str, names: &[&str]| {
            let rule = json!({"apiGroups": [""], "resources": [resource], "verbs": [verb], "resourceNames": names});
            let metadata = json!({"name": "x", "labels": {(label): "true"}});
            object("rbac.authorization.k8s.io/v1", "ClusterRole", json!({"metadata": metadata, "rules": [rule]}))
        };
        let (old, new) = (role("old", "secrets", "get", &["a"]), role("new", "configmaps", "delete", &["a"]));
        for (behaviour, recorded, rendered, expected) in [
            ("the chart's", &new, Some(&new), true),
            ("the live one", &old, Some(&new), true),
            ("the live one, which the chart no longer renders", &old, None, true),
            ("parts of both", &role("new", "secrets", "delete", &["a"]), Some(&new), false),
            ("the live one for all names", &role("old", "secrets", "get", &[]), None, false),
            ("the chart's for all names", &role("new", "configmaps", "delete", &[]), Some(&new), false),
            ("the chart's with a live label", &role("old", "configmaps", "delete", &["a"]), Some(&new), false),
        ] {
            assert_eq!(is_as_whole(recorded, rendered, &old), expected, "{behaviour}");
        }
    }

    #[test]
    fn what_the_server_sets_is_no_part_that_is_missing() {
        let rbac = "rbac.authorization.k8s.io/v1";
        let binding =
            |subjects: Value, role: Value| object(rbac, "RoleBinding", json!({"subjects": subjects, "roleRef": role}));
        let aggregated =
            |rules: Value| object(rbac, "ClusterRole", json!({"aggregationRule": {"x": "y"}, "rules": rules}));
        let policy = |spec: Value| object("networking.k8s.io/v1", "NetworkPolicy", json!({"spec": spec}));
        let group = "rbac.authorization.k8s.io";
        let policies = [
            policy(json!({"podSelector": {}, "ingress": [{"ports": [{"port": 1}]}], "egress": []})),
            policy(
                json!({"podSelector": {}, "ingress": [{"ports": [{"port": 1, "protocol": "TCP"}]}], "policyTypes": ["Ingress"]}),
            ),
            policy(
                json!({"podSelector": {}, "ingress": [{"ports": [{"port": 1, "protocol": "TCP"}]}], "policyTypes": ["Ingress", "Egress"]}),
            ),
        ];
        let quota = |more: Value| {
            let mut quota = object("v1", "ResourceQuota", more);
            quota["spec"] = json!({"hard": {"pods": "1"}});
            quota
        };
        for (behaviour, recorded, live, expected) in [
            (
                "groups",
                &binding(
                    json!([{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "apiGroup": ""}]),
                    json!({"kind": "Role", "name": "r"}),
                ),
                &binding(
                    json!([{"kind": "User", "name": "u", "apiGroup": group}, {"kind": "ServiceAccount", "name": "s"}]),
                    json!({"kind": "Role", "name": "r", "apiGroup": group}),
                ),
                true,
            ),
            ("aggregated rules", &aggregated(json!([])), &aggregated(json!([{"verbs": ["get"]}])), true),
            ("types and protocols", &policies[0], &policies[1], true),
            ("a type that is not the default", &policies[0], &policies[2], false),
            ("the status", &quota(json!({})), &quota(json!({"status": {"used": {"pods": "1"}}})), true),
            ("a limit", &object("v1", "ResourceQuota", json!({"spec": {"hard": {}}})), &quota(json!({})), false),
        ] {
            let recorded = Object::new(recorded.clone()).unwrap().as_sent();
            assert_eq!(is_as_whole(&recorded, None, live), expected, "{behaviour}");
        }
    }

    #[test]
    fn a_recorded_value_is_the_charts_or_live_and_lacks_nothing_of_the_chart() {
        let (old, new) = (json!({"data": {"password": "b2xk"}}), json!({"data": {"password": "bmV3"}}));
        let more = json!({"data": {"password": "b2xk", "extra": "eA=="}});
        let roles = |names: &[&str]| json!({"subjects": names});
        for (behaviour, recorded, rendered, live, expected) in [
            ("rendered", &old, Some(&old), None, true),
            ("a generated value that is live", &old, Some(&new), Some(&old), true),
            ("a generated value that is not live", &old, Some(&new), Some(&new), false),
            ("a value that nobody has", &old, Some(&new), None, false),
            ("a field that the chart lacks, and live", &more, Some(&old), Some(&more), true),
            ("a field that the chart lacks, and not live", &more, Some(&old), Some(&old), false),
            ("without a field that the chart has", &old, Some(&more), Some(&old), false),
            ("no longer rendered, and live", &old, None, Some(&old), true),
            ("no longer rendered, and not live", &old, None, None, false),
            ("a whole number", &json!(3), None, Some(&json!(3.0)), true),
            ("a null that is absent", &json!({"a": null}), None, Some(&json!({})), true),
            ("an empty map that is absent", &json!({"a": {}}), None, Some(&json!({})), false),
            (
                "items, one of them live",
                &roles(&["a", "b"]),
                Some(&roles(&["a", "c"])),
                Some(&roles(&["x", "b"])),
                true,
            ),
            ("one item more", &roles(&["a", "b"]), Some(&roles(&["a"])), Some(&roles(&["a"])), false),
            ("one item more, all live", &roles(&["a", "b"]), Some(&roles(&["a"])), Some(&roles(&["a", "b"])), true),
            ("no items", &roles(&[]), Some(&roles(&["a"])), Some(&roles(&["a"])), false),
        ] {
            assert_eq!(is_covered(recorded, rendered, live), expected, "{behaviour}");
        }
    }
}
