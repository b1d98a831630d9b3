//! Checks whether the project's roles grant the operator the permissions that its charts need.

use super::grants::Grants;
use super::{Finding, Found, Level, objects};
use crate::definitions::Definitions;
use crate::deployment::Deployment;
use crate::rbac::{self, Lack, Native};
use crate::watches::Watch;
use crate::{Error, Project, documents, kustomize};

/// The folders of roles: today's layout, and the one before kustomize.
const FOLDERS: [&str; 2] = ["config/rbac", "deploy"];

/// Compares the rules bound to the operator's account with the objects that each chart can render, and with the
/// requests of the program's own reconcilers.
///
/// # Errors
/// Fails if a list of `config` is not valid YAML.
pub(super) fn check(
    project: &Project,
    watches: &[Watch],
    definitions: &Definitions,
    natives: &[Native],
) -> Result<Vec<Finding>, Error> {
    let mut found = Found::default();
    let mut roles = Vec::new();
    for path in kustomize::files(project, FOLDERS[0])? {
        roles.extend(found.documents(project, &path));
    }
    let mut folder = FOLDERS[0];
    if roles.is_empty() {
        folder = FOLDERS[1];
        let below = project.below(folder).filter(|(path, _)| path.ends_with(".yaml") || path.ends_with(".yml"));
        roles.extend(below.flat_map(|(path, _)| documents::valid(project, &format!("{folder}/{path}"))));
    }
    if !roles.iter().any(|role| role.text("/kind").ends_with("RoleBinding")) {
        return Ok(found.0);
    }
    let deployment = Deployment::of(project)?;
    let rights = Rights { project, folder, account: &deployment.account, grants: Grants::of(&roles, &deployment) };
    for watch in watches {
        // A chart that does not load is reported elsewhere.
        let Ok(lacks) = rbac::missing(project, watch, definitions, &rights.grants.rules) else { continue };
        found.0.extend(lacks.iter().map(|lack| rights.finding(watch, lack)));
    }
    for (kind, rule) in rbac::missing_natives(natives, &rights.grants.rules) {
        let message = format!(
            "{}, which the reconciler of {kind} needs; 'generate rbac' writes the rule",
            rights.lacking(&rule, "")
        );
        found.0.push(Finding { level: rights.level(Level::Error), ..Finding::error(folder, None, message) });
    }
    Ok(found.0)
}

/// The operator's account and its permissions.
struct Rights<'a> {
    project: &'a Project,
    folder: &'a str,
    account: &'a str,
    grants: Grants,
}

impl Rights<'_> {
    /// Returns an error if the defaults or any values need the permission; a warning if only certain values do.
    fn finding(&self, watch: &Watch, lack: &Lack) -> Finding {
        let (template, values) =
            lack.place.split_once(" with ").map_or((lack.place.as_str(), ""), |(file, why)| (file, why));
        let level = if values.is_empty() && !lack.is_unsure { Level::Error } else { Level::Warning };
        let path = format!("{}/{template}", watch.chart);
        let mut message = format!("{}; 'generate rbac' writes the rule", self.lacking(&lack.rule, &lack.resource));
        let known = self.project.contains(&path);
        if !known {
            message += &format!(" ({})", lack.place);
        } else if !values.is_empty() {
            message += &format!(" (with {values})");
        }
        let line = if known { objects::line_of_kind(self.project, &path, &lack.kind) } else { None };
        let path = if known { path } else { watch.chart.clone() };
        Finding { level: self.level(level), path, line, message }
    }

    fn lacking(&self, rule: &str, resource: &str) -> String {
        let mut text = format!("{} grants no {rule}", self.folder);
        if self.account != "controller-manager" {
            text += &format!(", to the account {:?}", self.account);
        }
        if self
            .grants
            .local
            .iter()
            .any(|rule| rule["resources"].as_array().is_some_and(|all| all.contains(&resource.into())))
        {
            text += " in all namespaces, which it serves (a RoleBinding grants rights in one)";
        }
        if !self.grants.unknown.is_empty() {
            text += &format!(" (unless {} does, which the project does not contain)", self.grants.unknown.join(" or "));
        }
        text
    }

    /// Lowers an error to a warning if some roles are unknown.
    fn level(&self, level: Level) -> Level {
        if self.grants.unknown.is_empty() { level } else { Level::Warning }
    }
}
