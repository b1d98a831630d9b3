//! The served kinds, and discovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::Scope;
use crate::request::{Target, group_of};
use crate::schema::{CUSTOM, Type, schema};
use crate::status::About;

#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) scope: Scope,
    pub(crate) has_status: bool,
    pub(crate) structure: &'static str,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    served: Vec<Arc<Kind>>,
    /// Group versions whose API service does not respond.
    pub(crate) stale: Vec<String>,
}

impl Kind {
    /// Creates a kind; a custom resource unless it is built in.
    pub(crate) fn new(api_version: &str, kind: &str, plural: &str, scope: Scope) -> Kind {
        let built_in = schema().kinds.iter().find(|known| known.api_version == api_version && known.kind == kind);
        Kind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            scope,
            has_status: built_in.is_none_or(|known| known.has_status),
            structure: built_in.map_or(CUSTOM, |known| known.structure),
        }
    }

    /// Returns the kind of a path, which need not be served.
    pub(crate) fn of_path(target: &Target) -> Kind {
        let scope = if target.namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced };
        Kind::new(target.api_version, "", target.plural, scope)
    }

    pub(crate) fn of(&self) -> Type {
        Type::object(self.structure)
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.structure == CUSTOM
    }

    /// Returns the API group; empty for the core group.
    pub(crate) fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Returns the subject of a refusal about an object.
    pub(crate) fn about<'a>(&'a self, name: &'a str) -> About<'a> {
        About { group: self.group(), plural: &self.plural, name }
    }

    /// Returns the path of an object, or of a collection if the name is empty.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let mut path = format!("/{root}/{}", self.api_version);
        if !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        if !name.is_empty() {
            path.push('/');
            path.push_str(name);
        }
        path
    }
}

impl Kinds {
    pub(crate) fn add(&mut self, kind: Kind) {
        self.served.retain(|known| known.api_version != kind.api_version || known.plural != kind.plural);
        self.served.push(Arc::new(kind));
    }

    /// Stops serving a kind; returns the removed entries.
    pub(crate) fn remove(&mut self, api_version: &str, kind: &str) -> Vec<Arc<Kind>> {
        let is_it = |known: &mut Arc<Kind>| known.kind == kind && known.api_version == api_version;
        self.served.extract_if(.., is_it).collect()
    }

    pub(crate) fn find(&self, api_version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.served.iter().find(|known| known.plural == plural && known.api_version == api_version)
    }

    /// Returns the kind that an owner reference names.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.served.iter().find(|known| known.kind == kind && known.api_version == api_version)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.served.iter()
    }

    /// Returns aggregated discovery of the groups below `/api`, the core group only, or `/apis`.
    pub(crate) fn discovery(&self, root: &str) -> Value {
        let mut groups: BTreeMap<&str, BTreeMap<&str, Vec<Value>>> = BTreeMap::new();
        for kind in &self.served {
            let version = kind.api_version.rsplit('/').next().unwrap_or_default();
            let versions = groups.entry(kind.group()).or_default();
            versions.entry(version).or_default().push(described(kind));
        }
        for api_version in &self.stale {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            groups.entry(group).or_default().entry(version).or_default();
        }
        let items = groups.into_iter().filter(|(group, _)| group.is_empty() == (root == "/api"));
        let items = items.map(|(group, versions)| {
            let versions = versions.into_iter().map(|(version, resources)| {
                json!({"version": version, "freshness": self.freshness(group, version), "resources": resources})
            });
            json!({"metadata": {"name": group}, "versions": versions.collect::<Vec<_>>()})
        });
        json!({"items": items.collect::<Vec<_>>()})
    }

    fn freshness(&self, group: &str, version: &str) -> &'static str {
        let is_stale = self.stale.iter().any(|stale| *stale == format!("{group}/{version}"));
        if is_stale { "Stale" } else { "Current" }
    }
}

fn described(kind: &Kind) -> Value {
    json!({
        "resource": kind.plural, "responseKind": {"kind": kind.kind}, "scope": kind.scope.name(),
        "verbs": ["get", "list", "delete"],
    })
}
