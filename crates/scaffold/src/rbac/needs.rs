//! Derives the rules that the operator needs from the objects that a chart renders.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::render::{NAMESPACE, RELEASE, Seen};
use crate::definitions::{Definitions, defines};
use crate::documents::group_of;
use crate::gvk;
use crate::watches::Watch;

/// The verbs on objects of a release: apply, watch for drift, wait, prune.
pub(super) const OBJECT_VERBS: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
/// The verbs on objects of hooks, which are never watched.
const HOOK_VERBS: &[&str] = &["get", "create", "delete"];
/// The verbs on objects that a ServiceAccount writes: watch for drift, and clean up after the account is deleted.
const WATCHED_VERBS: &[&str] = &["get", "list", "watch", "delete"];

/// The verbs on a ServiceAccount to impersonate: check that it exists, and impersonate it.
pub(super) const ACCOUNT_VERBS: &[&str] = &["get", "impersonate"];

/// Rules beyond those on the custom resource itself.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Verbs on resources, by (group, resource), with the reason.
    pub(super) resources: BTreeMap<(String, String), Need>,
    /// Rules that the chart's own roles grant.
    pub(super) held: Vec<Held>,
    /// Roles outside the chart that its bindings refer to: (resource, name), with the binding.
    pub(super) bound: BTreeMap<(String, String), String>,
    /// ServiceAccounts to impersonate.
    pub(super) accounts: BTreeSet<String>,
}

/// A rule that one of the chart's own roles grants.
#[derive(Debug)]
pub(super) struct Held {
    /// The rule in JSON, with sorted keys.
    pub(super) rule: Json,
    /// The role's template.
    pub(super) place: String,
    /// `roles` or `clusterroles`.
    pub(super) resource: &'static str,
    /// Whether the chart also binds the role.
    pub(super) is_bound: bool,
}

impl Held {
    pub(super) fn kind(&self) -> &'static str {
        if self.resource == "roles" { "Role" } else { "ClusterRole" }
    }
}

/// How a resource is accessed, and why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Need {
    pub(super) verbs: Vec<&'static str>,
    pub(super) why: String,
}

impl Needs {
    /// Adds the needs of one version's chart.
    pub(super) fn add(&mut self, seen: &Seen, watch: &Watch, definitions: &Definitions) {
        if watch.reads_config_maps {
            let why = "valuesFrom in watches.yaml".to_owned();
            self.need((String::new(), "configmaps".to_owned()), &["get", "list", "watch"], why);
        }
        if watch.reads_logs {
            let why = || "hookLogs in watches.yaml".to_owned();
            self.need((String::new(), "pods".to_owned()), &["list"], why());
            self.need((String::new(), "pods/log".to_owned()), &["get"], why());
        }
        for (group, kind, key) in &watch.depends_on {
            let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
            let resource = resource(seen, definitions, &api_version, kind);
            self.need(resource, &["get", "list", "watch"], format!("{key} in watches.yaml"));
        }
        match &watch.account {
            Some(account) => self.add_watched(seen, account, definitions),
            None => self.add_written(seen, watch, definitions),
        }
    }

    /// Adds the permissions to impersonate an account, and to watch the objects that it writes.
    fn add_watched(&mut self, seen: &Seen, account: &str, definitions: &Definitions) {
        self.accounts.insert(account.to_owned());
        for ((api_version, kind), place) in &seen.kinds {
            self.need(resource(seen, definitions, api_version, kind), WATCHED_VERBS, place.clone());
        }
    }

    /// Adds the permissions to write the objects.
    fn add_written(&mut self, seen: &Seen, watch: &Watch, definitions: &Definitions) {
        for ((api_version, kind), place) in &seen.kinds {
            let resource = resource(seen, definitions, api_version, kind);
            self.need(resource, OBJECT_VERBS, place.clone());
        }
        for ((api_version, kind), hook) in &seen.hooks {
            let listed: &[&str] = if hook.is_generated { &["list"] } else { &[] };
            let changed: &[&str] = if hook.is_overwritten { &["patch"] } else { &[] };
            let verbs = [HOOK_VERBS, listed, changed].concat();
            self.need(resource(seen, definitions, api_version, kind), &verbs, hook.place.clone());
        }
        for (api_version, kind, lists) in &seen.lookups {
            let verbs: &[&str] = if *lists { &["get", "list"] } else { &["get"] };
            self.need(resource(seen, definitions, api_version, kind), verbs, "looked up by templates".to_owned());
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

    /// Adds the permissions for the chart's roles and bindings. Kubernetes lets an account create a role only if it
    /// holds the role's permissions, and bind a role only if it holds them or may bind that role.
    fn add_rights(&mut self, seen: &Seen) {
        let name = |object: &Json| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_role = |object: &Json| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"));
        let (roles, bindings): (Vec<_>, Vec<_>) = seen.rights.iter().partition(|(object, _)| is_role(object));
        for (role, place) in &roles {
            let refers = |(binding, _): &&&(Json, String)| {
                binding["roleRef"]["kind"] == role["kind"] && binding["roleRef"]["name"] == role["metadata"]["name"]
            };
            let resource = if role["kind"] == "Role" { "roles" } else { "clusterroles" };
            let is_bound = bindings.iter().any(|binding| refers(&binding));
            for rule in role["rules"].as_array().into_iter().flatten() {
                self.hold(Held { rule: without_release_names(rule), place: place.clone(), resource, is_bound });
            }
        }
        let names: Vec<String> = roles.iter().map(|(role, _)| name(role)).collect();
        for (binding, place) in &bindings {
            let role = &binding["roleRef"];
            let role_name = role["name"].as_str().unwrap_or_default().to_owned();
            if !names.contains(&role_name) && !role_name.is_empty() {
                let kind = gvk::plural(role["kind"].as_str().unwrap_or("ClusterRole"));
                self.bound.entry((kind, role_name)).or_insert_with(|| place.clone());
            }
        }
    }

    fn hold(&mut self, held: Held) {
        let same = |known: &&mut Held| known.rule == held.rule && known.resource == held.resource;
        match self.held.iter_mut().find(same) {
            Some(known) => known.is_bound |= held.is_bound,
            None => self.held.push(held),
        }
    }
}

/// Returns a role's rule without names that contain the release's: the operator serves releases of any name.
fn without_release_names(rule: &Json) -> Json {
    let mut rule = rule.clone();
    let names = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    let varies = |name: &Json| name.as_str().is_some_and(|name| name.contains(RELEASE) || name.contains(NAMESPACE));
    if names.iter().any(varies) {
        rule.as_object_mut().map(|rule| rule.remove("resourceNames"));
    }
    rule
}

/// Returns the group and resource of a kind: from the chart's definitions, the project's, or by the rules of plurals.
pub(super) fn resource(seen: &Seen, definitions: &Definitions, api_version: &str, kind: &str) -> (String, String) {
    let group = group_of(api_version);
    let own = seen.definitions.iter().find(|crd| defines(crd, group, kind));
    let plural = own.and_then(|crd| crd["spec"]["names"]["plural"].as_str());
    (group.to_owned(), plural.map_or_else(|| definitions.plural(group, kind), str::to_owned))
}
