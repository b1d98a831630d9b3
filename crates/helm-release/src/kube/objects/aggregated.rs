//! Drops the rules of aggregated ClusterRoles, which Kubernetes sets.
//!
//! The controller manager collects them from the roles that `aggregationRule` selects, and overwrites all others.
//! Applying the chart's rules, usually none, would take permissions away until it acts again.

use outside::group_of;
use serde_json::Value;

/// Removes the rules of a ClusterRole with an `aggregationRule`.
pub(in crate::kube) fn drop_rules(body: &mut Value) {
    let is_aggregated = is_cluster_role(body) && body["aggregationRule"].is_object();
    if let Some(fields) = body.as_object_mut().filter(|_| is_aggregated) {
        fields.remove("rules");
    }
}

fn is_cluster_role(body: &Value) -> bool {
    let group = group_of(body["apiVersion"].as_str().unwrap_or_default());
    group == "rbac.authorization.k8s.io" && body["kind"] == "ClusterRole"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dropped(mut body: Value) -> Value {
        drop_rules(&mut body);
        body
    }

    fn role(aggregation: &Value) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "aggregationRule": aggregation})
    }

    #[test]
    fn aggregated_cluster_roles_lose_their_rules() {
        let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {"in": "all"}}]});
        for rules in [json!([]), json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]), Value::Null] {
            let mut body = role(&selectors);
            body["rules"] = rules;
            assert_eq!(dropped(body), role(&selectors));
        }
        assert_eq!(dropped(role(&selectors)), role(&selectors));
    }

    #[test]
    fn other_roles_and_shapes_are_unchanged() {
        let with = |body: &Value, key: &str, value: Value| {
            let mut body = body.clone();
            body[key] = value;
            body
        };
        let aggregated = with(&role(&json!({})), "rules", json!([]));
        for body in [
            with(&aggregated, "aggregationRule", Value::Null),
            with(&aggregated, "aggregationRule", json!([])),
            with(&aggregated, "kind", json!("Role")),
            with(&aggregated, "apiVersion", json!("example.com/v1")),
            json!([]),
        ] {
            assert_eq!(dropped(body.clone()), body);
        }
    }
}
