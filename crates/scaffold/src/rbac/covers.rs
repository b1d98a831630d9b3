//! Decides whether rules grant a permission, as the API server's RBAC authorizer does. Counterpart:
//! `pkg/apis/rbac/v1/evaluation_helpers.go`.

use serde_json::Value as Json;

/// Returns whether the rules grant the verb on all objects of the resource.
pub(super) fn covers(granted: &[Json], group: &str, resource: &str, verb: &str) -> bool {
    covers_named(granted, group, resource, None, verb)
}

/// Returns whether the rules grant the verb on the object with this name; `None` stands for all objects.
pub(super) fn covers_named(granted: &[Json], group: &str, resource: &str, name: Option<&str>, verb: &str) -> bool {
    granted.iter().any(|rule| {
        let names = list(rule, "resourceNames");
        let is_for_name = names.is_empty() || name.is_some_and(|name| names.contains(&name));
        is_for_name && has(rule, "apiGroups", group) && has(rule, "verbs", verb) && has_resource(rule, resource)
    })
}

/// Returns whether the rules grant the verb on a non-resource URL.
pub(super) fn covers_url(granted: &[Json], url: &str, verb: &str) -> bool {
    let matches = |known: &&str| *known == url || known.strip_suffix('*').is_some_and(|start| url.starts_with(start));
    granted.iter().any(|rule| has(rule, "verbs", verb) && list(rule, "nonResourceURLs").iter().any(&matches))
}

/// Returns whether a rule includes the resource. `*` means all resources and subresources, `*/scale` this subresource
/// of all.
fn has_resource(rule: &Json, resource: &str) -> bool {
    let of_all = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    has(rule, "resources", resource) || of_all.is_some_and(|of_all| list(rule, "resources").contains(&of_all.as_str()))
}

fn has(rule: &Json, key: &str, wanted: &str) -> bool {
    let all = list(rule, key);
    all.contains(&wanted) || all.contains(&"*")
}

/// Returns the strings of a rule's list.
pub(super) fn list<'a>(rule: &'a Json, key: &str) -> Vec<&'a str> {
    rule[key].as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stars_names_and_subresources_count_as_for_the_api_server() {
        let rules = |text: &str| vec![crate::yaml::parse(text).unwrap()];
        let check = |rule: &str, right: (&str, &str, &str), expected: bool| {
            assert_eq!(covers(&rules(rule), right.0, right.1, right.2), expected, "{rule} {right:?}");
        };
        let star = "{apiGroups: ['*'], resources: ['*'], verbs: ['*']}";
        check(star, ("", "pods", "get"), true);
        check(star, ("rbac.authorization.k8s.io", "clusterroles", "escalate"), true);
        check(star, ("apps", "deployments/status", "patch"), true);
        check("{apiGroups: [''], resources: [pods], verbs: ['*']}", ("", "pods/log", "get"), false);
        check("{apiGroups: [''], resources: ['*/log'], verbs: [get]}", ("", "pods/log", "get"), true);
        check("{apiGroups: [''], resources: ['pods/*'], verbs: [get]}", ("", "pods/log", "get"), false);
        check("{apiGroups: [''], resources: [pods], resourceNames: [a], verbs: [get]}", ("", "pods", "get"), false);
        check("{apiGroups: [''], resources: [pods], resourceNames: [], verbs: [get]}", ("", "pods", "get"), true);
        check("{apiGroups: [apps], resources: [pods], verbs: [get]}", ("", "pods", "get"), false);
        let named = rules("{apiGroups: [''], resources: [pods], resourceNames: [a], verbs: [get]}");
        assert!(
            covers_named(&named, "", "pods", Some("a"), "get") && !covers_named(&named, "", "pods", Some("b"), "get")
        );
        let urls = [json!({"nonResourceURLs": ["/metrics", "/healthz/*"], "verbs": ["get"]})];
        assert!(covers_url(&urls, "/metrics", "get") && covers_url(&urls, "/healthz/etcd", "get"));
        assert!(!covers_url(&urls, "/metrics/x", "get") && !covers_url(&urls, "/metrics", "post"));
    }
}
