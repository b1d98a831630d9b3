//! Names the rights that the operator lacks, before it touches anything.
//!
//! One request for each watched namespace tells all rights there. Missing ones are logged, each once and with the rule that grants it; nothing is
//! refused, because a right may come later. What a chart's objects need is known only once it has rendered.

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::OnceCell;

use crate::context::Namespaces;
use crate::reconciler::lock;
use crate::report::chain;

/// A namespace in which nobody has rights of its own: only cluster-wide rules apply there.
const NOWHERE: &str = "helm-operator-preflight";

/// Rights on one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) verbs: &'a [&'a str],
}

/// The rights on release records.
pub(crate) const RECORDS: [Need<'static>; 1] = [Need {
    group: "",
    resource: "secrets",
    verbs: &["get", "list", "watch", "create", "patch", "delete", "deletecollection"],
}];

/// What a chart controller needs whatever its chart contains, beside [`RECORDS`]: its resources, named in the plural.
pub(crate) fn of_charts<'a>(group: &'a str, plural: &'a str, status: &'a str) -> [Need<'a>; 2] {
    [
        Need { group, resource: plural, verbs: &["get", "list", "watch", "patch"] },
        Need { group, resource: status, verbs: &["patch"] },
    ]
}

/// The rules that would grant what is missing: `{apiGroups: [apps], resources: [deployments], verbs: [list, watch]}`.
pub(crate) fn missing(needs: &[Need<'_>], granted: &[ResourceRule]) -> BTreeSet<String> {
    let lacking = needs.iter().filter_map(|need| {
        let verbs: Vec<&str> = need.verbs.iter().copied().filter(|verb| !is_granted(need, verb, granted)).collect();
        let group = if need.group.is_empty() { "\"\"" } else { need.group };
        (!verbs.is_empty())
            .then(|| format!("{{apiGroups: [{group}], resources: [{}], verbs: [{}]}}", need.resource, verbs.join(", ")))
    });
    lacking.collect()
}

fn is_granted(need: &Need<'_>, verb: &str, granted: &[ResourceRule]) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| list.iter().flatten().any(|one| one == "*" || one == wanted);
    let (_, subresource) = need.resource.split_once('/').unwrap_or((need.resource, ""));
    granted.iter().any(|rule| {
        let resource = has(&rule.resources, need.resource)
            || (!subresource.is_empty() && has(&rule.resources, &format!("*/{subresource}")));
        // A rule for some names grants no list.
        let all_names = rule.resource_names.as_ref().is_none_or(Vec::is_empty);
        all_names && resource && has(&rule.api_groups, need.group) && rule.verbs.iter().any(|v| v == "*" || v == verb)
    })
}

/// The process's rights, asked for once, and what was said about them.
pub(crate) struct Rights {
    client: Client,
    namespaces: Namespaces,
    granted: OnceCell<Vec<Granted>>,
    told: Mutex<BTreeSet<String>>,
}

/// All rights in one place.
struct Granted {
    namespace: String,
    rules: Vec<ResourceRule>,
}

impl Rights {
    /// The rights of this client in these namespaces. Sends no request yet.
    pub(crate) fn new(client: Client, namespaces: Namespaces) -> Rights {
        Rights { client, namespaces, granted: OnceCell::new(), told: Mutex::default() }
    }

    /// Logs which of these rights are missing, in each watched namespace or cluster-wide.
    pub(crate) async fn check(&self, needs: &[Need<'_>]) {
        for place in self.granted.get_or_init(|| self.ask()).await {
            self.tell(needs, place);
        }
    }

    /// As [`check`](Self::check), in this namespace instead of the watched ones; there if it is `None`.
    pub(crate) async fn check_in(&self, namespace: Option<&str>, needs: &[Need<'_>]) {
        match namespace {
            None => self.check(needs).await,
            Some(namespace) => self.ask_in(namespace).await.iter().for_each(|place| self.tell(needs, place)),
        }
    }

    fn tell(&self, needs: &[Need<'_>], place: &Granted) {
        for rule in missing(needs, &place.rules) {
            if lock(&self.told).insert(format!("{} {rule}", place.namespace)) {
                let namespace = &place.namespace;
                tracing::warn!(namespace, rule, "The operator lacks rights: add this rule to its role");
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
        // A webhook may grant more than the server can list.
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
        let needs = [&of_charts("g", "things", "things/status")[..], &RECORDS].concat();
        let lacking = |granted: &[ResourceRule]| missing(&needs, granted).into_iter().collect::<Vec<_>>();
        assert_eq!(lacking(&[]).len(), 3);
        let things = rule(&["g"], &["things"], &["get", "list"], &[]);
        let all_status = rule(&["*"], &["*/status"], &["*"], &[]);
        let secrets = rule(&[""], &["secrets"], &["*"], &[]);
        assert_eq!(
            lacking(&[things.clone(), all_status.clone(), secrets.clone()]),
            ["{apiGroups: [g], resources: [things], verbs: [watch, patch]}"]
        );
        let one = rule(&["g"], &["things"], &["watch", "patch"], &["only-this"]);
        assert_eq!(lacking(&[things, one, all_status, secrets]).len(), 1, "rights on one name are no rights on all");
        assert!(lacking(&[rule(&["*"], &["*"], &["*"], &[])]).is_empty());
        assert_eq!(
            lacking(&[rule(&["other"], &["*"], &["*"], &[])])[0],
            "{apiGroups: [\"\"], resources: [secrets], verbs: [get, list, watch, create, patch, delete, deletecollection]}"
        );
    }
}
