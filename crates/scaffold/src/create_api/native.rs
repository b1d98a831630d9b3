//! Adds an API that Rust serves.

use super::{Native, add_common};
use crate::gvk::Gvk;
use crate::project_file::ProjectFile;
use crate::templates::{NATIVE_API, NATIVE_CONTROLLER, NATIVE_SAMPLE, fill};
use crate::{Error, Existing, Project, rbac, watches};

const MAIN: &str = "src/main.rs";
const MODULES: &str = "// +kubebuilder:scaffold:modules";
const BUILDER: &str = "// +kubebuilder:scaffold:builder";

/// Adds the type and the controller, as requested by `native`. Returns notes.
pub(super) fn create(
    project: &mut Project,
    file: &ProjectFile,
    gvk: &Gvk,
    native: Native,
) -> Result<Vec<String>, Error> {
    if !file.is_hybrid() {
        return Err(Error::NotHybrid);
    }
    if watches::read(project)?.iter().any(|watch| watch.gvk == *gvk) {
        return Err(Error::ServedBy(gvk.to_string(), "a chart"));
    }
    let (lower, plural, module) = (gvk.lower(), gvk.plural(), gvk.module());
    let words = [
        ("group", gvk.group.as_str()),
        ("version", &gvk.version),
        ("Kind", &gvk.kind),
        ("kind", &lower),
        ("plural", &plural),
        ("module", &module),
    ];
    if native.resource {
        add_module(project, "api", &module, fill(NATIVE_API, &words))?;
        insert(project, MAIN, BUILDER, &fill(".crd::<api::__module__::__Kind__>()", &words))?;
        add_common(project, file, gvk, fill(NATIVE_SAMPLE, &words))?;
    }
    if native.controller {
        add_module(project, "controllers", &module, fill(NATIVE_CONTROLLER, &words))?;
        insert(project, MAIN, BUILDER, &fill(".reconciler(controllers::__module__::Controller)", &words))?;
        if !project.contains(&format!("config/rbac/{lower}_role.yaml")) {
            rbac::write_native(project, &rights(gvk), "", Existing::Keep)?;
        }
    }
    Ok(vec!["run 'make manifests' to write the CRD from src/api".to_owned()])
}

/// Returns the permissions of the starter controller, equal to those that its `rights` declare.
fn rights(gvk: &Gvk) -> rbac::Native {
    let (group, plural) = (gvk.group.clone(), gvk.plural());
    let rule = |group: &str, resource: String, verbs: &[&str]| rbac::Rule {
        group: group.to_owned(),
        resource,
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
    };
    let rules = vec![
        rule(&group, plural.clone(), &["get", "list", "watch", "patch"]),
        rule(&group, format!("{plural}/status"), &["patch"]),
        rule("apps", "deployments".to_owned(), &["get", "list", "watch", "create", "patch"]),
        rule("", "pods".to_owned(), &["get", "list", "watch"]),
    ];
    rbac::Native { group, kind: gvk.kind.clone(), plural, owns_objects: true, rules }
}

/// Adds a module below `src`.
fn add_module(project: &mut Project, folder: &str, name: &str, text: String) -> Result<(), Error> {
    project.create(format!("src/{folder}/{name}.rs"), text);
    insert(project, &format!("src/{folder}/mod.rs"), MODULES, &format!("pub mod {name};"))
}

/// Inserts a line before the marker, with its indentation, unless the file has the line.
fn insert(project: &mut Project, path: &str, marker: &'static str, line: &str) -> Result<(), Error> {
    project.edit(path, |text| {
        if text.lines().any(|known| known.trim() == line) {
            return Ok(text.to_owned());
        }
        let found = text.split_inclusive('\n').find(|known| known.trim() == marker);
        let missing = || Error::NoMarker { path: path.to_owned(), marker, line: line.to_owned() };
        let marked = found.ok_or_else(missing)?;
        let indent = &marked[..marked.len() - marked.trim_start().len()];
        Ok(text.replacen(marked, &format!("{indent}{line}\n{marked}"), 1))
    })
}
