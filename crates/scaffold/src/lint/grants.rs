//! The permissions of the operator's account, as the API server evaluates roles and bindings.

use serde_json::Value as Json;

use crate::deployment::{Deployment, Watched};
use crate::documents::Document;
use crate::rbac;

/// The permissions of an account.
#[derive(Debug, Default)]
pub(super) struct Grants {
    /// The rules that apply wherever the operator serves resources.
    pub(super) rules: Vec<Json>,
    /// The rules that apply in one namespace only, while the operator serves all.
    pub(super) local: Vec<Json>,
    /// Bound roles that are not in the project.
    pub(super) unknown: Vec<String>,
}

impl Grants {
    /// Collects the permissions that these documents grant to the deployment's account.
    pub(super) fn of(documents: &[Document], deployment: &Deployment) -> Grants {
        let mut grants = Grants::default();
        for binding in documents {
            let is_cluster_wide = match binding.text("/kind") {
                "ClusterRoleBinding" => true,
                "RoleBinding" => deployment.watched != Watched::All,
                _ => continue,
            };
            if !is_bound(binding, deployment) {
                continue;
            }
            match rules(documents, binding) {
                Some(rules) if is_cluster_wide => grants.rules.extend(rules),
                Some(rules) => grants.local.extend(rules),
                None => {
                    grants.unknown.push(format!("{} {}", binding.text("/roleRef/kind"), binding.text("/roleRef/name")))
                }
            }
        }
        grants
    }
}

/// Returns whether a binding names the account, directly or through a group.
fn is_bound(binding: &Document, deployment: &Deployment) -> bool {
    let (account, namespace) = (deployment.account.as_str(), deployment.namespace.as_str());
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let groups = ["system:authenticated", "system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")];
    let subjects = binding.content["subjects"].as_array().into_iter().flatten();
    subjects.into_iter().any(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str() {
            // Kustomize replaces namespaces, so before it runs they mean little.
            Some("ServiceAccount") => name == account,
            Some("User") => name == user,
            Some("Group") => groups.contains(&name),
            _ => false,
        }
    })
}

/// Returns the rules of the role that a binding refers to; `None` if the project does not contain it.
fn rules(documents: &[Document], binding: &Document) -> Option<Vec<Json>> {
    let (kind, name) = (binding.text("/roleRef/kind"), binding.text("/roleRef/name"));
    let role = documents.iter().find(|one| one.text("/kind") == kind && one.text("/metadata/name") == name);
    match role {
        None if kind == "ClusterRole" && name == "cluster-admin" => Some(rbac::cluster_admin()),
        None => None,
        Some(role) if role.content["aggregationRule"].is_object() => Some(aggregated(documents, role)),
        Some(role) => Some(own_rules(role)),
    }
}

fn own_rules(role: &Document) -> Vec<Json> {
    role.content["rules"].as_array().cloned().unwrap_or_default()
}

/// Returns the rules of all ClusterRoles that an aggregated one selects; they replace its own.
fn aggregated(documents: &[Document], role: &Document) -> Vec<Json> {
    let selectors = role.content["aggregationRule"]["clusterRoleSelectors"].as_array().cloned().unwrap_or_default();
    let is_selected = |one: &&Document| {
        one.text("/kind") == "ClusterRole"
            && selectors.iter().any(|selector| selects(selector, &one.content["metadata"]["labels"]))
    };
    documents.iter().filter(is_selected).flat_map(own_rules).collect()
}

fn selects(selector: &Json, labels: &Json) -> bool {
    let wanted = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    wanted.into_iter().all(|(key, value)| labels[key] == *value)
        && expressions.into_iter().all(|one| meets(one, labels))
}

fn meets(expression: &Json, labels: &Json) -> bool {
    let label = &labels[expression["key"].as_str().unwrap_or_default()];
    let is_listed = expression["values"].as_array().is_some_and(|values| values.contains(label));
    match expression["operator"].as_str() {
        Some("In") => is_listed,
        Some("NotIn") => !is_listed,
        Some("Exists") => !label.is_null(),
        Some("DoesNotExist") => label.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Project, documents};

    const ROLE: &str = "
kind: ClusterRole
metadata: {name: a}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
";

    fn binding(kind: &str, role: &str, subject: &str) -> String {
        format!("---\nkind: {kind}\nroleRef: {role}\nsubjects: [{subject}]\n")
    }

    /// Returns the number of rules that apply everywhere, of those that apply in one namespace, and of unknown roles.
    fn counts(text: &str, watched: Watched) -> (usize, usize, usize) {
        let project = Project::from_files([("a.yaml", text)]);
        let deployment = Deployment { account: "own".into(), namespace: "ns".into(), watched };
        let grants = Grants::of(&documents::valid(&project, "a.yaml"), &deployment);
        (grants.rules.len(), grants.local.len(), grants.unknown.len())
    }

    #[test]
    fn subjects_name_the_account_or_its_groups() {
        let check = |subject: &str, expected: usize| {
            let text = format!("{ROLE}{}", binding("ClusterRoleBinding", "{kind: ClusterRole, name: a}", subject));
            assert_eq!(counts(&text, Watched::All), (expected, 0, 0), "{subject}");
        };
        check("{kind: ServiceAccount, name: own, namespace: system}", 1);
        check("{kind: ServiceAccount, name: default, namespace: system}", 0);
        check("{kind: User, name: 'system:serviceaccount:ns:own'}", 1);
        check("{kind: Group, name: 'system:serviceaccounts:ns'}", 1);
        check("{kind: Group, name: 'system:serviceaccounts'}", 1);
        check("{kind: Group, name: 'system:masters'}", 0);
    }

    #[test]
    fn a_role_binding_counts_in_its_namespace() {
        let text = format!(
            "{ROLE}{}",
            binding("RoleBinding", "{kind: ClusterRole, name: a}", "{kind: ServiceAccount, name: own}")
        );
        assert_eq!(counts(&text, Watched::All), (0, 1, 0));
        assert_eq!(counts(&text, Watched::Own), (1, 0, 0));
    }

    #[test]
    fn aggregated_and_built_in_roles_are_known_and_others_are_said_to_be_unknown() {
        let account = "{kind: ServiceAccount, name: own}";
        let all = "---\nkind: ClusterRole\nmetadata: {name: all}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {in: 'yes'}}, {matchExpressions: [{key: also, operator: Exists}]}]}\nrules: [{}, {}, {}]\n";
        let parts: String = ["{in: 'yes'}", "{also: x}", "{in: 'no'}"]
            .iter()
            .map(|labels| format!("---\nkind: ClusterRole\nmetadata: {{name: b, labels: {labels}}}\nrules: [{{}}]\n"))
            .collect();
        let text = format!("{all}{parts}{}", binding("ClusterRoleBinding", "{kind: ClusterRole, name: all}", account));
        assert_eq!(counts(&text, Watched::All), (2, 0, 0));
        let admin = binding("ClusterRoleBinding", "{kind: ClusterRole, name: cluster-admin}", account);
        assert_eq!(counts(&admin, Watched::All), (2, 0, 0));
        let view = binding("ClusterRoleBinding", "{kind: ClusterRole, name: view}", account);
        assert_eq!(counts(&view, Watched::All), (0, 0, 1));
    }
}
