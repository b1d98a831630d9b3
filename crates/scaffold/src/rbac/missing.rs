//! Which rights a chart needs and a role lacks.

use serde_json::{Value as Json, json};

use super::native::Native;
use super::needs::{self, ACCOUNT_VERBS};
use crate::watches::Watch;
use crate::{Error, Project};

/// A right that is not granted.
#[derive(Debug)]
pub(crate) struct Lack {
    /// `[list, watch] on deployments in group apps`.
    pub(crate) rule: String,
    /// What needs it: a template relative to the chart, and the values that make it need it.
    pub(crate) place: String,
    /// The kind of the object that needs it, if it is known.
    pub(crate) kind: String,
}

/// Returns the rights that the watch's chart needs beyond these rules.
///
/// # Errors
/// The chart does not load.
pub(crate) fn missing(project: &Project, watch: &Watch, granted: &[Json]) -> Result<Vec<Lack>, Error> {
    let seen = super::seen(project, watch)?;
    let mut needs = needs::Needs::default();
    needs.add(&seen, watch);
    let mut lacks = own(watch, granted);
    lacks.extend(needs.accounts.iter().filter_map(|name| account(name, granted)));
    for ((group, resource), need) in &needs.resources {
        let verbs: Vec<&str> =
            need.verbs.iter().copied().filter(|verb| !covers(granted, group, resource, verb)).collect();
        if !verbs.is_empty() {
            let kind = |(_, kind): &&(String, String)| crate::gvk::plural(kind) == *resource;
            let kind = seen.kinds.keys().chain(seen.hooks.keys()).find(kind).map(|(_, kind)| kind.clone());
            lacks.push(Lack {
                rule: rule(&verbs, resource, group),
                place: need.why.clone(),
                kind: kind.unwrap_or_default(),
            });
        }
    }
    for (held, place) in &needs.held {
        lacks.extend(held_but_missing(held, place, granted));
    }
    Ok(lacks)
}

/// What serving the kind needs, whatever its chart contains.
fn own(watch: &Watch, granted: &[Json]) -> Vec<Lack> {
    let (plural, gvk) = (watch.gvk.plural(), &watch.gvk);
    let status = format!("{plural}/status");
    let needed: [(&str, &str, &[&str]); 3] = [
        (&gvk.group, &plural, &["get", "list", "watch", "patch"]),
        (&gvk.group, &status, &["patch"]),
        ("", "secrets", &["get", "list", "watch", "create", "patch", "delete"]),
    ];
    let lack = |(group, resource, verbs): (&str, &str, &[&str])| {
        let verbs: Vec<&str> = verbs.iter().copied().filter(|verb| !covers(granted, group, resource, verb)).collect();
        let place = format!("for {} and the records of its releases", gvk.kind);
        (!verbs.is_empty()).then(|| Lack { rule: rule(&verbs, resource, group), place, kind: String::new() })
    };
    needed.into_iter().filter_map(lack).collect()
}

/// Acting as a ServiceAccount, which is granted by name.
fn account(name: &str, granted: &[Json]) -> Option<Lack> {
    let holds = |verb: &&&str| granted.iter().any(|rule| covers_named(rule, "", "serviceaccounts", name, verb));
    let verbs: Vec<&str> = ACCOUNT_VERBS.iter().filter(|verb| !holds(verb)).copied().collect();
    let rule = format!("{} named {name}", rule(&verbs, "serviceaccounts", ""));
    let place = "serviceAccountName in watches.yaml".to_owned();
    (!verbs.is_empty()).then_some(Lack { rule, place, kind: String::new() })
}

/// Returns the rights that a program's own reconcilers need beyond these rules, as text, each with its kind.
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

/// Kubernetes lets an account grant only rights that it holds.
fn held_but_missing(held: &Json, place: &str, granted: &[Json]) -> Vec<Lack> {
    let list = |key: &str| {
        let items = held[key].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Json::as_str).collect::<Vec<_>>()
    };
    // Only an equal rule covers one for certain names or addresses.
    if held.get("resourceNames").is_some() || held.get("nonResourceURLs").is_some() {
        let named = |rule: &&Json| same(rule, held);
        let is_held = granted.iter().find(named).is_some()
            || list("resources").iter().any(|resource| {
                let groups = list("apiGroups");
                let verbs = list("verbs");
                groups.iter().all(|group| verbs.iter().all(|verb| covers(granted, group, resource, verb)))
            });
        let rule = "right that a Role in it grants for certain names".to_owned();
        let lack = Lack { rule, place: place.to_owned(), kind: "Role".to_owned() };
        return if is_held { Vec::new() } else { vec![lack] };
    }
    let mut lacks = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            let verbs: Vec<&str> =
                list("verbs").into_iter().filter(|verb| !covers(granted, group, resource, verb)).collect();
            if !verbs.is_empty() {
                let rule = format!("{}, which a Role in it grants", rule(&verbs, resource, group));
                lacks.push(Lack { rule, place: place.to_owned(), kind: "Role".to_owned() });
            }
        }
    }
    lacks
}

fn rule(verbs: &[&str], resource: &str, group: &str) -> String {
    let group = if group.is_empty() { "the core group".to_owned() } else { format!("group {group}") };
    format!("[{}] on {resource} in {group}", verbs.join(", "))
}

fn same(a: &Json, b: &Json) -> bool {
    ["apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs"].iter().all(|key| a[*key] == b[*key])
}

/// Whether the rules grant the verb on all objects of the resource.
fn covers(granted: &[Json], group: &str, resource: &str, verb: &str) -> bool {
    let is_for_all = |rule: &&Json| rule["resourceNames"].as_array().is_none_or(Vec::is_empty);
    granted.iter().filter(is_for_all).any(|rule| covers_some(rule, group, resource, verb))
}

/// Whether the rule grants the verb on the object of this name.
fn covers_named(rule: &Json, group: &str, resource: &str, name: &str, verb: &str) -> bool {
    let names = rule["resourceNames"].as_array().filter(|names| !names.is_empty());
    names.is_none_or(|names| names.contains(&json!(name))) && covers_some(rule, group, resource, verb)
}

/// Whether the rule grants the verb on objects of the resource, whatever their names.
fn covers_some(rule: &Json, group: &str, resource: &str, verb: &str) -> bool {
    let has = |key: &str, wanted: &str| {
        rule[key].as_array().is_some_and(|list| list.contains(&json!(wanted)) || list.contains(&json!("*")))
    };
    let subresource = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    let is_for_resource = has("resources", resource) || subresource.is_some_and(|all| has("resources", &all));
    is_for_resource && has("apiGroups", group) && has("verbs", verb)
}
