//! What templates may read with `lookup`. The operator may read more than a resource's user, and a user's value may be a template (`tpl`).

use std::collections::BTreeSet;
use std::sync::Arc;

use helm::chart::Chart;
use helm_release::kube::Resource;

use crate::watches::LookupRule;

/// The limit of one render's lookups.
#[derive(Clone)]
pub(crate) enum Reach {
    /// Whatever the operator may read: `template` on the command line, whose user gives the credentials.
    Everything,
    /// What belongs to a release.
    Release(Release),
}

/// What a release's templates may read: its namespace, objects without a namespace, what the chart names, and what the watch opens.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) namespace: String,
    pub(crate) named: Arc<Named>,
    pub(crate) rule: Arc<LookupRule>,
}

/// The lookups that a chart's templates spell out in constants: (kind, namespace, name).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named(BTreeSet<[String; 3]>);

impl Named {
    /// Those of a chart and its subcharts.
    pub(crate) fn of(chart: &Chart) -> Named {
        let mut named = Named::default();
        named.add(chart);
        named
    }

    fn add(&mut self, chart: &Chart) {
        for template in &chart.templates {
            self.0.extend(constants(&template.data.to_text()));
        }
        chart.dependencies.iter().for_each(|dependency| self.add(dependency));
    }
}

/// Finds `lookup "v1" "Secret" "kube-system" "name"` in a template, in either of its quotes.
fn constants(template: &str) -> impl Iterator<Item = [String; 3]> {
    template.split("lookup").skip(1).filter_map(|arguments| {
        let mut rest = arguments;
        let [_, kind, namespace, name] =
            [constant(&mut rest)?, constant(&mut rest)?, constant(&mut rest)?, constant(&mut rest)?];
        Some([kind, namespace, name].map(str::to_owned))
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

impl Reach {
    /// Returns why a lookup is refused; `None` if it is allowed. An empty answer instead would make charts generate new passwords.
    pub(crate) fn refusal(&self, resource: &Resource, namespace: &str, name: &str) -> Option<String> {
        let Reach::Release(release) = self else { return None };
        if !resource.namespaced || release.has(namespace) || release.names(&resource.kind, namespace, name) {
            return None;
        }
        // Without a namespace no object has that name, and the server says so.
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

impl Release {
    fn has(&self, namespace: &str) -> bool {
        self.rule.all || namespace == self.namespace || self.rule.namespaces.iter().any(|open| open == namespace)
    }

    fn names(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.named.0.contains(&[kind, namespace, name].map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn reach(rule: LookupRule) -> Reach {
        let named = Arc::new(Named::of(&chart()));
        Reach::Release(Release { namespace: "ns".into(), named, rule: Arc::new(rule) })
    }

    fn resource(kind: &str, namespaced: bool) -> Resource {
        Resource { api_version: "v1".into(), kind: kind.into(), plural: "x".into(), namespaced }
    }

    fn allowed(reach: &Reach, kind: &str, namespace: &str, name: &str) -> bool {
        reach.refusal(&resource(kind, kind != "Node"), namespace, name).is_none()
    }

    #[test]
    fn a_release_reads_its_namespace_objects_without_one_and_what_its_chart_names() {
        let reach = reach(LookupRule::default());
        for (kind, namespace, name) in [
            ("Secret", "ns", "any"),
            ("Secret", "ns", ""),
            ("Node", "", ""),
            ("Node", "", "a"),
            ("Node", "ignored", "a"),
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
    fn a_watch_opens_some_namespaces_or_all() {
        let some = reach(LookupRule { namespaces: ["far".to_owned()].into(), all: false });
        assert!(allowed(&some, "Secret", "far", "") && !allowed(&some, "Secret", "near", ""));
        assert!(!allowed(&some, "Secret", "", ""));
        let all = reach(LookupRule { namespaces: [].into(), all: true });
        assert!(allowed(&all, "Secret", "far", "") && allowed(&all, "Secret", "", ""));
        assert!(allowed(&Reach::Everything, "Secret", "far", ""));
    }
}
