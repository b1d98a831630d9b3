//! Lists the permissions that a chart controller needs. Those for a chart's objects are known only for kinds that its
//! templates and records spell out.

mod refusal;
mod templates;

use controller::rights::Need;
use helm_release::kube::Resource;

use crate::watches::{AnnotationSources, Pull, ServiceAccount, SourceKind, Watch};
pub(crate) use refusal::Refused;
pub(crate) use templates::named;

/// Returns the permissions that a chart controller needs no matter what its chart contains. `own` is the operator's
/// namespace; `plural` and `status` name the custom resources and their status.
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
    for name in watch.pull.iter().flat_map(Pull::secrets) {
        needs.push(Need { name: Some(name), namespace: Some(own), ..Need::all("", "secrets", &["get"]) });
    }
    needs
}

/// What the operator does with a chart's objects of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectUse {
    /// Applies, watches, awaits and prunes them.
    Manage,
    /// Runs them as hooks.
    Run,
    /// Reads them, because a ServiceAccount writes them. Deletes them once the account is gone.
    Read,
}

/// Returns the permissions that the operator needs for a chart's objects of one kind.
pub(crate) fn of_objects(kind: &Resource, used: ObjectUse) -> Need<'_> {
    let verbs: &[&str] = match used {
        ObjectUse::Manage => &["get", "list", "watch", "create", "patch", "delete"],
        ObjectUse::Run => &["get", "create", "delete"],
        ObjectUse::Read => &["get", "list", "watch", "delete"],
    };
    Need::all(kind.group(), &kind.plural, verbs)
}

/// Returns the permissions that the operator needs for objects of one kind that resources depend on.
pub(crate) fn of_dependencies(kind: &Resource) -> Need<'_> {
    Need::all(kind.group(), &kind.plural, &["get", "list", "watch"])
}

#[cfg(test)]
mod tests {
    use controller::rights::missing;
    use k8s_openapi::api::authorization::v1::ResourceRule;

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

    #[test]
    fn a_chart_that_is_fetched_needs_its_secrets_in_the_operators_own_namespace() {
        let text = "- {group: g, version: v1, kind: Thing, chart: 'oci://r.io/thing', pull: {secret: login, ca: {secret: ca, key: k}, verify: {cosign: {key: /cosign.pub}}}}";
        let watch = crate::watches::parse(text, |_| None).unwrap().watches.remove(0);
        let needs = of_watch(&watch, "own", "things", "things/status");
        let named: Vec<_> = needs.iter().filter_map(|need| Some((need.name?, need.namespace))).collect();
        assert_eq!(named, [("login", Some("own")), ("ca", Some("own"))]);
    }

    /// Returns a project whose chart is applied as a ServiceAccount, with the roles that `generate rbac` writes.
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
        scaffold::rbac::generate(&mut project, &[], scaffold::Existing::Keep).unwrap();
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

    /// Returns what `lint` reports about permissions, and what startup would report.
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

    /// Returns the role without a verb of the rule on this resource.
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
