//! `dependsOn`: what a resource waits for before its release is installed or upgraded. Parses entries, resolves them
//! for one resource, and describes what is missing. Does not read the cluster.

mod decode;
mod graph;
mod missing;
mod resolve;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kube::core::{Selector, SelectorExt as _};

use crate::cel::Expression;

pub(crate) use decode::parse;
pub(crate) use graph::{cycle, in_cycle_with};
pub(crate) use missing::{
    Access, CYCLE, Gap, HELD, Missing, NOT_READY, Standing, UNLISTED, Waiting, describe_cycle, describe_gaps,
    describe_holders, describe_unlisted,
};
pub(crate) use resolve::{ReadsAs, admit, resolve, shows_readiness};

/// The maximum number of entries in a list, because each is looked up for every resource.
pub(crate) const MAX_ENTRIES: usize = 20;

/// The maximum number of entries with a selector in an annotation, because each keeps what it knows of its objects.
pub(crate) const MAX_SELECTORS: usize = 4;

/// The maximum number of objects that an annotation's selector may mean, for the same reason.
pub(crate) const MAX_SELECTED: usize = 100;

/// An entry of `dependsOn`.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The API group; empty for the core group.
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) target: Target,
    /// The namespace; `None` means the resource's own. May contain `$(name)`.
    pub(crate) namespace: Option<String>,
    pub(crate) until: Until,
    /// Whether the named resource, if this operator serves it, is uninstalled only after the one that waits for it.
    pub(crate) reverse_deletion: bool,
}

/// The kinds and namespaces that a resource's own annotation may name: `dependsOnAnnotation` in watches.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationRule {
    /// The kinds with their group, such as `Database.db.example.com`, or `Secret` of the core group.
    pub kinds: Arc<[String]>,
    /// The namespaces besides the resource's own.
    pub namespaces: Arc<[String]>,
}

/// The objects of a kind that an entry selects.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Named(Arc<str>),
    /// All objects with these labels, and at least one: when a cluster is set up, none may exist yet.
    Selected(Selector),
}

/// The condition that an object must satisfy.
#[derive(Clone, Debug)]
pub(crate) enum Until {
    /// It exists, and is not being deleted.
    Exists,
    /// It is ready, by a `readiness` rule of the watch, or else by kstatus.
    Ready,
    /// The expression is true, with the object as `self`.
    True(Expression),
}

/// Where an entry comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// watches.yaml, whose author is trusted.
    Watch,
    /// The resource's own annotation.
    Annotation,
}

/// The objects that an entry selects for one resource, and the conditions that they must meet. Resources with the same
/// query share its state.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// Identifies the query within its kind.
    pub(crate) id: Arc<str>,
    pub(crate) group: Arc<str>,
    pub(crate) kind: Arc<str>,
    /// The namespace of namespaced kinds; empty if a cluster-scoped resource names none.
    pub(crate) namespace: Arc<str>,
    pub(crate) target: Target,
    /// How many objects the labels may select.
    pub(crate) max_objects: usize,
    pub(crate) until: Until,
    /// The controller whose `readiness` rule decides whether the objects are ready.
    pub(crate) rules: Option<Arc<str>>,
}

/// A query of one resource.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) query: Arc<Query>,
    pub(crate) origin: Origin,
    pub(crate) reverse_deletion: bool,
}

/// A resource in the graph of dependencies. Its namespace is empty if it is cluster-scoped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) group: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// Formats the resource for messages: `Database "db"`.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name)
    }
}

impl Query {
    /// Returns whether the query selects an object with this name, these labels and this namespace, which is empty for
    /// a cluster-scoped object.
    pub(crate) fn means(&self, namespace: &str, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.reaches(namespace)
            && match &self.target {
                Target::Named(named) => **named == *name,
                Target::Selected(selector) => selector.matches(labels),
            }
    }

    /// Returns whether objects in this namespace, which is empty for cluster-scoped kinds, can be meant.
    pub(crate) fn reaches(&self, namespace: &str) -> bool {
        namespace.is_empty() || *self.namespace == *namespace
    }

    /// Returns the name, unless labels select the objects.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        match &self.target {
            Target::Named(name) => Some(name),
            Target::Selected(_) => None,
        }
    }

    /// Returns whether metadata suffices to judge the objects.
    pub(crate) fn needs_only_metadata(&self) -> bool {
        matches!(self.until, Until::Exists)
    }
}

impl PartialEq for Query {
    fn eq(&self, other: &Query) -> bool {
        (&self.group, &self.kind, &self.id) == (&other.group, &other.kind, &other.id)
    }
}

impl Eq for Query {}

impl Hash for Query {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.group, &self.kind, &self.id).hash(state);
    }
}

/// Two entries are equal if they mean the same for the same resource.
impl PartialEq for Wanted {
    fn eq(&self, other: &Wanted) -> bool {
        self.query == other.query && self.origin == other.origin && self.reverse_deletion == other.reverse_deletion
    }
}
