//! `PROJECT`: the facts about a project that upstream's tools read and write. Counterpart: kubebuilder's
//! `pkg/config/v3`.
//!
//! Unknown fields are kept.

use serde_json::{Map, Value as Json, json};

use crate::gvk::Gvk;
use crate::{Error, yaml};

pub(crate) const PATH: &str = "PROJECT";

/// The layout of projects without code, named as in operator-sdk's Helm plugin.
const CHARTS: &str = "helm.sdk.operatorframework.io/v1";
/// The layout of hybrid projects, named as in helm-operator-plugins.
const HYBRID: &str = "hybrid.helm.sdk.operatorframework.io/v1-alpha";

const HEADER: &str = "\
# Written by helm-operator, in the form that operator-sdk and kubebuilder read.
# See https://book.kubebuilder.io/reference/project-config.html
";

#[derive(Clone, Debug)]
pub(crate) struct ProjectFile {
    header: String,
    fields: Map<String, Json>,
}

/// What a project consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Charts,
    Hybrid,
}

/// How a kind is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Chart,
    Native { controller: bool },
}

impl ProjectFile {
    pub(crate) fn new(name: &str, domain: &str, repo: Option<&str>, layout: Layout) -> ProjectFile {
        let layout = match layout {
            Layout::Charts => CHARTS,
            Layout::Hybrid => HYBRID,
        };
        let mut fields = Map::new();
        fields.insert("domain".into(), domain.into());
        fields.insert("layout".into(), json!([layout]));
        fields.insert("plugins".into(), json!({"manifests.sdk.operatorframework.io/v2": {}}));
        fields.insert("projectName".into(), name.into());
        if let Some(repo) = repo {
            fields.insert("repo".into(), repo.into());
        }
        fields.insert("version".into(), "3".into());
        ProjectFile { header: HEADER.to_owned(), fields }
    }

    pub(crate) fn parse(text: &str) -> Result<ProjectFile, Error> {
        let header = text.split_inclusive('\n').take_while(|line| line.starts_with('#')).collect();
        match yaml::parse(text) {
            Ok(Json::Object(fields)) => Ok(ProjectFile { header, fields }),
            Ok(_) => Err(Error::read(PATH, "the file is not a table")),
            Err(error) => Err(Error::read(PATH, error)),
        }
    }

    pub(crate) fn print(&self) -> String {
        format!("{}{}", self.header, yaml::print(&Json::Object(self.fields.clone())))
    }

    /// Returns a string field; empty if absent.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.fields.get(field).and_then(Json::as_str).unwrap_or_default()
    }

    pub(crate) fn domain(&self) -> &str {
        self.text("domain")
    }

    pub(crate) fn name(&self) -> &str {
        self.text("projectName")
    }

    /// Returns whether Rust may serve kinds.
    pub(crate) fn is_hybrid(&self) -> bool {
        self.has_layout("hybrid.helm.")
    }

    /// Returns whether charts serve all kinds.
    pub(crate) fn is_charts(&self) -> bool {
        self.has_layout("helm.sdk.operatorframework.io/")
    }

    /// Returns whether this program made the project.
    pub(crate) fn is_ours(&self) -> bool {
        self.header == HEADER
    }

    /// Returns the names of its layouts. Older tools wrote a string instead of a list.
    pub(crate) fn layouts(&self) -> Vec<&str> {
        match self.fields.get("layout") {
            Some(Json::Array(layouts)) => layouts.iter().filter_map(Json::as_str).collect(),
            layout => layout.and_then(Json::as_str).into_iter().collect(),
        }
    }

    /// Allows Rust code to serve kinds as well.
    pub(crate) fn make_hybrid(&mut self) -> Result<(), Error> {
        if !self.is_charts() {
            return Err(Error::OtherLayout(self.layouts().join(", ")));
        }
        let layouts = self.layouts().into_iter().filter(|layout| !layout.starts_with("helm.sdk.")).map(Json::from);
        let layouts: Vec<Json> = std::iter::once(HYBRID.into()).chain(layouts).collect();
        self.fields.insert("layout".into(), layouts.into());
        Ok(())
    }

    pub(crate) fn has_layout(&self, start: &str) -> bool {
        self.layouts().iter().any(|layout| layout.starts_with(start))
    }

    /// Records an API, unless it is recorded already.
    pub(crate) fn add(&mut self, gvk: &Gvk, served: Served) {
        if let Some(known) = self.position(gvk) {
            if served == (Served::Native { controller: true }) {
                self.fields["resources"][known]["controller"] = true.into();
            }
            return;
        }
        let domain = self.domain().to_owned();
        let mut entry = json!({
            "api": {"crdVersion": "v1", "namespaced": true},
            "domain": domain,
            "kind": gvk.kind,
            "version": gvk.version,
        });
        let group = gvk.short_group(&domain);
        if !group.is_empty() {
            entry["group"] = group.into();
        }
        if let Served::Native { controller } = served {
            entry["path"] = format!("src/api/{}.rs", gvk.module()).into();
            if controller {
                entry["controller"] = true.into();
            }
        }
        if let Json::Array(list) = self.fields.entry("resources").or_insert_with(|| json!([])) {
            list.push(entry);
        }
    }

    fn position(&self, gvk: &Gvk) -> Option<usize> {
        self.resources().iter().position(|known| known == gvk)
    }

    /// Returns the recorded APIs.
    pub(crate) fn resources(&self) -> Vec<Gvk> {
        let text = |entry: &Json, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let entries = self.fields.get("resources").and_then(Json::as_array);
        // Before version 3, every group had the project's domain.
        let domain = if self.text("version") == "3" { "" } else { self.domain() };
        let gvk = |entry: &Json| {
            let own = entry["domain"].as_str().unwrap_or(domain).to_owned();
            let parts = [text(entry, "group"), own];
            let group = parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(".");
            Gvk { group, version: text(entry, "version"), kind: text(entry, "kind") }
        };
        entries.map(|entries| entries.iter().map(gvk).collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projects_file_has_the_fields_that_kubebuilder_writes() {
        let mut file = ProjectFile::new("cache-operator", "my.domain", Some("example.com/cache"), Layout::Hybrid);
        let chart = Gvk::new("cache", "my.domain", "v1", "Memcached").unwrap();
        let native = Gvk::new("cache", "my.domain", "v1", "MemcachedBackup").unwrap();
        for _ in 0..2 {
            file.add(&chart, Served::Chart);
            file.add(&native, Served::Native { controller: true });
        }
        let expected = "\
domain: my.domain
layout:
- hybrid.helm.sdk.operatorframework.io/v1-alpha
plugins:
  manifests.sdk.operatorframework.io/v2: {}
projectName: cache-operator
repo: example.com/cache
resources:
- api:
    crdVersion: v1
    namespaced: true
  domain: my.domain
  group: cache
  kind: Memcached
  version: v1
- api:
    crdVersion: v1
    namespaced: true
  controller: true
  domain: my.domain
  group: cache
  kind: MemcachedBackup
  path: src/api/memcached_backup.rs
  version: v1
version: \"3\"
";
        assert_eq!(file.print(), format!("{HEADER}{expected}"));
        assert_eq!(file.resources(), [chart, native]);
        assert!(file.is_hybrid());
    }

    #[test]
    fn projects_of_older_tools_have_a_layout_and_groups_too() {
        let text = "domain: a.b\nlayout: helm.sdk.operatorframework.io/v1\nresources:\n- {group: c, kind: D, version: v1}\nversion: 3-alpha\n";
        let file = ProjectFile::parse(text).unwrap();
        assert!(file.has_layout("helm.sdk.operatorframework.io/") && !file.has_layout("hybrid."));
        assert_eq!(file.resources(), [Gvk::new("c", "a.b", "v1", "D").unwrap()]);
    }

    #[test]
    fn unknown_fields_and_the_header_are_kept() {
        let text = "# Code generated by tool.\ncliVersion: 4.6.0\ndomain: a.b\nlayout:\n- helm.sdk.operatorframework.io/v1\nversion: \"3\"\n";
        let file = ProjectFile::parse(text).unwrap();
        assert_eq!(file.print(), text);
        assert!(!file.is_hybrid());
    }
}
