//! Prints an API's role.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::needs::{ACCOUNT_VERBS, Needs};
use crate::deployment::Deployment;
use crate::gvk::Gvk;

/// Returns the role and its binding, both named `name`. Each rule has a comment with its reason.
pub(super) fn print(name: &str, gvk: &Gvk, plural: &str, needs: &Needs, deployment: &Deployment) -> String {
    let group = scalar(&gvk.group);
    let mut text = format!(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {name}-role
rules:
- apiGroups: [{group}]
  resources: [{plural}]
  verbs: [get, list, watch, patch] # get: after a conflict
- apiGroups: [{group}]
  resources: [{plural}/status]
  verbs: [patch]
"
    );
    text.push_str(&FINALIZERS.replace("__group__", &group).replace("__plural__", plural));
    print_accounts(needs, &mut text);
    print_resources(needs, &mut text);
    print_rights(needs, &mut text);
    text.push_str(&binding(name, deployment));
    text
}

/// The rule to own objects.
pub(super) const FINALIZERS: &str = "\
# For owner references with blockOwnerDeletion, where the cluster checks them.
- apiGroups: [__group__]
  resources: [__plural__/finalizers]
  verbs: [update]
";

/// Returns a binding of the role with this name to the operator's account.
pub(super) fn binding(name: &str, deployment: &Deployment) -> String {
    let words = [("__name__", name), ("__account__", &deployment.account), ("__namespace__", &deployment.namespace)];
    words.iter().fold(BINDING.to_owned(), |text, (place, word)| text.replace(place, word))
}

const BINDING: &str = "\
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: __name__-rolebinding
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: __name__-role
subjects:
- kind: ServiceAccount
  name: __account__
  namespace: __namespace__
";

/// Prints one rule for the accounts that write objects.
fn print_accounts(needs: &Needs, text: &mut String) {
    let accounts: Vec<String> = needs.accounts.iter().map(|name| scalar(name)).collect();
    if !accounts.is_empty() {
        let _ = writeln!(
            text,
            "# serviceAccountName in watches.yaml.\n- apiGroups: [\"\"]\n  resources: [serviceaccounts]\n  resourceNames: [{}]\n  verbs: [{}]",
            accounts.join(", "),
            ACCOUNT_VERBS.join(", ")
        );
    }
}

/// A rule on objects; each resource has the place that needs it.
struct Rule<'a> {
    group: &'a str,
    verbs: &'a [&'static str],
    resources: Vec<(&'a str, &'a str)>,
}

/// Prints one rule per group and set of verbs.
fn print_resources(needs: &Needs, text: &mut String) {
    let mut rules: Vec<Rule<'_>> = Vec::new();
    for ((group, resource), need) in &needs.resources {
        let entry = (resource.as_str(), need.why.as_str());
        match rules.iter_mut().find(|rule| rule.group == group && rule.verbs == need.verbs) {
            Some(rule) => rule.resources.push(entry),
            None => rules.push(Rule { group, verbs: &need.verbs, resources: vec![entry] }),
        }
    }
    for rule in rules {
        let _ = writeln!(text, "- apiGroups: [{}]\n  resources:", scalar(rule.group));
        for (resource, why) in rule.resources {
            let _ = writeln!(text, "  - {} # {}", scalar(resource), one_line(why));
        }
        let _ = writeln!(text, "  verbs: [{}]{}", rule.verbs.join(", "), when(rule.verbs));
    }
}

/// Returns a comment on a verb that most runs do not use.
fn when(verbs: &[&str]) -> &'static str {
    let has = |verb| verbs.contains(&verb);
    // Objects of hooks are deleted, but never watched.
    let is_hooks = has("delete") && !has("watch");
    if is_hooks && has("patch") { " # patch: over what an earlier hook left" } else { "" }
}

fn print_rights(needs: &Needs, text: &mut String) {
    if !needs.held.is_empty() {
        text.push_str(
            "# The chart's roles grant what follows. Kubernetes lets an account grant only rights that it holds.\n",
        );
    }
    for held in &needs.held {
        let _ = writeln!(text, "# {}", one_line(&held.place));
        print_rule(&held.rule, text);
    }
    for ((resource, name), place) in &needs.bound {
        let _ = writeln!(
            text,
            "# {} binds this role, which is not the chart's.\n- apiGroups: [rbac.authorization.k8s.io]\n  resources: [{resource}]\n  resourceNames: [{}]\n  verbs: [bind]",
            one_line(place),
            scalar(name)
        );
    }
}

/// Prints a rule of the chart, with its fields in the usual order.
fn print_rule(rule: &Json, text: &mut String) {
    let mut lead = "- ";
    for field in ["apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs"] {
        let Some(items) = rule[field].as_array().filter(|items| !items.is_empty()) else { continue };
        let items: Vec<String> = items.iter().map(|item| scalar(item.as_str().unwrap_or_default())).collect();
        let _ = writeln!(text, "{lead}{field}: [{}]", items.join(", "));
        lead = "  ";
    }
}

/// Returns a scalar for a flow sequence: quoted unless it is a plain word.
pub(super) fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { format!("{text:?}") }
}

/// Joins a text into one line, because a comment must not span lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
