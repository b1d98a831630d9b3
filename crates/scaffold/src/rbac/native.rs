//! The roles of kinds that a program itself serves.

use super::rules::{FINALIZERS, binding, scalar};
use crate::crd::{HEADER, kept};
use crate::create_api::add_role;
use crate::deployment::Deployment;
use crate::gvk::Gvk;
use crate::{Error, Existing, Project};

/// The requests of a program's own reconcilers of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    /// The kind's group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The kind's plural name in lower case.
    pub plural: String,
    /// Whether its resources own objects.
    pub owns_objects: bool,
    /// Its requests, those for its own resources first.
    pub rules: Vec<Rule>,
}

/// Verbs on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The resource's group; empty for the core group.
    pub group: String,
    /// `deployments`, `deployments/scale`.
    pub resource: String,
    /// Verbs such as `get` and `list`.
    pub verbs: Vec<String>,
}

impl Native {
    fn gvk(&self) -> Gvk {
        Gvk { group: self.group.clone(), version: String::new(), kind: self.kind.clone() }
    }

    /// Adds the requests of another reconciler of the kind.
    fn join(&mut self, other: Native) {
        self.owns_objects |= other.owns_objects;
        for rule in other.rules {
            match self.rules.iter_mut().find(|own| own.group == rule.group && own.resource == rule.resource) {
                Some(own) => own
                    .verbs
                    .extend(rule.verbs.into_iter().filter(|verb| !own.verbs.contains(verb)).collect::<Vec<_>>()),
                None => self.rules.push(rule),
            }
        }
    }

    /// Returns the role with its binding, both named `name`.
    fn print(&self, name: &str, deployment: &Deployment) -> String {
        let is_own =
            |rule: &&Rule| rule.group == self.group && rule.resource.split('/').next() == Some(self.plural.as_str());
        let (own, others): (Vec<&Rule>, Vec<&Rule>) = self.rules.iter().partition(is_own);
        let print = |rules: Vec<&Rule>| rules.into_iter().map(Rule::print).collect::<String>();
        let finalizers = match self.owns_objects {
            true => FINALIZERS.replace("__group__", &scalar(&self.group)).replace("__plural__", &self.plural),
            false => String::new(),
        };
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {name}-role\nrules:\n{}{finalizers}{}{EVENTS}{}",
            print(own),
            print(others),
            binding(name, deployment)
        )
    }
}

impl Rule {
    fn print(&self) -> String {
        let (group, resource) = (scalar(&self.group), scalar(&self.resource));
        format!("- apiGroups: [{group}]\n  resources: [{resource}]\n  verbs: [{}]\n", self.verbs.join(", "))
    }
}

const EVENTS: &str = "\
# Events about custom resources.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
";

/// Writes the role of each kind. `charts` are the kinds, in lower case, whose roles follow from charts: their
/// reconcilers' roles get another name.
pub(super) fn generate(
    project: &mut Project,
    natives: &[Native],
    charts: &[String],
    existing: Existing,
) -> Result<Vec<String>, Error> {
    let mut kinds: Vec<Native> = Vec::new();
    for native in natives {
        match kinds.iter_mut().find(|known| known.gvk() == native.gvk()) {
            Some(known) => known.join(native.clone()),
            None => kinds.push(native.clone()),
        }
    }
    let mut notes = Vec::new();
    for kind in kinds {
        let lower = kind.gvk().lower();
        let suffix = if charts.contains(&lower) { "controller" } else { "" };
        notes.extend(write(project, &kind, suffix, existing)?);
    }
    Ok(notes)
}

/// Writes one role. `suffix` distinguishes it from the role of a chart.
pub(crate) fn write(
    project: &mut Project,
    native: &Native,
    suffix: &str,
    existing: Existing,
) -> Result<Option<String>, Error> {
    let lower = native.gvk().lower();
    let (name, file) = match suffix {
        "" => (lower.clone(), format!("{lower}_role.yaml")),
        suffix => (format!("{lower}-{suffix}"), format!("{lower}_{suffix}_role.yaml")),
    };
    let path = format!("config/rbac/{file}");
    if let Some(kept) = kept(project, &path, existing) {
        return Ok(Some(kept));
    }
    let header = format!("{HEADER} rbac' from the rights of {}'s reconciler; do not edit.\n", native.kind);
    project.write(path, header + &native.print(&name, &Deployment::of(project)?));
    add_role(project, &file)?;
    Ok(None)
}
