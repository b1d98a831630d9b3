//! Finds the definitions of custom resources in a project, and with them the kinds' plural names.
//!
//! A kind is found by its group and name in the definitions' content. Only a kind without a definition gets a plural by
//! the rules of client tools.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::documents::{self, Document};
use crate::{Error, Project, gvk, kustomize};

/// The folder that lists definitions.
pub(crate) const FOLDER: &str = "config/crd";

/// All definitions of a project, deployed ones first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definitions {
    all: Vec<Definition>,
}

#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) document: Document,
    /// Whether it is a copy in a bundle or another output, which is never rewritten.
    pub(crate) is_copy: bool,
}

impl Definitions {
    /// Finds the definitions: those that `config/crd` lists, then those in other files, except charts.
    pub(crate) fn of(project: &Project) -> Result<Definitions, Error> {
        let mut paths = kustomize::files(project, FOLDER)?;
        let charts = chart_folders(project);
        let is_in_chart = |path: &str| charts.iter().any(|chart| path.starts_with(chart.as_str()));
        let (mut near, mut far): (Vec<String>, Vec<String>) = project
            .files()
            .filter(|(path, content)| is_candidate(path, content) && !is_in_chart(path))
            .map(|(path, _)| path.to_owned())
            .partition(|path| path.starts_with(FOLDER));
        paths.append(&mut near);
        paths.append(&mut far);
        let mut seen = BTreeSet::new();
        paths.retain(|path| seen.insert(path.clone()));
        let definition = |document: Document| Definition { is_copy: is_output(&document.path), document };
        let documents = paths.iter().flat_map(|path| documents::valid(project, path));
        let all = documents.filter(|one| one.is("apiextensions.k8s.io", "CustomResourceDefinition")).map(definition);
        let mut all: Vec<Definition> = all.collect();
        all.sort_by_key(|one| one.is_copy);
        Ok(Definitions { all })
    }

    pub(crate) fn find(&self, group: &str, kind: &str) -> Option<&Definition> {
        self.all.iter().find(|one| defines(&one.document.content, group, kind))
    }

    pub(crate) fn kinds(&self, group: &str) -> Vec<String> {
        let of_group = self.all.iter().filter(|one| one.document.text("/spec/group") == group);
        let kinds: BTreeSet<String> = of_group.map(|one| one.document.text("/spec/names/kind").to_owned()).collect();
        kinds.into_iter().collect()
    }

    /// Returns the kind's plural name: its definition's, or the one that client tools guess.
    pub(crate) fn plural(&self, group: &str, kind: &str) -> String {
        let known = self.find(group, kind).map(|one| one.document.text("/spec/names/plural"));
        known.filter(|plural| !plural.is_empty()).map_or_else(|| gvk::plural(kind), str::to_owned)
    }
}

pub(crate) fn defines(crd: &Json, group: &str, kind: &str) -> bool {
    crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == kind
}

/// Returns whether the file may contain definitions.
fn is_candidate(path: &str, content: &[u8]) -> bool {
    let is_yaml = [".yaml", ".yml", ".json"].iter().any(|end| path.ends_with(end));
    is_yaml && std::str::from_utf8(content).is_ok_and(|text| text.contains("CustomResourceDefinition"))
}

/// Returns whether the path is build output: bundles and releases hold copies of files in `config`.
fn is_output(path: &str) -> bool {
    ["bundle", "dist", "deploy/olm-catalog", "catalog"]
        .iter()
        .any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(['/', '.'])))
}

/// Returns the folders of the project's charts, each with a trailing slash.
fn chart_folders(project: &Project) -> Vec<String> {
    let folder = |(path, _): (&str, &[u8])| Some(path.strip_suffix("Chart.yaml")?.to_owned());
    project.files().filter_map(folder).filter(|folder| folder.ends_with('/')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(kind: &str, plural: &str) -> String {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {{group: a.b, names: {{kind: {kind}, plural: {plural}}}}}\n"
        )
    }

    #[test]
    fn kinds_are_found_by_content_and_copies_and_charts_come_last_or_never() {
        let (postgres, gateway, other) =
            (crd("Postgres", "postgres"), crd("Gateway", "gatewayz"), crd("Postgres", "no"));
        let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}", gateway.replace('\n', "\n  "));
        let project = Project::from_files([
            ("config/crd/kustomization.yaml", "bases: [bases]\n"),
            ("config/crd/bases/kustomization.yaml", "resources: [x.yaml]\n"),
            ("config/crd/bases/x.yaml", postgres.as_str()),
            ("deploy/crds.yml", list.trim_end()),
            ("bundle/manifests/a.yaml", other.as_str()),
            ("helm-charts/web/Chart.yaml", ""),
            ("helm-charts/web/crds/c.yaml", &crd("Web", "webz")),
        ]);
        let found = Definitions::of(&project).unwrap();
        assert_eq!(found.plural("a.b", "Postgres"), "postgres");
        assert_eq!(found.plural("a.b", "Gateway"), "gatewayz");
        assert_eq!(found.plural("a.b", "Web"), "webs");
        assert_eq!(found.plural("other", "Postgres"), "postgreses");
        assert_eq!(found.find("a.b", "Postgres").unwrap().document.path, "config/crd/bases/x.yaml");
    }
}
