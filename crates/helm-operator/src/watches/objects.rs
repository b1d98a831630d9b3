//! Decodes what a release may contain: `objects` in watches.yaml. Upstream has no counterpart, so unknown keys are
//! errors.

use std::collections::BTreeSet;

use helm::engine::SpelledOut;
use helm_release::kube::{Allowed, Reach};

use super::node::{Entry, Node};
use super::rules::{name, unknown};

/// What a release may contain, in addition to objects in its own namespace: `objects` in watches.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectsRule {
    /// The namespaces of objects.
    pub namespaces: Granted,
    /// The cluster-scoped kinds of objects.
    pub cluster_scoped: Granted,
    /// The only kinds allowed, with or without group; empty means all.
    pub kinds: BTreeSet<String>,
}

/// The names that a watch grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Granted {
    /// Only the release's own namespace, or no cluster-scoped kind: `own` or `none`.
    Own,
    /// The names that the chart's own text spells out: `chart`.
    #[default]
    Chart,
    /// The names that the chart's own text spells out, and these.
    More(BTreeSet<String>),
    /// Any: `any`.
    Any,
}

impl Granted {
    /// Returns the granted names. `chart` contains those that the chart's own text spells out.
    fn with(&self, chart: &BTreeSet<String>) -> Allowed {
        match self {
            Granted::Own => Allowed::These(BTreeSet::new()),
            Granted::Chart => Allowed::These(chart.clone()),
            Granted::More(more) => Allowed::These(chart.union(more).cloned().collect()),
            Granted::Any => Allowed::Any,
        }
    }

    /// Returns whether the kind is granted. `chart` contains the kinds that the chart's own text spells out.
    pub(crate) fn has_kind(&self, kind: &str, group: &str, chart: &BTreeSet<String>) -> bool {
        let has = |names: &BTreeSet<String>| names.contains(kind) || names.contains(&format!("{kind}.{group}"));
        match self {
            Granted::Own => false,
            Granted::Chart => has(chart),
            Granted::More(more) => has(chart) || has(more),
            Granted::Any => true,
        }
    }

    /// Returns whether the watch does not set the key, so that only the chart's own text counts.
    pub(crate) fn is_default(&self) -> bool {
        *self == Granted::Chart
    }
}

impl ObjectsRule {
    /// Returns what the releases of a chart may contain, if the chart spells this out.
    pub(crate) fn reach(&self, spelled: &SpelledOut) -> Reach {
        Reach {
            namespaces: self.namespaces.with(&spelled.namespaces),
            cluster_scoped: self.cluster_scoped.with(&spelled.kinds),
            kinds: if self.kinds.is_empty() { Allowed::Any } else { Allowed::These(self.kinds.clone()) },
        }
    }
}

impl ObjectsRule {
    /// Returns what releases rendered by the operator author's own code may contain. Without the key, that code
    /// decides.
    pub(crate) fn reach_of_code(&self) -> Reach {
        if *self == ObjectsRule::default() { Reach::default() } else { self.reach(&SpelledOut::default()) }
    }
}

const KEYS: [&str; 3] = ["namespaces", "clusterScoped", "kinds"];

/// Decodes `objects: {namespaces: own, clusterScoped: [ClusterRole], kinds: [Deployment.apps]}`.
pub(super) fn objects(value: &Node) -> Result<ObjectsRule, String> {
    let mut rule = ObjectsRule::default();
    for Entry { key, value, .. } in value.map()? {
        match key.as_str() {
            "namespaces" => rule.namespaces = granted(key, value, "own")?,
            "clusterScoped" => rule.cluster_scoped = granted(key, value, "none")?,
            "kinds" => rule.kinds = names(key, value)?,
            _ => return Err(unknown(key, &KEYS)),
        }
    }
    Ok(rule)
}

/// Decodes a word, or a list of names. `least` is the word that grants nothing.
pub(super) fn granted(key: &str, value: &Node, least: &str) -> Result<Granted, String> {
    match value {
        Node::String(word) if word == least => Ok(Granted::Own),
        Node::String(word) if word == "chart" => Ok(Granted::Chart),
        Node::String(word) if word == "any" => Ok(Granted::Any),
        Node::List(_) => names(key, value).map(Granted::More),
        Node::String(other) => {
            Err(format!("{key} must be {least:?}, \"chart\", \"any\" or a list of names, found {other:?}"))
        }
        other => Err(format!("{key}: {}", other.expected("a word or a list of names"))),
    }
}

fn names(key: &str, value: &Node) -> Result<BTreeSet<String>, String> {
    value.list().map_err(|error| format!("{key}: {error}"))?.iter().map(name).collect()
}
