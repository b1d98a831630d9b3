//! Finds the permissions that a chart needs and a role lacks.

use serde_json::{Value as Json, json};

use super::covers::{covers, covers_named, covers_url, list};
use super::native::Native;
use super::needs::{self, ACCOUNT_VERBS, Held};
use crate::definitions::Definitions;
use crate::watches::Watch;
use crate::{Error, Project};

/// The group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";

/// A missing permission.
#[derive(Debug)]
pub(crate) struct Lack {
    /// `[list, watch] on deployments in group apps`.
    pub(crate) rule: String,
    /// The resource; empty for a URL.
    pub(crate) resource: String,
    /// The place that needs it: a template relative to the chart, and the values that make it necessary.
    pub(crate) place: String,
    /// The kind of the object that needs it, if it is known.
    pub(crate) kind: String,
    /// Whether roles that are not in the project may grant it.
    pub(crate) is_unsure: bool,
}

impl Lack {
    fn sure(rule: String, resource: &str, place: &str, kind: &str) -> Lack {
        let (resource, place, kind) = (resource.to_owned(), place.to_owned(), kind.to_owned());
        Lack { rule, resource, place, kind, is_unsure: false }
    }
}

/// Returns the permissions that the watch's chart needs beyond these rules.
pub(crate) fn missing(
    project: &Project,
    watch: &Watch,
    definitions: &Definitions,
    granted: &[Json],
) -> Result<Vec<Lack>, Error> {
    let seen = super::seen(project, watch)?;
    let mut needs = needs::Needs::default();
    needs.add(&seen, watch, definitions);
    let mut lacks = own(watch, definitions, granted);
    lacks.extend(needs.accounts.iter().filter_map(|name| account(name, granted)));
    for ((group, resource), need) in &needs.resources {
        let verbs: Vec<&str> =
            need.verbs.iter().copied().filter(|verb| !covers(granted, group, resource, verb)).collect();
        if !verbs.is_empty() {
            let kind = |(api_version, kind): &&(String, String)| {
                needs::resource(&seen, definitions, api_version, kind) == (group.clone(), resource.clone())
            };
            let kind = seen.kinds.keys().chain(seen.hooks.keys()).find(kind).map(|(_, kind)| kind.as_str());
            lacks.push(Lack::sure(rule(&verbs, resource, group), resource, &need.why, kind.unwrap_or_default()));
        }
    }
    lacks.extend(needs.held.iter().flat_map(|held| held_but_missing(held, granted)));
    lacks.extend(needs.bound.iter().filter_map(|(role, place)| bound_but_missing(role, place, granted)));
    Ok(lacks)
}

/// Returns the permissions needed to serve the kind, independent of its chart.
fn own(watch: &Watch, definitions: &Definitions, granted: &[Json]) -> Vec<Lack> {
    let gvk = &watch.gvk;
    let plural = definitions.plural(&gvk.group, &gvk.kind);
    let status = format!("{plural}/status");
    let needed: [(&str, &str, &[&str]); 3] = [
        (&gvk.group, &plural, &["get", "list", "watch", "patch"]),
        (&gvk.group, &status, &["patch"]),
        ("", "secrets", &["get", "list", "watch", "create", "patch", "delete"]),
    ];
    let lack = |(group, resource, verbs): (&str, &str, &[&str])| {
        let verbs: Vec<&str> = verbs.iter().copied().filter(|verb| !covers(granted, group, resource, verb)).collect();
        let place = format!("for {} and the records of its releases", gvk.kind);
        (!verbs.is_empty()).then(|| Lack::sure(rule(&verbs, resource, group), resource, &place, ""))
    };
    needed.into_iter().filter_map(lack).collect()
}

/// Returns the missing permission to impersonate a ServiceAccount, which is granted by name.
fn account(name: &str, granted: &[Json]) -> Option<Lack> {
    let holds = |verb: &str| covers_named(granted, "", "serviceaccounts", Some(name), verb);
    let verbs: Vec<&str> = ACCOUNT_VERBS.iter().copied().filter(|verb| !holds(verb)).collect();
    let rule = format!("{} named {name}", rule(&verbs, "serviceaccounts", ""));
    (!verbs.is_empty()).then(|| Lack::sure(rule, "serviceaccounts", "serviceAccountName in watches.yaml", ""))
}

/// Returns the permissions that a program's own reconcilers need beyond these rules, as text, each with its kind.
pub(crate) fn missing_natives(natives: &[Native], granted: &[Json]) -> Vec<(String, String)> {
    let lacks = |native: &Native| {
        let lack = |needed: &super::Rule| {
            let (group, resource) = (&needed.group, &needed.resource);
            let verbs: Vec<&str> = needed.verbs.iter().map(String::as_str).collect();
            let verbs: Vec<&str> = verbs.into_iter().filter(|verb| !covers(granted, group, resource, verb)).collect();
            (!verbs.is_empty()).then(|| (native.kind.clone(), rule(&verbs, resource, group)))
        };
        native.rules.iter().filter_map(lack).collect::<Vec<_>>()
    };
    natives.iter().flat_map(lacks).collect()
}

/// Returns the missing permissions of a role in the chart. Kubernetes lets an account write a role only if it holds the
/// role's permissions or may `escalate`, and bind one only if it holds them or may `bind`.
fn held_but_missing(held: &Held, granted: &[Json]) -> Vec<Lack> {
    let may = |verb: &str| covers(granted, RBAC, held.resource, verb);
    if may("escalate") && (may("bind") || !held.is_bound) {
        return Vec::new();
    }
    let mut lacks = urls_but_missing(held, granted);
    let names = list(&held.rule, "resourceNames");
    let names: Vec<Option<&str>> = if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
    for group in list(&held.rule, "apiGroups") {
        for resource in list(&held.rule, "resources") {
            for name in &names {
                let is_missing = |verb: &&str| !covers_named(granted, group, resource, *name, verb);
                let verbs: Vec<&str> = list(&held.rule, "verbs").into_iter().filter(is_missing).collect();
                if !verbs.is_empty() {
                    let named = name.map(|name| format!(" named {name}")).unwrap_or_default();
                    let rule = format!("{}{named}, which a Role in it grants", rule(&verbs, resource, group));
                    lacks.push(Lack::sure(rule, resource, &held.place, held.kind()));
                }
            }
        }
    }
    lacks
}

fn urls_but_missing(held: &Held, granted: &[Json]) -> Vec<Lack> {
    let lack = |url: &str| {
        let is_missing = |verb: &&str| !covers_url(granted, url, verb);
        let verbs: Vec<&str> = list(&held.rule, "verbs").into_iter().filter(is_missing).collect();
        let rule = format!("[{}] on the URL {url}, which a Role in it grants", verbs.join(", "));
        (!verbs.is_empty()).then(|| Lack::sure(rule, "", &held.place, held.kind()))
    };
    list(&held.rule, "nonResourceURLs").into_iter().filter_map(lack).collect()
}

/// Returns the missing permission to bind a role outside the chart. It takes `bind`, or the role's permissions, which
/// are unknown here.
fn bound_but_missing((resource, name): &(String, String), place: &str, granted: &[Json]) -> Option<Lack> {
    let everything = |group: &str| covers(granted, group, "*", "*");
    let may = covers_named(granted, RBAC, resource, Some(name), "bind") || everything("*");
    let rule = format!(
        "[bind] on {resource} named {name}, which is needed unless the account holds all of that role's rights"
    );
    (!may).then(|| Lack { is_unsure: true, ..Lack::sure(rule, resource, place, "RoleBinding") })
}

fn rule(verbs: &[&str], resource: &str, group: &str) -> String {
    let group = if group.is_empty() { "the core group".to_owned() } else { format!("group {group}") };
    format!("[{}] on {resource} in {group}", verbs.join(", "))
}

/// Returns the rules of `cluster-admin`, which every cluster has.
pub(crate) fn cluster_admin() -> Vec<Json> {
    vec![
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        json!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
    ]
}
