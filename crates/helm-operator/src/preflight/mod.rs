//! Names the rights that the operator lacks, before it touches anything.
//!
//! One request for each watched namespace tells all rights there. Missing ones are logged, each once and with the rule that grants it; nothing is
//! refused, because a right may come later. What a chart's objects need is known as far as its templates and records spell kinds out.

mod namespaces;
mod refusal;
mod templates;

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures::future::join_all;
use helm_release::kube::Resource;
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::OnceCell;

use crate::report::chain;
use crate::runtime::namespaces::Namespaces;
use crate::runtime::sync::lock;
use crate::watches::{AnnotationSources, ServiceAccount, SourceKind, Watch};
pub(crate) use refusal::Refused;
pub(crate) use templates::named;

/// A namespace in which nobody has rights of its own: only cluster-wide rules apply there.
const NOWHERE: &str = "helm-operator-preflight";

/// Rights on one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) verbs: &'a [&'a str],
    /// The only object, if it is known.
    pub(crate) name: Option<&'a str>,
    /// The only namespace; `None`: every watched one.
    pub(crate) namespace: Option<&'a str>,
}

impl<'a> Need<'a> {
    fn all(group: &'a str, resource: &'a str, verbs: &'a [&'a str]) -> Need<'a> {
        Need { group, resource, verbs, name: None, namespace: None }
    }
}

/// What a chart controller of an operator in the namespace `own` needs whatever its chart contains, of resources with this plural.
pub(crate) fn of_watch<'a>(watch: &'a Watch, own: &'a str, plural: &'a str, status: &'a str) -> Vec<Need<'a>> {
    let read = &["get", "list", "watch"];
    let records = &["get", "list", "watch", "create", "patch", "delete"];
    let mut needs = vec![
        Need::all(&watch.group, plural, &["get", "list", "watch", "patch"]),
        Need::all(&watch.group, status, &["patch"]),
        Need { namespace: watch.storage(own), ..Need::all("", "secrets", records) },
    ];
    for kind in [SourceKind::Secret, SourceKind::ConfigMap] {
        if watch.values_from_annotation != AnnotationSources::No
            || watch.values_from.iter().any(|source| source.kind == kind)
        {
            needs.push(Need::all("", kind.plural(), read));
        }
    }
    if let Some(ServiceAccount { namespace, name }) = &watch.service_account {
        let acting = Need::all("", "serviceaccounts", &["get", "impersonate"]);
        needs.push(Need { name: Some(name), namespace: namespace.as_deref(), ..acting });
    }
    needs
}

/// What the operator needs for a chart's objects of one kind: to apply, watch, await and prune them; for objects of hooks, to run them; for those that
/// an account writes, to see them, and to clean up when the account is gone.
pub(crate) fn of_objects<'a>(kind: &'a Resource, is_hook: bool, has_account: bool) -> Need<'a> {
    let verbs: &[&str] = match (has_account, is_hook) {
        (true, _) => &["get", "list", "watch", "delete"],
        (false, true) => &["get", "create", "delete"],
        (false, false) => &["get", "list", "watch", "create", "patch", "delete"],
    };
    Need::all(kind.group(), &kind.plural, verbs)
}

/// The rules that would grant what is missing: `{apiGroups: [apps], resources: [deployments], verbs: [list, watch]}`.
pub(crate) fn missing<'n>(needs: impl IntoIterator<Item = &'n Need<'n>>, granted: &[ResourceRule]) -> BTreeSet<String> {
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
        // A rule for some names grants no list.
        let names = rule.resource_names.as_deref().unwrap_or_default();
        let is_named = names.is_empty() || need.name.is_some_and(|name| names.iter().any(|one| one == name));
        is_named && resource && has(&rule.api_groups, need.group) && rule.verbs.iter().any(|v| v == "*" || v == verb)
    })
}

/// The process's rights, asked for once, and what was said about them.
pub(crate) struct Rights {
    client: Client,
    namespaces: Namespaces,
    granted: OnceCell<Vec<Granted>>,
    /// The rights in all namespaces, of an operator that is restricted to some.
    everywhere: OnceCell<Option<Granted>>,
    reported: Mutex<BTreeSet<String>>,
}

/// All rights in one place.
struct Granted {
    namespace: String,
    rules: Vec<ResourceRule>,
}

impl Rights {
    /// The rights of this client in these namespaces. Sends no request yet.
    pub(crate) fn new(client: Client, namespaces: Namespaces) -> Rights {
        Rights { client, namespaces, granted: OnceCell::new(), everywhere: OnceCell::new(), reported: Mutex::default() }
    }

    /// Logs which of these rights are missing, in each watched namespace or cluster-wide, and in the namespaces that they name. `why` says what needs
    /// them.
    pub(crate) async fn check(&self, needs: &[Need<'_>], why: &str) {
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

    fn watch(more: &str) -> Watch {
        let text = format!("- {{group: g, version: v1, kind: Thing, chart: helm-charts/thing{more}}}");
        crate::watches::parse(&text, |_| None).unwrap().watches.remove(0)
    }

    fn lacking(more: &str, granted: &[ResourceRule]) -> Vec<String> {
        missing(&of_watch(&watch(more), "own", "things", "things/status"), granted).into_iter().collect()
    }

    #[test]
    fn a_rule_is_named_for_each_missing_right() {
        let lacking = |granted: &[ResourceRule]| lacking("", granted);
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
            "{apiGroups: [\"\"], resources: [secrets], verbs: [get, list, watch, create, patch, delete]}"
        );
    }

    #[test]
    fn an_account_is_granted_by_its_name_or_for_all() {
        let rest = [rule(&["g"], &["*"], &["*"], &[]), rule(&[""], &["secrets"], &["*"], &[])];
        let with = |names: &[&str]| {
            let granted = [&rest[..], &[rule(&[""], &["serviceaccounts"], &["impersonate"], names)]].concat();
            lacking(", serviceAccountName: far/deployer", &granted)
        };
        let lacks = |verbs: &str| {
            format!("{{apiGroups: [\"\"], resources: [serviceaccounts], resourceNames: [deployer], verbs: [{verbs}]}}")
        };
        assert_eq!(with(&["deployer", "x"]), [lacks("get")]);
        assert_eq!(with(&[]), [lacks("get")]);
        assert_eq!(with(&["x"]), [lacks("get, impersonate")]);
    }

    #[test]
    fn rights_are_asked_for_where_they_are_needed() {
        let watch = watch(", storageNamespace: records, serviceAccountName: far/deployer, valuesFromAnnotation: true");
        let needs = of_watch(&watch, "own", "things", "things/status");
        let places: Vec<_> = needs.iter().map(|need| (need.resource, need.namespace)).collect();
        let expected = [
            ("things", None),
            ("things/status", None),
            ("secrets", Some("records")),
            ("secrets", None),
            ("configmaps", None),
            ("serviceaccounts", Some("far")),
        ];
        assert_eq!(places, expected);
    }

    /// A project with a chart whose objects an account writes, and with the roles that `generate rbac` makes.
    fn project() -> scaffold::Project {
        let mut project = scaffold::Project::from_files([
            (
                "watches.yaml",
                "- {group: g, version: v1, kind: Thing, chart: helm-charts/thing, serviceAccountName: deployer, valuesFromAnnotation: true}\n",
            ),
            ("helm-charts/thing/Chart.yaml", "apiVersion: v2\nname: thing\nversion: 0.1.0\n"),
            ("helm-charts/thing/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
            ("config/rbac/kustomization.yaml", "resources:\n- role.yaml\n"),
            ("config/rbac/role.yaml", MANAGER),
        ]);
        scaffold::rbac::generate(&mut project, &[], false).unwrap();
        project
    }

    const MANAGER: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager-role}
rules: [{apiGroups: [''], resources: [secrets], verbs: [get, list, watch, create, patch, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager-role}
subjects: [{kind: ServiceAccount, name: controller-manager, namespace: system}]
";

    /// What `lint` says about rights, and what the start would say.
    fn complaints(project: &scaffold::Project) -> (Vec<String>, Vec<String>) {
        let linted = scaffold::lint::check(project, &[]).unwrap();
        let linted =
            linted.iter().map(|finding| finding.message.clone()).filter(|text| text.contains("config/rbac grants"));
        let texts =
            ["config/rbac/role.yaml", "config/rbac/thing_role.yaml"].map(|path| project.text(path).unwrap().to_owned());
        let roles = texts.iter().flat_map(|text| text.split("---\n"));
        let rules = roles.flat_map(|text| {
            let role: serde_json::Value = serde_yaml::from_str(text).unwrap();
            serde_json::from_value::<Vec<ResourceRule>>(role["rules"].clone()).unwrap_or_default()
        });
        let watch = watch(", serviceAccountName: deployer, valuesFromAnnotation: true");
        let rules: Vec<ResourceRule> = rules.collect();
        (linted.collect(), missing(&of_watch(&watch, "own", "things", "things/status"), &rules).into_iter().collect())
    }

    /// The role without a verb of the rule on this resource.
    fn without(role: &str, resource: &str, verb: &str) -> String {
        let (before, rule) = role.split_at(role.find(resource).unwrap());
        let (resources, verbs) = rule.split_at(rule.find("verbs: [").unwrap());
        format!("{before}{resources}{}", verbs.replacen(verb, "none", 1))
    }

    #[test]
    fn generated_roles_lint_and_the_start_agree_on_every_right_of_a_watch() {
        let project = project();
        assert_eq!(complaints(&project), (vec![], vec![]));
        let role = project.text("config/rbac/thing_role.yaml").unwrap();
        for (rule, verb) in [
            ("[serviceaccounts]", "impersonate"),
            ("[serviceaccounts]", "get"),
            ("[things]", "watch"),
            ("[things/status]", "patch"),
            ("- configmaps", "list"),
        ] {
            let less = without(role, rule, verb);
            let mut poorer = project.clone();
            poorer.write("config/rbac/thing_role.yaml", less);
            let (linted, started) = complaints(&poorer);
            assert_eq!((linted.len(), started.len()), (1, 1), "{rule} {verb}: {linted:?} {started:?}");
        }
    }
}
