//! Whether `config/rbac` lets the operator do what its charts need.

use serde_json::Value as Json;

use super::{Document, Finding, objects};
use crate::rbac::{self, Lack, Native};
use crate::watches::Watch;
use crate::{Error, Project, kustomize};

/// The account that binds, unless the deployment names another.
const ACCOUNT: &str = "controller-manager";

/// Compares the rules bound to the operator's account with what each chart can render, and with what the program's own reconcilers do.
///
/// # Errors
/// A list of `config` is not valid YAML.
pub(super) fn check(project: &Project, watches: &[Watch], natives: &[Native]) -> Result<Vec<Finding>, Error> {
    let mut found = Vec::new();
    let mut documents = |folder: &str| -> Result<Vec<Document>, Error> {
        Ok(super::documents(project, &kustomize::files(project, folder)?, &mut found))
    };
    let (roles, manager) = (documents("config/rbac")?, documents("config/manager")?);
    if roles.is_empty() {
        return Ok(found);
    }
    let name = |manager: &Document| {
        let name = &manager.content["spec"]["template"]["spec"]["serviceAccountName"];
        name.as_str().map(str::to_owned)
    };
    let account = manager.iter().find_map(name).unwrap_or_else(|| ACCOUNT.to_owned());
    let granted = granted(&roles, &account);
    for watch in watches {
        // A chart that does not load is reported elsewhere.
        let Ok(lacks) = rbac::missing(project, watch, &granted) else { continue };
        found.extend(lacks.iter().map(|lack| finding(project, watch, lack)));
    }
    for (kind, rule) in rbac::missing_natives(natives, &granted) {
        let message = format!(
            "config/rbac grants no {rule}, which the reconciler of {kind} needs; 'generate rbac' writes the rule"
        );
        found.push(Finding::error("config/rbac", None, message));
    }
    Ok(found)
}

/// The rules of the roles that are bound to the account.
fn granted(documents: &[Document], account: &str) -> Vec<Json> {
    let is_bound = |binding: &&Document| {
        let subjects = binding.content["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        subjects.iter().any(|subject| subject["kind"] == "ServiceAccount" && subject["name"] == account)
    };
    let role = |binding: &Document| {
        let reference = &binding.content["roleRef"];
        documents.iter().find(|role| {
            role.content["kind"] == reference["kind"] && role.content["metadata"]["name"] == reference["name"]
        })
    };
    let roles = documents.iter().filter(is_bound).filter_map(role);
    roles.flat_map(|role| role.content["rules"].as_array().cloned().unwrap_or_default()).collect()
}

/// An error if the defaults or any values need the right; a warning if only certain values do.
fn finding(project: &Project, watch: &Watch, lack: &Lack) -> Finding {
    let message = format!("config/rbac grants no {}; 'generate rbac' writes the rule", lack.rule);
    let (template, values) =
        lack.place.split_once(" with ").map_or((lack.place.as_str(), ""), |(file, why)| (file, why));
    let path = format!("{}/{template}", watch.chart);
    if !project.contains(&path) {
        return Finding::error(&watch.chart, None, format!("{message} ({})", lack.place));
    }
    let line = objects::line_of_kind(project, &path, &lack.kind);
    match values {
        "" => Finding::error(&path, line, message),
        values => Finding::warning(&path, line, format!("{message} (with {values})")),
    }
}
