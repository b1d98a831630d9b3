//! Checks the required fields of a chart's objects and hooks.

use std::collections::BTreeMap;

use helm::dns::is_subdomain;
use helm::engine::Rendered;
use regex::Regex;
use serde_json::Value as Json;

use super::Finding;
use crate::documents::items;
use crate::{Project, yaml};

/// The hooks that Helm runs. Helm silently drops objects with any other hook.
const HOOKS: [&str; 11] = [
    "crd-install",
    "post-delete",
    "post-install",
    "post-rollback",
    "post-upgrade",
    "pre-delete",
    "pre-install",
    "pre-rollback",
    "pre-upgrade",
    "test",
    "test-success",
];

pub(super) fn check(project: &Project, folder: &str, rendered: &Rendered) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut seen: BTreeMap<[String; 4], String> = BTreeMap::new();
    let hooks = rendered.hooks.iter().map(|hook| (&hook.path, &hook.manifest, true));
    let objects = rendered.manifests.iter().map(|manifest| (&manifest.path, &manifest.content, false));
    for (template, text, is_hook) in objects.chain(hooks) {
        let Ok(object) = yaml::parse(text) else { continue };
        let path = file(project, folder, template).unwrap_or_else(|| folder.to_owned());
        for object in items(&object).unwrap_or(std::slice::from_ref(&object)).iter().filter(|one| one.is_object()) {
            let kind = object["kind"].as_str().unwrap_or_default();
            let line = line_of_kind(project, &path, kind);
            if let Some(problem) = problem(object, is_hook) {
                found.push(Finding::error(&path, line, problem));
            } else if !is_hook && let Some(other) = seen.insert(key(object), template.clone()) {
                let message = format!("the {kind} is also in {}, and the last one wins", below(&other));
                found.push(Finding::warning(&path, line, message));
            }
        }
    }
    found
}

fn text<'a>(object: &'a Json, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Json::as_str).unwrap_or_default()
}

/// Returns the identity of an object in a cluster.
fn key(object: &Json) -> [String; 4] {
    ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| text(object, pointer).to_owned())
}

/// Returns why the operator or the server would reject the object, if so.
fn problem(object: &Json, is_hook: bool) -> Option<String> {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    if text(object, "/apiVersion").is_empty() || kind.is_empty() {
        return Some("an object has no apiVersion or no kind".to_owned());
    }
    let is_generated = !text(object, "/metadata/generateName").is_empty();
    match name {
        "" if is_generated && is_hook => None,
        "" if is_generated => Some(format!("the {kind} has generateName, which only hooks may have")),
        "" => Some(format!("the {kind} has no metadata.name")),
        // RBAC objects may have names such as system:node.
        _ if text(object, "/apiVersion").starts_with("rbac.") => None,
        _ => (!is_subdomain(name)).then(|| format!("the name of the {kind} is not a DNS name")),
    }
}

/// Returns findings for hooks that templates name and Helm does not know.
pub(super) fn hooks(project: &Project, folder: &str) -> Vec<Finding> {
    let Ok(annotation) = Regex::new(r#"^\s*["']?helm\.sh/hook["']?\s*:\s*["']?([a-z, -]+?)["']?\s*(?:#.*)?$"#) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (file, data) in project.below(folder) {
        let Ok(source) = std::str::from_utf8(data) else { continue };
        if !file.contains("templates/") {
            continue;
        }
        for (number, line) in (1..).zip(source.lines()) {
            let names = annotation.captures(line).map(|found| found[1].to_owned()).unwrap_or_default();
            for name in names.split(',').map(str::trim).filter(|name| !name.is_empty() && !HOOKS.contains(name)) {
                let message = format!("Helm knows no hook {name:?}, so this object is never created");
                found.push(Finding::error(&format!("{folder}/{file}"), Some(number), message));
            }
        }
    }
    found
}

/// Returns the project's file of a template, which Helm names by chart; `None` for subcharts in archives.
pub(super) fn file(project: &Project, folder: &str, template: &str) -> Option<String> {
    let path = format!("{folder}/{}", below(template));
    project.contains(&path).then_some(path)
}

fn below(template: &str) -> &str {
    template.split_once('/').map_or(template, |(_, rest)| rest)
}

/// Returns the line that names the kind: rendered objects have no line numbers.
pub(super) fn line_of_kind(project: &Project, path: &str, kind: &str) -> Option<usize> {
    let is_kind = |line: &str| line.trim_start().strip_prefix("kind:").is_some_and(|rest| rest.trim() == kind);
    let at = project.text(path)?.lines().position(is_kind)?;
    Some(at + 1)
}
