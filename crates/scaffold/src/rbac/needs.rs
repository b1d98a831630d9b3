//! From what a chart renders to the rules that the operator needs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::render::{NAMESPACE, RELEASE, Seen};
use crate::gvk;
use crate::watches::Watch;

/// The verbs on objects of a release: apply, watch for drift, wait, prune.
pub(super) const OBJECT_VERBS: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
/// The verbs on objects of hooks, which are never watched or changed.
const HOOK_VERBS: &[&str] = &["get", "create", "delete"];
/// The verbs on objects that a ServiceAccount writes: watch for drift, and clean up when the account is gone.
const WATCHED_VERBS: &[&str] = &["get", "list", "watch", "delete"];

/// The verbs on a ServiceAccount to act as: whether it exists, and the acting.
pub(super) const ACCOUNT_VERBS: &[&str] = &["get", "impersonate"];

/// Rules beyond those on the custom resource itself.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Verbs on resources, by (group, resource), with the reason.
    pub(super) resources: BTreeMap<(String, String), Need>,
    /// Rules that the chart's own roles grant, in JSON with sorted keys, with the role.
    pub(super) held: Vec<(Json, String)>,
    /// Roles outside the chart that its bindings refer to: (resource, name), with the binding.
    pub(super) bound: BTreeMap<(String, String), String>,
    /// ServiceAccounts to act as.
    pub(super) accounts: BTreeSet<String>,
}

/// Why and how a resource is accessed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Need {
    pub(super) verbs: Vec<&'static str>,
    pub(super) why: String,
}

impl Needs {
    /// Adds what one version's chart needs.
    pub(super) fn add(&mut self, seen: &Seen, watch: &Watch) {
        if watch.reads_config_maps {
            let why = "valuesFrom in watches.yaml".to_owned();
            self.need((String::new(), "configmaps".to_owned()), &["get", "list", "watch"], why);
        }
        match &watch.account {
            Some(account) => self.add_watched(seen, account),
            None => self.add_written(seen, watch),
        }
    }

    /// Adds what it takes to act as an account, and to see the objects that it writes.
    fn add_watched(&mut self, seen: &Seen, account: &str) {
        self.accounts.insert(account.to_owned());
        for ((api_version, kind), place) in &seen.kinds {
            self.need(resource(seen, api_version, kind), WATCHED_VERBS, place.clone());
        }
    }

    /// Adds what it takes to write the objects.
    fn add_written(&mut self, seen: &Seen, watch: &Watch) {
        for ((api_version, kind), place) in &seen.kinds {
            let resource = resource(seen, api_version, kind);
            self.need(resource, OBJECT_VERBS, place.clone());
        }
        for ((api_version, kind), hook) in &seen.hooks {
            let verbs: &[&str] = if hook.is_generated { &["list"] } else { &[] };
            self.need(resource(seen, api_version, kind), &[HOOK_VERBS, verbs].concat(), hook.place.clone());
        }
        for (api_version, kind, lists) in &seen.lookups {
            let verbs: &[&str] = if *lists { &["get", "list"] } else { &["get"] };
            self.need(resource(seen, api_version, kind), verbs, "looked up by templates".to_owned());
        }
        if seen.has_crds && !watch.skips_crds {
            let resource = ("apiextensions.k8s.io".to_owned(), "customresourcedefinitions".to_owned());
            self.need(resource, &["get", "create", "patch"], "the chart's crds folder".to_owned());
        }
        self.add_rights(seen);
    }

    fn need(&mut self, resource: (String, String), verbs: &[&'static str], why: String) {
        let need = self.resources.entry(resource).or_insert_with(|| Need { verbs: Vec::new(), why });
        for verb in verbs {
            if !need.verbs.contains(verb) {
                need.verbs.push(verb);
            }
        }
        need.verbs.sort_by_key(|verb| OBJECT_VERBS.iter().position(|known| known == verb));
    }

    /// Kubernetes lets an account create a role only if it holds the role's rights, and bind a role only if it holds them or may bind that role.
    fn add_rights(&mut self, seen: &Seen) {
        let name = |object: &Json| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_role = |object: &Json| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"));
        let roles: Vec<String> =
            seen.rights.iter().filter(|(object, _)| is_role(object)).map(|(object, _)| name(object)).collect();
        for (object, place) in &seen.rights {
            if is_role(object) {
                let rules = object["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
                rules.iter().for_each(|rule| self.hold(without_release_names(rule), place));
                continue;
            }
            let role = &object["roleRef"];
            let role_name = role["name"].as_str().unwrap_or_default().to_owned();
            if !roles.contains(&role_name) && !role_name.is_empty() {
                let kind = gvk::plural(role["kind"].as_str().unwrap_or("ClusterRole"));
                self.bound.entry((kind, role_name)).or_insert_with(|| place.clone());
            }
        }
    }

    fn hold(&mut self, rule: Json, place: &str) {
        if !self.held.iter().any(|(known, _)| *known == rule) {
            self.held.push((rule, place.to_owned()));
        }
    }
}

/// A role's rule without names that contain the release's: the operator serves releases of any name.
fn without_release_names(rule: &Json) -> Json {
    let mut rule = rule.clone();
    let names = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    let varies = |name: &Json| name.as_str().is_some_and(|name| name.contains(RELEASE) || name.contains(NAMESPACE));
    if names.iter().any(varies) {
        rule.as_object_mut().map(|rule| rule.remove("resourceNames"));
    }
    rule
}

/// The group and resource of a kind: from the chart's definitions, or by the rules of plurals.
fn resource(seen: &Seen, api_version: &str, kind: &str) -> (String, String) {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let defines = |crd: &&Json| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == kind;
    let plural = seen.definitions.iter().find(defines).and_then(|crd| crd["spec"]["names"]["plural"].as_str());
    (group.to_owned(), plural.map_or_else(|| gvk::plural(kind), str::to_owned))
}
