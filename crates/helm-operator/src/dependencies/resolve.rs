//! Resolves entries for one resource, and decides which entries its own annotation may contain.

use std::sync::Arc;

use super::{AnnotationRule, Dependency, MAX_SELECTED, MAX_SELECTORS, Origin, Query, Target, Until, Wanted};
use crate::values_from::fill;

/// Returns the queries of the entries for a resource with this name and namespace, which is empty if it is
/// cluster-scoped. `rules` returns the controller whose `readiness` rule judges a kind.
///
/// # Errors
/// The first entry whose placeholders do not result in a valid name.
pub(crate) fn resolve(
    entries: &[Dependency],
    origin: Origin,
    (namespace, name): (&str, &str),
    rules: &dyn Fn(&str, &str) -> Option<Arc<str>>,
) -> Result<Vec<Wanted>, String> {
    let resolve = |(at, entry): (usize, &Dependency)| {
        let query = entry.query(origin, (namespace, name), rules).map_err(|what| format!("[{at}]: {what}"))?;
        Ok(Wanted { query: Arc::new(query), origin, reverse_deletion: entry.reverse_deletion })
    };
    entries.iter().enumerate().map(resolve).collect()
}

impl Dependency {
    fn query(
        &self,
        origin: Origin,
        (own, name): (&str, &str),
        rules: &dyn Fn(&str, &str) -> Option<Arc<str>>,
    ) -> Result<Query, String> {
        let namespace = match &self.namespace {
            Some(namespace) => fill("namespace", namespace, own, name)?,
            None => own.to_owned(),
        };
        let target = match &self.target {
            Target::Named(named) => Target::Named(fill("name", named, own, name)?.into()),
            selected => selected.clone(),
        };
        let rules = match self.until {
            Until::Ready => rules(&self.group, &self.kind),
            _ => None,
        };
        let until = match &self.until {
            // Only the metadata of such kinds is read.
            Until::Ready if rules.is_none() && !shows_readiness(&self.group, &self.kind) => Until::Exists,
            until => until.clone(),
        };
        let max_objects = match (&target, origin) {
            (Target::Selected(_), Origin::Annotation) => MAX_SELECTED,
            _ => usize::MAX,
        };
        let which = match &target {
            Target::Named(name) => format!("name {name}"),
            Target::Selected(selector) => format!("{origin:?} labels {selector}"),
        };
        let id = format!("{namespace} {which} {until:?} {rules:?}").into();
        let (group, kind) = (self.group.as_str().into(), self.kind.as_str().into());
        Ok(Query { id, group, kind, namespace: namespace.into(), target, max_objects, until, rules })
    }
}

/// Returns whether the status of a kind's objects shows readiness, as for workloads, volume claims and every custom
/// resource.
pub(crate) fn shows_readiness(group: &str, kind: &str) -> bool {
    match group {
        "" => ["Pod", "PersistentVolumeClaim", "Service", "ReplicationController"].contains(&kind),
        "apps" | "batch" | "policy" | "apiextensions.k8s.io" => true,
        "autoscaling" | "extensions" => false,
        group => !group.ends_with(".k8s.io"),
    }
}

/// The account whose rights decide what a resource may learn about its dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadsAs {
    /// The operator's account, whose rights its users do not have.
    Operator,
    /// The watch's ServiceAccount.
    Account,
}

/// Checks that a resource in this namespace may name these objects in its annotation. Its user may not be allowed to
/// read them, so the watch lists kinds and namespaces. `is_cluster_scoped` returns whether a query's objects are known
/// to have no namespace.
///
/// # Errors
/// Too many selectors, or the first object that is not allowed, with the key that allows it.
pub(crate) fn admit(
    wanted: &[Wanted],
    own: &str,
    rule: Option<&AnnotationRule>,
    reads_as: ReadsAs,
    is_cluster_scoped: &dyn Fn(&Query) -> bool,
) -> Result<(), String> {
    let Some(rule) = rule else {
        return Err("the operator does not allow it: its watches.yaml lacks dependsOnAnnotation".to_owned());
    };
    let selectors = wanted.iter().filter(|one| matches!(one.query.target, Target::Selected(_))).count();
    if selectors > MAX_SELECTORS {
        return Err(format!("has {selectors} entries with a selector; at most {MAX_SELECTORS} are allowed"));
    }
    let refusal = |one: &Wanted| rule.refusal(one, own, reads_as).or_else(|| holds_others(one, own, is_cluster_scoped));
    wanted.iter().enumerate().try_for_each(|(at, one)| refusal(one).map_or(Ok(()), |why| Err(format!("[{at}]: {why}"))))
}

/// Returns why a resource must not hold what it names. The owner of the other resource must be able to delete it.
fn holds_others(wanted: &Wanted, own: &str, is_cluster_scoped: &dyn Fn(&Query) -> bool) -> Option<String> {
    let query = &wanted.query;
    let is_elsewhere = *query.namespace != *own || !own.is_empty() && is_cluster_scoped(query);
    (wanted.reverse_deletion && is_elsewhere)
        .then(|| "reverseDeletion is only for resources in the same namespace".to_owned())
}

impl AnnotationRule {
    fn refusal(&self, wanted: &Wanted, own: &str, reads_as: ReadsAs) -> Option<String> {
        let Query { group, kind, namespace, until, .. } = &*wanted.query;
        let named = if group.is_empty() { kind.to_string() } else { format!("{kind}.{group}") };
        if !self.kinds.contains(&named) {
            return Some(format!(
                "{named} is not allowed; dependsOnAnnotation: {{kinds: [{named}]}} in watches.yaml allows it"
            ));
        }
        if **namespace != *own && !self.namespaces.iter().any(|allowed| **allowed == **namespace) {
            return Some(format!(
                "namespace {namespace:?} is not allowed; dependsOnAnnotation: {{namespaces: [{namespace}]}} in \
                 watches.yaml allows it"
            ));
        }
        if matches!(until, Until::True(_)) && reads_as == ReadsAs::Operator {
            return Some(
                "ready asks for the content of an object, which only a watch with a serviceAccountName allows: its \
                 account's rights decide"
                    .to_owned(),
            );
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::parse;
    use super::*;

    fn of(entry: Value, own: &str) -> Result<Vec<Wanted>, String> {
        resolve(&parse(&json!([entry])).unwrap(), Origin::Annotation, (own, "web"), &|_, _| None)
    }

    #[test]
    fn an_entry_means_the_resources_own_namespace_unless_it_names_another() {
        for (entry, own, expected) in [
            (json!({"kind": "A", "name": "$(name)-db"}), "ns", "ns/web-db"),
            (json!({"kind": "A", "name": "db", "namespace": "far"}), "ns", "far/db"),
            (json!({"kind": "A", "name": "db", "namespace": "team-$(name)"}), "", "team-web/db"),
            (json!({"kind": "A", "name": "$(namespace)"}), "ns", "ns/ns"),
        ] {
            let query = of(entry, own).unwrap()[0].query.clone();
            assert_eq!(format!("{}/{}", query.namespace, query.name().unwrap()), expected);
        }
        let error = of(json!({"kind": "A", "name": "$(namespace)"}), "").unwrap_err();
        assert_eq!(error, "[0]: name \"\" is not a valid name");
    }

    #[test]
    fn the_same_objects_and_condition_are_one_query() {
        let query = |entry| of(entry, "ns").unwrap()[0].query.clone();
        let db = || query(json!({"kind": "A", "name": "db"}));
        assert_eq!(db(), query(json!({"kind": "A", "name": "db", "namespace": "ns", "reverseDeletion": true})));
        // Nothing but its existence shows that it is ready.
        assert_eq!(db(), query(json!({"kind": "A", "name": "db", "until": "exists"})));
        for other in [
            json!({"kind": "B", "name": "db"}),
            json!({"group": "g", "kind": "A", "name": "db", "until": "exists"}),
            json!({"group": "g", "kind": "A", "name": "db"}),
            json!({"kind": "A", "name": "db", "ready": "true"}),
            json!({"kind": "A", "selector": {"matchLabels": {"name": "db"}}}),
        ] {
            assert_ne!(db(), query(other.clone()), "{other}");
        }
    }

    #[test]
    fn an_annotation_names_only_the_kinds_and_namespaces_that_the_watch_lists() {
        let rule = AnnotationRule {
            kinds: ["Secret".to_owned(), "Database.db.example.com".to_owned()].into(),
            namespaces: ["shared".to_owned()].into(),
        };
        let database = |more: Value| {
            let mut entry = json!({"group": "db.example.com", "kind": "Database", "name": "db"});
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            of(entry, "ns").unwrap()
        };
        let allowed = |wanted: &[Wanted], reads_as| admit(wanted, "ns", Some(&rule), reads_as, &|_| false);
        assert_eq!(allowed(&database(json!({})), ReadsAs::Operator), Ok(()));
        assert_eq!(allowed(&database(json!({"namespace": "shared"})), ReadsAs::Operator), Ok(()));
        assert_eq!(allowed(&database(json!({"ready": "true"})), ReadsAs::Account), Ok(()));
        for (wanted, expected) in [
            (of(json!({"kind": "Database", "name": "db"}), "ns").unwrap(), "[0]: Database is not allowed; dependsOnAn"),
            (database(json!({"namespace": "kube-system"})), "[0]: namespace \"kube-system\" is not allowed; depends"),
            (database(json!({"ready": "true"})), "[0]: ready asks for the content of an object"),
            (database(json!({"namespace": "shared", "reverseDeletion": true})), "[0]: reverseDeletion is only for"),
        ] {
            let error = allowed(&wanted, ReadsAs::Operator).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = admit(&database(json!({})), "ns", None, ReadsAs::Account, &|_| false).unwrap_err();
        assert!(error.ends_with("lacks dependsOnAnnotation"), "{error}");
        let many: Vec<Wanted> = (0..=MAX_SELECTORS)
            .flat_map(|n| {
                let labels = json!({"matchLabels": {"n": n.to_string()}});
                of(json!({"kind": "Secret", "selector": labels}), "ns").unwrap()
            })
            .collect();
        assert_eq!(allowed(&many[1..], ReadsAs::Operator), Ok(()));
        let error = allowed(&many, ReadsAs::Operator).unwrap_err();
        assert_eq!(error, "has 5 entries with a selector; at most 4 are allowed");
        // It may wait for one without a namespace, but not hold it.
        let cluster_scoped = |more| admit(&database(more), "ns", Some(&rule), ReadsAs::Operator, &|_| true);
        assert_eq!(cluster_scoped(json!({})), Ok(()));
        let error = cluster_scoped(json!({"reverseDeletion": true})).unwrap_err();
        assert_eq!(error, "[0]: reverseDeletion is only for resources in the same namespace");
    }
}
