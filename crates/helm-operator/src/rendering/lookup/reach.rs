//! Which objects templates may read with `lookup`. The operator may read more than a resource's user. A user's value
//! may be a template (`tpl`), so only the chart's own text can extend the permissions.

use std::collections::BTreeSet;
use std::sync::Arc;

use controller::runtime::served_kinds::ServedKinds;
use helm::chart::Chart;
use helm::engine::{LookupCall, lookups};
use helm_release::kube::Resource;
use outside::group_of;

use crate::watches::LookupRule;

#[derive(Clone)]
pub(crate) enum LookupReach {
    /// Everything that the operator may read: `template` on the command line, whose user provides the credentials.
    Everything,
    /// The objects that belong to a release.
    Release(ReleaseReach),
}

/// The reach of a release's templates: its namespace, what the chart names, and what the watch allows.
#[derive(Clone)]
pub(crate) struct ReleaseReach {
    /// The kinds that are read only if the chart's own text, or the watch, names them.
    pub(crate) served: Arc<ServedKinds>,
    pub(crate) namespace: String,
    pub(crate) named: Arc<Named>,
    pub(crate) rule: Arc<LookupRule>,
}

/// The lookups that a chart's templates spell out as constants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    /// The complete lookups: (group, kind, namespace, name).
    lookups: BTreeSet<[String; 4]>,
    /// The kinds of all lookups: `Node.`, `StorageClass.storage.k8s.io`, or without group where a render determines it.
    kinds: BTreeSet<String>,
}

impl Named {
    /// Finds the lookups of a chart and its subcharts.
    pub(crate) fn of(chart: &Chart) -> Named {
        let kinds = lookups(chart).iter().filter_map(kind_of).collect();
        let mut named = Named { kinds, ..Named::default() };
        named.add(chart);
        named
    }

    fn add(&mut self, chart: &Chart) {
        for template in &chart.templates {
            self.lookups.extend(constants(&template.data.to_text()));
        }
        chart.dependencies.iter().for_each(|dependency| self.add(dependency));
    }
}

/// Returns the kind that a lookup spells out, with its group if the lookup spells that out too.
fn kind_of(call: &LookupCall) -> Option<String> {
    let kind = call.kind.as_deref()?;
    Some(match &call.api_version {
        Some(api_version) => format!("{kind}.{}", group_of(api_version)),
        None => kind.to_owned(),
    })
}

/// Finds `lookup "v1" "Secret" "kube-system" "name"` in a template, in either kind of quotes.
fn constants(template: &str) -> impl Iterator<Item = [String; 4]> {
    template.split("lookup").skip(1).filter_map(|arguments| {
        let mut rest = arguments;
        let [api_version, kind, namespace, name] =
            [constant(&mut rest)?, constant(&mut rest)?, constant(&mut rest)?, constant(&mut rest)?];
        Some([group_of(api_version), kind, namespace, name].map(str::to_owned))
    })
}

/// Takes a constant from the start of the text.
fn constant<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start();
    let quote = text.chars().next().filter(|quote| matches!(quote, '"' | '`'))?;
    let (constant, after) = text[1..].split_once(quote)?;
    *rest = after;
    Some(constant)
}

impl LookupReach {
    /// Returns the reason why a lookup is rejected; `None` if it is allowed. An empty response instead would make
    /// charts generate new passwords.
    pub(crate) fn refusal(&self, resource: &Resource, namespace: &str, name: &str) -> Option<String> {
        let LookupReach::Release(release) = self else { return None };
        if let Some(why) = release.refuses_kind(resource) {
            return Some(why);
        }
        if !resource.namespaced || release.has(namespace) || release.names(resource, namespace, name) {
            return None;
        }
        // No object has that name without a namespace, and the server returns that error.
        if namespace.is_empty() && !name.is_empty() {
            return None;
        }
        let (kind, own) = (&resource.kind, &release.namespace);
        Some(match namespace {
            "" => format!(
                "lookup of {kind} in all namespaces is not allowed: the release may read its own namespace {own:?}; \
                 lookup: {{all: true}} in watches.yaml opens all of them"
            ),
            other => format!(
                "lookup of {kind} in namespace {other:?} is not allowed: the release may read its own namespace {own:?}; \
                 lookup: {{namespaces: [{other}]}} in watches.yaml opens it"
            ),
        })
    }
}

impl ReleaseReach {
    /// Returns why a kind is not allowed. Cluster-scoped kinds, and kinds with values of other users, are read only if
    /// the chart's own text or the watch names them.
    fn refuses_kind(&self, resource: &Resource) -> Option<String> {
        let what = match (resource.namespaced, self.served.has(resource.group(), &resource.kind)) {
            (_, true) => "which holds users' values",
            (false, _) => "which has no namespace",
            (true, false) => return None,
        };
        let (kind, group) = (&resource.kind, resource.group());
        let is_open = self.rule.kinds.has_kind(kind, group, &self.named.kinds);
        (!is_open).then(|| {
            format!(
                "lookup of {kind}, {what}, is not allowed: no template of the chart itself looks up that kind; \
                 lookup: {{kinds: [{kind}]}} in watches.yaml opens it"
            )
        })
    }

    fn has(&self, namespace: &str) -> bool {
        self.rule.all || namespace == self.namespace || self.rule.namespaces.iter().any(|open| open == namespace)
    }

    fn names(&self, resource: &Resource, namespace: &str, name: &str) -> bool {
        self.named.lookups.contains(&[resource.group(), &*resource.kind, namespace, name].map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watches::Granted;

    fn chart() -> Arc<Chart> {
        let named = "{{ $x := lookup \"v1\" \"Secret\" \"kube-system\" \"ca\" }}{{ (lookup `v1`  `Pod` `` ``).items }}\
            {{ lookup \"v1\" \"Secret\" .Values.ns \"a\" }}{{ lookup \"v1\" \"Secret\" \"far\" .Values.name }}";
        Chart::from_files([
            ("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.2.3\n"),
            ("templates/a.yaml", named),
            ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.2.3\n"),
            ("charts/sub/templates/a.yaml", "{{ lookup \"v1\" \"ConfigMap\" \"sub\" \"one\" }}"),
        ])
        .unwrap()
    }

    fn reach(rule: LookupRule) -> LookupReach {
        let named = Arc::new(Named::of(&chart()));
        let served = Arc::new(ServedKinds::default());
        served.add("", "Served");
        LookupReach::Release(ReleaseReach { served, namespace: "ns".into(), named, rule: Arc::new(rule) })
    }

    fn resource(kind: &str, namespaced: bool) -> Resource {
        Resource { api_version: "v1".into(), kind: kind.into(), plural: "x".into(), namespaced }
    }

    fn allowed(reach: &LookupReach, kind: &str, namespace: &str, name: &str) -> bool {
        reach.refusal(&resource(kind, kind != "Node"), namespace, name).is_none()
    }

    #[test]
    fn a_release_reads_its_namespace_and_what_its_chart_names() {
        let reach = reach(LookupRule::default());
        for (kind, namespace, name) in [
            ("Secret", "ns", "any"),
            ("Secret", "ns", ""),
            ("Secret", "kube-system", "ca"),
            ("Pod", "", ""),
            ("ConfigMap", "sub", "one"),
            ("Secret", "", "never found"),
        ] {
            assert!(allowed(&reach, kind, namespace, name), "{kind} {namespace} {name}");
        }
    }

    #[test]
    fn a_release_reads_nothing_of_others_and_says_how_to_open_it() {
        let reach = reach(LookupRule::default());
        for (kind, namespace, name) in [
            ("Secret", "kube-system", "other"),
            ("Secret", "kube-system", ""),
            ("ConfigMap", "kube-system", "ca"),
            ("Secret", "far", "a"),
            ("Secret", "", ""),
            ("ConfigMap", "sub", "two"),
        ] {
            assert!(!allowed(&reach, kind, namespace, name), "{kind} {namespace} {name}");
        }
        let refusal = |namespace| reach.refusal(&resource("Secret", true), namespace, "").unwrap();
        assert!(refusal("far").ends_with("lookup: {namespaces: [far]} in watches.yaml opens it"));
        assert!(refusal("").ends_with("lookup: {all: true} in watches.yaml opens all of them"));
    }

    #[test]
    fn kinds_without_a_namespace_or_with_users_values_are_read_only_where_the_chart_names_them() {
        let chart = |template: &str| {
            Arc::new(Named::of(
                &Chart::from_files([
                    ("Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n"),
                    ("templates/a.yaml", template),
                ])
                .unwrap(),
            ))
        };
        let refusal = |template: &str, rule: LookupRule, kind: &str| {
            let served = Arc::new(ServedKinds::default());
            served.add("", "Served");
            let named = chart(template);
            let reach =
                LookupReach::Release(ReleaseReach { served, namespace: "ns".into(), named, rule: Arc::new(rule) });
            reach.refusal(&resource(kind, kind != "Node"), if kind == "Node" { "" } else { "ns" }, "a")
        };
        let names =
            "{{ lookup \"v1\" \"Node\" \"\" .Values.node }}{{ lookup \"v1\" \"Served\" .Release.Namespace \"x\" }}";
        // Values may contain such text as well.
        let passes_on = "{{ tpl .Values.text . }}{{ lookup .a .b .c .d }}";
        for (kind, what) in [("Node", "which has no namespace"), ("Served", "which holds users' values")] {
            assert_eq!(refusal(names, LookupRule::default(), kind), None, "{kind}");
            let refused = refusal(passes_on, LookupRule::default(), kind).unwrap();
            assert!(
                refused.contains(what)
                    && refused.ends_with(&format!("lookup: {{kinds: [{kind}]}} in watches.yaml opens it")),
                "{refused}"
            );
            let more = LookupRule { kinds: Granted::More([kind.to_owned()].into()), ..LookupRule::default() };
            assert_eq!(refusal(passes_on, more, kind), None);
            let closed = LookupRule { kinds: Granted::Own, all: true, ..LookupRule::default() };
            assert!(refusal(names, closed, kind).is_some(), "{kind}");
        }
        assert_eq!(refusal(passes_on, LookupRule { kinds: Granted::Any, ..LookupRule::default() }, "Node"), None);
        assert_eq!(refusal(passes_on, LookupRule::default(), "ConfigMap"), None);
    }

    #[test]
    fn a_chart_names_kinds_of_the_group_that_it_looks_up() {
        let text = "{{ lookup \"v1\" \"Node\" \"\" .Values.x }}{{ lookup .Values.v \"Disk\" \"\" .Values.x }}\
            {{ lookup \"v1\" \"Secret\" \"far\" \"a\" }}";
        let named = Chart::from_files([
            ("Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n"),
            ("templates/a.yaml", text),
        ]);
        let (named, rule) = (Arc::new(Named::of(&named.unwrap())), Arc::new(LookupRule::default()));
        let served = Arc::new(ServedKinds::default());
        let reach = LookupReach::Release(ReleaseReach { served, namespace: "ns".into(), named, rule });
        let allowed = |api_version: &str, kind: &str, namespace: &str| {
            let api_version = api_version.into();
            let resource = Resource { api_version, ..resource(kind, !namespace.is_empty()) };
            reach.refusal(&resource, namespace, "a").is_none()
        };
        assert!(allowed("v1", "Node", "") && !allowed("example.com/v1", "Node", ""));
        assert!(allowed("v1", "Secret", "far") && !allowed("example.com/v1", "Secret", "far"));
        assert!(allowed("v1", "Disk", "") && allowed("example.com/v1", "Disk", ""), "any group");
    }

    #[test]
    fn a_watch_opens_some_namespaces_or_all() {
        let some = reach(LookupRule { namespaces: ["far".to_owned()].into(), ..LookupRule::default() });
        assert!(allowed(&some, "Secret", "far", "") && !allowed(&some, "Secret", "near", ""));
        assert!(!allowed(&some, "Secret", "", ""));
        let all = reach(LookupRule { all: true, ..LookupRule::default() });
        assert!(allowed(&all, "Secret", "far", "") && allowed(&all, "Secret", "", ""));
        assert!(allowed(&LookupReach::Everything, "Secret", "far", ""));
    }
}
