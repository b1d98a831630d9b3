//! Compares a recorded object with the one that the chart renders and with the live one. Pure.

use serde_json::{Map, Value, json};

use crate::kube::{MANAGED_BY_LABEL, Object, omits_applied};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The ends of the names of kinds that grant or limit something, of whichever API group: also `ReferenceGrant` and
/// `AuthorizationPolicy`. Less of such an object may allow more.
const GRANTS: [&str; 9] = [
    "Role",
    "Binding",
    "Policy",
    "Grant",
    "Quota",
    "LimitRange",
    "Constraints",
    "Authentication",
    "WebhookConfiguration",
];

const CA_BUNDLE: &str = "caBundle";

/// The fields below which a chart may generate texts: certificates, checksums, passwords in the environment.
const GENERATED: [&str; 3] = [CA_BUNDLE, "annotations", "env"];

/// Returns whether an object must be the chart's or the live one as a whole: a mixture may allow more than either, such as
/// the live image with the chart's privileges. The entries of a Secret or ConfigMap are independent, and any of them may
/// be generated.
pub(super) fn is_whole(object: &Object) -> bool {
    !(object.group().is_empty() && matches!(&*object.kind, "Secret" | "ConfigMap"))
}

/// Returns whether a recorded object is the rendered or the live one as a whole. Of the rendered one, generated texts may
/// differ; of the live one, a grant or limit lacks nothing, and other objects nothing that this operator applied, so that they
/// lack only what the server sets by default. Of the metadata, only labels count: they select objects, and decide what a
/// namespace allows.
pub(super) fn is_as_whole(recorded: &Value, rendered: Option<&Value>, live: &Value) -> bool {
    if rendered.is_some_and(|rendered| shape(recorded) == shape(rendered) && has_labels(recorded, rendered)) {
        return true;
    }
    // Drops what the server sets in a ClusterRole that aggregates others.
    let Ok(sent) = Object::new(live.clone()).map(|live| live.as_sent()) else { return false };
    let all = content(&sent);
    let needed = is_grant(recorded).then_some(&all);
    is_covered(&content(recorded), needed, Some(&all)) && has_labels(recorded, &sent) && !omits_applied(recorded, live)
}

fn is_grant(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    GRANTS.iter().any(|end| kind.ends_with(end))
}

/// Returns whether another object has all labels of a recorded one. Every writer of a release sets the omitted one.
fn has_labels(recorded: &Value, other: &Value) -> bool {
    fn labels(object: &Value) -> Option<&Map<String, Value>> {
        object.pointer("/metadata/labels")?.as_object()
    }
    let has = |(name, value): (&String, &Value)| {
        name == MANAGED_BY_LABEL || labels(other).and_then(|labels| labels.get(name)) == Some(value)
    };
    labels(recorded).into_iter().flatten().all(has)
}

/// Returns an object's content without the texts that the chart may have generated.
fn shape(object: &Value) -> Value {
    // The policies of some controllers match annotations.
    let names = if is_grant(object) { &GENERATED[..1] } else { &GENERATED[..] };
    let mut shape = content(object);
    hide_below(&mut shape, names);
    shape
}

/// Hides the texts below fields of these names. Labels and selectors may have these names, too, with a text as their value:
/// only a CA bundle is itself a generated text.
fn hide_below(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match names.contains(&name.as_str()) && (name == CA_BUNDLE || !value.is_string()) {
                    true => hide_texts(value),
                    false => hide_below(value, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide_below(item, names)),
        _ => {}
    }
}

/// Hides a text, those of a map, or the values of a list of variables.
fn hide_texts(value: &mut Value) {
    let hide = |value: &mut Value| {
        if value.is_string() {
            *value = Value::Null;
        }
    };
    match value {
        Value::Object(texts) => texts.values_mut().for_each(hide),
        Value::Array(variables) => variables.iter_mut().filter_map(|one| one.get_mut("value")).for_each(hide),
        text => hide(text),
    }
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

/// Returns whether each part of a recorded value is rendered or live, and no rendered part is missing. Items of a live list
/// count only under their own names.
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
                    let live = live.and_then(|all| all.get(at)).filter(|live| live.get("name") == item.get("name"));
                    is_covered(item, rendered.and_then(|all| all.get(at)), live)
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
    fn everything_but_the_entries_of_secrets_and_config_maps_is_whole() {
        for (api_version, kind, expected) in [
            ("v1", "Secret", false),
            ("v1", "ConfigMap", false),
            ("v1", "Namespace", true),
            ("apps/v1", "Deployment", true),
            ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", true),
            ("example.com/v1", "Secret", true),
        ] {
            let object = Object::new(object(api_version, kind, json!({}))).unwrap();
            assert_eq!(is_whole(&object), expected, "{api_version} {kind}");
        }
    }

    #[test]
    fn what_grants_or_limits_something_lacks_nothing_of_the_live_one() {
        for (kind, expected) in [
            ("ClusterRole", true),
            ("RoleBinding", true),
            ("NetworkPolicy", true),
            ("AuthorizationPolicy", true),
            ("MutatingAdmissionPolicyBinding", true),
            ("ValidatingWebhookConfiguration", true),
            ("ReferenceGrant", true),
            ("ResourceQuota", true),
            ("LimitRange", true),
            ("SecurityContextConstraints", true),
            ("Deployment", false),
            ("Service", false),
        ] {
            let with = |spec: Value| object("example.com/v1", kind, json!({"spec": spec}));
            let (part, all) = (with(json!({"a": "1"})), with(json!({"a": "1", "only": "x"})));
            assert_eq!(is_as_whole(&part, None, &all), !expected, "{kind}");
            assert!(is_as_whole(&all, None, &all), "{kind}");
        }
    }

    #[test]
    fn a_workload_is_the_charts_apart_from_generated_texts_or_the_live_one() {
        let pod = |image: &str, privileged: bool, checksum: &str, password: &str| {
            let context = json!({"privileged": privileged});
            let env = json!([{"name": "PASSWORD", "value": password}]);
            let container = json!({"name": "a", "image": image, "securityContext": context, "env": env});
            let metadata = json!({"annotations": {"checksum": checksum}});
            let template = json!({"metadata": metadata, "spec": {"containers": [container]}});
            object("apps/v1", "Deployment", json!({"spec": {"replicas": 1, "template": template}}))
        };
        let (live, chart) = (pod("users", false, "1", "old"), pod("charts", true, "2", "new"));
        let mut scaled = pod("charts", true, "1", "old");
        scaled["spec"]["replicas"] = 3.into();
        for (behaviour, recorded, live, expected) in [
            ("the chart's", &chart, &live, true),
            ("the live one", &live, &live, true),
            ("the chart's with generated texts", &pod("charts", true, "1", "old"), &scaled, true),
            ("the live image with the chart's privileges", &pod("users", true, "1", "old"), &live, false),
        ] {
            assert_eq!(is_as_whole(recorded, Some(&chart), live), expected, "{behaviour}");
            assert!(is_covered(recorded, Some(&chart), Some(live)), "{behaviour}");
        }
    }

    #[test]
    fn a_webhook_may_have_a_generated_certificate_but_no_parts_of_two() {
        let webhook = |policy: &str, path: &str, bundle: &str| {
            let service = json!({"name": "s", "namespace": "ns", "path": path});
            let config = json!({"service": service, "caBundle": bundle});
            let webhooks = json!([{"name": "a.b.c", "failurePolicy": policy, "clientConfig": config}]);
            let kind = "ValidatingWebhookConfiguration";
            object("admissionregistration.k8s.io/v1", kind, json!({"webhooks": webhooks}))
        };
        let (live, chart) = (webhook("Ignore", "/old", "b2xk"), webhook("Fail", "/new", "bmV3"));
        assert!(is_as_whole(&webhook("Fail", "/new", "b2xk"), Some(&chart), &live));
        assert!(!is_as_whole(&webhook("Ignore", "/new", "b2xk"), Some(&chart), &live));
    }

    #[test]
    fn a_label_named_env_is_no_generated_text() {
        let service = |env: &str, app: &str| {
            let selector = json!({"env": env, "app": app});
            object("v1", "Service", json!({"spec": {"selector": selector}}))
        };
        let (live, chart) = (service("test", "old"), service("prod", "new"));
        for (recorded, expected) in [(&live, true), (&chart, true), (&service("test", "new"), false)] {
            assert_eq!(is_as_whole(recorded, Some(&chart), &live), expected, "{recorded}");
        }
    }

    #[test]
    fn the_labels_of_a_namespace_are_the_charts_or_live_as_a_whole() {
        let namespace = |enforce: &str, version: &str| {
            let labels = json!({
                "pod-security.kubernetes.io/enforce": enforce, "pod-security.kubernetes.io/enforce-version": version,
                "app.kubernetes.io/managed-by": "chart",
            });
            object("v1", "Namespace", json!({"metadata": {"name": "x", "labels": labels}}))
        };
        let (mut live, chart) = (namespace("baseline", "v1.20"), namespace("restricted", "latest"));
        live["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm".into();
        for (recorded, expected) in
            [(namespace("baseline", "v1.20"), true), (chart.clone(), true), (namespace("restricted", "v1.20"), false)]
        {
            assert_eq!(is_as_whole(&recorded, Some(&chart), &live), expected, "{recorded}");
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
            (
                "the live value of another name",
                &json!([{"name": "A", "value": "2"}]),
                Some(&json!([{"name": "A", "value": "1"}])),
                Some(&json!([{"name": "B", "value": "2"}])),
                false,
            ),
        ] {
            assert_eq!(is_covered(recorded, rendered, live), expected, "{behaviour}");
        }
    }
}
