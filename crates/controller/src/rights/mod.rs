//! Reports the permissions that the process lacks, before it touches anything.
//!
//! One request per watched namespace returns all permissions there. Missing ones are logged once each, with the rule
//! that grants them. Nothing is refused, because a permission may be granted later.

mod namespaces;

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use outside::sync::lock;
use tokio::sync::OnceCell;

use crate::report::chain;
use crate::runtime::namespaces::Namespaces;
pub use namespaces::Collection;

/// A namespace in which only cluster-wide rules apply, because no role grants anything there.
const NOWHERE: &str = "controller-rights";

/// The permissions needed on one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The kind's plural, or a subresource: `deployments/scale`.
    pub resource: &'a str,
    /// The verbs.
    pub verbs: &'a [&'a str],
    /// The only object needed, if it is known.
    pub name: Option<&'a str>,
    /// The only namespace needed; `None` means every watched one.
    pub namespace: Option<&'a str>,
}

impl<'a> Need<'a> {
    /// Creates a need for every object of the kind, in every watched namespace.
    pub fn all(group: &'a str, resource: &'a str, verbs: &'a [&'a str]) -> Need<'a> {
        Need { group, resource, verbs, name: None, namespace: None }
    }
}

/// Returns the rules that would grant what is missing: `{apiGroups: [apps], resources: [deployments], verbs: [list,
/// watch]}`.
pub fn missing<'n>(needs: impl IntoIterator<Item = &'n Need<'n>>, granted: &[ResourceRule]) -> BTreeSet<String> {
    let lacking = needs.into_iter().filter_map(|need| {
        let verbs: Vec<&str> = need.verbs.iter().copied().filter(|verb| !is_granted(need, verb, granted)).collect();
        let group = if need.group.is_empty() { "\"\"" } else { need.group };
        let names = need.name.map(|name| format!(", resourceNames: [{name}]")).unwrap_or_default();
        let (resource, text) = (need.resource, verbs.join(", "));
        (!verbs.is_empty())
            .then(|| format!("{{apiGroups: [{group}], resources: [{resource}]{names}, verbs: [{text}]}}"))
    });
    lacking.collect()
}

fn is_granted(need: &Need<'_>, verb: &str, granted: &[ResourceRule]) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| list.iter().flatten().any(|one| one == "*" || one == wanted);
    let (_, subresource) = need.resource.split_once('/').unwrap_or((need.resource, ""));
    granted.iter().any(|rule| {
        let resource = has(&rule.resources, need.resource)
            || (!subresource.is_empty() && has(&rule.resources, &format!("*/{subresource}")));
        // A rule for certain names does not grant a list.
        let names = rule.resource_names.as_deref().unwrap_or_default();
        let is_named = names.is_empty() || need.name.is_some_and(|name| names.iter().any(|one| one == name));
        is_named && resource && has(&rule.api_groups, need.group) && rule.verbs.iter().any(|v| v == "*" || v == verb)
    })
}

/// The process's permissions, requested once, and the missing ones that were already reported.
pub struct ProcessRights {
    client: Client,
    namespaces: Namespaces,
    granted: OnceCell<Vec<Granted>>,
    /// The permissions in all namespaces, for an operator that is restricted to some.
    everywhere: OnceCell<Option<Granted>>,
    reported: Mutex<BTreeSet<String>>,
}

/// All permissions in one namespace.
struct Granted {
    namespace: String,
    rules: Vec<ResourceRule>,
}

impl ProcessRights {
    /// Creates the permissions of this client in these namespaces. Sends no request yet.
    pub fn new(client: Client, namespaces: Namespaces) -> ProcessRights {
        ProcessRights {
            client,
            namespaces,
            granted: OnceCell::new(),
            everywhere: OnceCell::new(),
            reported: Mutex::default(),
        }
    }

    /// Logs which of these permissions are missing: cluster-wide or in each watched namespace, and in the namespaces
    /// that they name. `why` says what needs them.
    pub async fn check(&self, needs: &[Need<'_>], why: &str) {
        for place in self.granted.get_or_init(|| self.ask()).await {
            self.report(needs.iter().filter(|need| need.namespace.is_none()), place, why);
        }
        let named: BTreeSet<&str> = needs.iter().filter_map(|need| need.namespace).collect();
        for namespace in named {
            if let Some(place) = self.ask_in(namespace).await {
                self.report(needs.iter().filter(|need| need.namespace == Some(namespace)), &place, why);
            }
        }
    }

    fn report<'n>(&self, needs: impl Iterator<Item = &'n Need<'n>>, place: &Granted, why: &str) {
        for rule in missing(needs, &place.rules) {
            if lock(&self.reported).insert(format!("{} {rule}", place.namespace)) {
                let namespace = &place.namespace;
                tracing::warn!(
                    namespace,
                    rule,
                    needed_for = why,
                    "The operator lacks rights: add this rule to its role"
                );
            }
        }
    }

    async fn ask(&self) -> Vec<Granted> {
        let names: Vec<&str> = self.namespaces.0.iter().map(String::as_str).collect();
        let places = if names.is_empty() { vec![NOWHERE] } else { names };
        join_all(places.into_iter().map(|place| self.ask_in(place))).await.into_iter().flatten().collect()
    }

    async fn ask_in(&self, place: &str) -> Option<Granted> {
        let spec = SelfSubjectRulesReviewSpec { namespace: Some(place.to_owned()) };
        let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
        let reviews: Api<SelfSubjectRulesReview> = Api::all(self.client.clone());
        let status = match reviews.create(&PostParams::default(), &review).await {
            Ok(answer) => answer.status?,
            Err(error) => {
                tracing::info!(error = chain(&error), "Cannot ask for the operator's rights");
                return None;
            }
        };
        let namespace = if place == NOWHERE { "all namespaces" } else { place }.to_owned();
        // A webhook authorizer may grant more than the server can list.
        (!status.incomplete).then_some(Granted { namespace, rules: status.resource_rules })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> ResourceRule {
        let own = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        ResourceRule { api_groups: own(groups), resources: own(resources), verbs, resource_names: own(names) }
    }

    #[test]
    fn a_rule_is_named_for_each_missing_right() {
        let needs = [Need::all("g", "things", &["get", "list", "watch"]), Need::all("g", "things/status", &["patch"])];
        let lacking = |granted: &[ResourceRule]| missing(&needs, granted).into_iter().collect::<Vec<_>>();
        assert_eq!(lacking(&[]).len(), 2);
        let things = rule(&["g"], &["things"], &["get", "list"], &[]);
        let all_status = rule(&["*"], &["*/status"], &["*"], &[]);
        assert_eq!(
            lacking(&[things.clone(), all_status.clone()]),
            ["{apiGroups: [g], resources: [things], verbs: [watch]}"]
        );
        let one = rule(&["g"], &["things"], &["watch"], &["only-this"]);
        assert_eq!(lacking(&[things, one, all_status]).len(), 1, "rights on one name are no rights on all");
        assert!(lacking(&[rule(&["*"], &["*"], &["*"], &[])]).is_empty());
    }
}
