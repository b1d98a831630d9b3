//! Describes what a resource waits for. The words do not change while an object makes progress, because each change
//! costs a write of the status.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{MAX_SELECTED, Node, Query, Target};

/// The reason while an object of `dependsOn` is missing or not ready.
pub(crate) const NOT_READY: &str = "DependencyNotReady";

/// The reason while resources wait for each other.
pub(crate) const CYCLE: &str = "DependencyCycle";

/// The reason while a deletion waits for resources that depend on the deleted one.
pub(crate) const HELD: &str = "DependentsExist";

/// The reason while a deletion waits until the resources that may depend on the deleted one are listed.
pub(crate) const UNLISTED: &str = "DependentsUnknown";

/// How many objects a message names.
const MAX_NAMED: usize = 3;

/// Why an object does not satisfy a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The server does not serve the kind.
    Unserved,
    /// It does not exist.
    Absent,
    /// No object has the labels.
    Unmatched,
    /// More objects have the labels than an annotation may select.
    TooMany,
    /// The kind has namespaces, and a cluster-scoped resource names none.
    NoNamespace,
    Deleting,
    Unready,
    /// It needs intervention to become ready.
    Failed,
    Untrue,
    /// The expression has no result, and why.
    Faulty(String),
}

/// Why a query is not satisfied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The first object that does not satisfy it, if labels select the objects.
    pub(crate) object: Option<Arc<str>>,
    pub(crate) missing: Missing,
}

/// The state of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The objects must be read.
    Unknown,
    Met,
    Lacks(Gap),
}

/// Whether a resource's account may read the objects of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Granted,
    Denied,
}

/// What a resource waits for, for its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Whether only a change of a resource can end it.
    pub(crate) is_final: bool,
}

impl Missing {
    fn words(&self) -> String {
        match self {
            Missing::Unserved => "the server does not serve its kind".to_owned(),
            Missing::Absent => "does not exist".to_owned(),
            Missing::Unmatched => "no object has these labels".to_owned(),
            Missing::TooMany => format!("more than {MAX_SELECTED} objects have these labels"),
            Missing::NoNamespace => "the entry must name a namespace".to_owned(),
            Missing::Deleting => "is being deleted".to_owned(),
            Missing::Unready => "is not ready".to_owned(),
            Missing::Failed => "has failed".to_owned(),
            Missing::Untrue => "its expression is not true".to_owned(),
            Missing::Faulty(why) => format!("its expression fails: {why}"),
        }
    }
}

/// Names what a resource in the namespace `own` waits for. `None` stands for something that its account may not read.
pub(crate) fn describe_gaps(gaps: &[Option<(Arc<Query>, Gap)>], own: &str) -> String {
    let describe = |gap: &Option<(Arc<Query>, Gap)>| match gap {
        Some((query, gap)) => describe_gap(query, gap, own),
        None => "an object of dependsOn in watches.yaml that the release's account may not read".to_owned(),
    };
    format!("waiting for {}", listed(gaps.iter().map(describe)))
}

fn describe_gap(query: &Query, gap: &Gap, own: &str) -> String {
    let what = match (&query.target, &gap.object) {
        (Target::Named(name), _) | (_, Some(name)) => format!("{} {name:?}", query.kind),
        (Target::Selected(selector), None) => format!("{} with labels {selector}", query.kind),
    };
    let place = match &*query.namespace {
        namespace if namespace == own || namespace.is_empty() => String::new(),
        namespace => format!(" in namespace {namespace:?}"),
    };
    format!("{what}{place} ({})", gap.missing.words())
}

/// Names the members of a cycle, as far as the one that asks may know them.
pub(crate) fn describe_cycle(members: &[Node], may_know: impl Fn(&Node) -> bool) -> String {
    let path: Vec<String> = members.iter().chain(members.first()).map(|node| shown(node, &may_know)).collect();
    format!("these resources wait for each other, so none can start: {}; remove one dependsOn", path.join(" → "))
}

/// Names the resources that must be deleted first, as far as the one that waits may know them.
pub(crate) fn describe_holders(holders: &[Node], may_know: impl Fn(&Node) -> bool) -> String {
    let listed = listed(holders.iter().map(|node| shown(node, &may_know)));
    format!("the release is uninstalled once the resources that depend on it are deleted: {listed}")
}

/// Names the kinds whose resources may have to be deleted first.
pub(crate) fn describe_unlisted(kinds: &BTreeSet<Arc<str>>) -> String {
    let listed = listed(kinds.iter().map(|kind| kind.to_string()));
    format!(
        "the release is uninstalled once the operator has listed all resources that may depend on it; not listed yet: \
         {listed}"
    )
}

fn shown(node: &Node, may_know: impl Fn(&Node) -> bool) -> String {
    if may_know(node) { node.to_string() } else { "another resource".to_owned() }
}

/// Lists the first few, and counts the others.
fn listed(all: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = all.collect();
    let more = texts.len().saturating_sub(MAX_NAMED);
    texts.truncate(MAX_NAMED);
    match more {
        0 => texts.join(", "),
        more => format!("{} and {more} more", texts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Origin, parse, resolve};
    use super::*;

    fn gap(entry: Value, object: Option<&str>, missing: Missing) -> Option<(Arc<Query>, Gap)> {
        let entries = parse(&json!([entry])).unwrap();
        let query = resolve(&entries, Origin::Watch, ("ns", "web"), &|_, _| None).unwrap()[0].query.clone();
        Some((query, Gap { object: object.map(Arc::from), missing }))
    }

    #[test]
    fn what_is_missing_is_named_with_why() {
        let db = |missing| gap(json!({"kind": "Database", "name": "db"}), None, missing);
        let far = gap(json!({"kind": "Database", "name": "db", "namespace": "far"}), None, Missing::Unready);
        let some = || json!({"kind": "Pod", "selector": {"matchLabels": {"a": "b"}}});
        for (gaps, expected) in [
            (vec![db(Missing::Absent)], "Database \"db\" (does not exist)"),
            (vec![far], "Database \"db\" in namespace \"far\" (is not ready)"),
            (vec![gap(some(), None, Missing::Unmatched)], "Pod with labels a=b (no object has these labels)"),
            (
                vec![gap(some(), None, Missing::TooMany)],
                "Pod with labels a=b (more than 100 objects have these labels)",
            ),
            (vec![gap(some(), Some("x"), Missing::Deleting)], "Pod \"x\" (is being deleted)"),
            (
                vec![None, db(Missing::Faulty("no such key: status".into()))],
                "an object of dependsOn in watches.yaml that the release's account may not read, \
                 Database \"db\" (its expression fails: no such key: status)",
            ),
        ] {
            assert_eq!(describe_gaps(&gaps, "ns"), format!("waiting for {expected}"));
        }
        let many = vec![db(Missing::Failed); 5];
        assert!(describe_gaps(&many, "ns").ends_with("Database \"db\" (has failed) and 2 more"));
    }

    #[test]
    fn a_cycle_names_the_members_that_the_reader_may_know() {
        let node = |namespace: &str, name: &str| Node {
            group: "g".into(),
            kind: "Shop".into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let own = |node: &Node| *node.namespace == *"ns";
        let described = describe_cycle(&[node("ns", "a"), node("ns", "b")], own);
        assert!(described.contains(": Shop \"a\" → Shop \"b\" → Shop \"a\"; remove"), "{described}");
        let described = describe_cycle(&[node("ns", "a"), node("far", "secret")], own);
        assert!(
            described.contains("Shop \"a\" → another resource → Shop") && !described.contains("secret"),
            "{described}"
        );
        let described = describe_holders(&[node("ns", "a"), node("far", "secret")], own);
        assert!(described.ends_with("are deleted: Shop \"a\", another resource"), "{described}");
    }
}
