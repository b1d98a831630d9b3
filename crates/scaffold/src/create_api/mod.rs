//! `create api`: adds a kind to a project, served by a chart or by Rust.

mod chart;
mod native;
#[cfg(test)]
mod tests;

use heck::ToUpperCamelCase as _;

use crate::chart::ChartFiles;
use crate::definitions::Definitions;
use crate::gvk::Gvk;
use crate::kustomize::Added;
use crate::project_file::{self, ProjectFile, Served};
use crate::templates::{CRD_KUSTOMIZATION, EDITOR_ROLE, SAMPLES_KUSTOMIZATION, VIEWER_ROLE, fill};
use crate::{Error, Project, kustomize, starter, watches};

/// The default group of an API for which the user names only a chart, as in operator-sdk.
const DEFAULT_GROUP: &str = "charts";
const DEFAULT_VERSION: &str = "v1alpha1";

/// An API to add.
#[derive(Clone, Debug)]
pub struct CreateApi {
    /// The group without the project's domain. Optional with a chart.
    pub group: Option<String>,
    /// The version. Optional with a chart.
    pub version: Option<String>,
    /// The kind. Optional with a chart.
    pub kind: Option<String>,
    /// The source that serves it.
    pub source: Source,
}

/// The source that serves an API.
#[derive(Clone, Debug)]
pub enum Source {
    /// A chart that the user provides.
    Chart(ChartFiles),
    /// A starter chart.
    Starter,
    /// Rust code.
    Native(Native),
}

/// The parts of a native kind to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Native {
    /// The type, with its roles and sample.
    pub resource: bool,
    /// The controller.
    pub controller: bool,
}

/// Adds the API. Existing files are kept, so a second call changes nothing. Returns notes for the user.
///
/// # Errors
/// Fails if the folder is not a project, a name is invalid or taken, or a file that lists APIs cannot be edited.
pub fn create_api(project: &mut Project, api: &CreateApi) -> Result<Vec<String>, Error> {
    let text = project.text(project_file::PATH).ok_or(Error::NoProject)?;
    let mut file = ProjectFile::parse(text)?;
    let gvk = gvk(&file, api)?;
    check_free(project, &file, &gvk)?;
    let (notes, served) = match &api.source {
        Source::Chart(files) => (chart::create(project, &file, &gvk, files)?, Served::Chart),
        Source::Starter => (chart::create(project, &file, &gvk, &starter::chart(&gvk.lower())?)?, Served::Chart),
        Source::Native(native) => {
            let served = Served::Native { controller: native.controller };
            (native::create(project, &file, &gvk, *native)?, served)
        }
    };
    file.add(&gvk, served);
    project.write(project_file::PATH, file.print());
    Ok(notes)
}

/// Returns the API's names, with the defaults that a chart implies.
fn gvk(file: &ProjectFile, api: &CreateApi) -> Result<Gvk, Error> {
    let chart = match &api.source {
        Source::Chart(files) => Some(files),
        Source::Starter | Source::Native(_) => None,
    };
    let or =
        |given: &Option<String>, fallback: Option<String>| given.clone().filter(|text| !text.is_empty()).or(fallback);
    let kind = or(&api.kind, chart.map(|chart| chart.name.to_upper_camel_case())).ok_or(Error::NoKind)?;
    let group = or(&api.group, chart.map(|_| DEFAULT_GROUP.to_owned())).ok_or(Error::Missing("group"))?;
    let version = or(&api.version, chart.map(|_| DEFAULT_VERSION.to_owned())).ok_or(Error::Missing("version"))?;
    Ok(Gvk::new(&group, file.domain(), &version, &kind)?)
}

/// Checks that the kind is free: files are named by kind alone, and one controller serves a kind.
fn check_free(project: &Project, file: &ProjectFile, gvk: &Gvk) -> Result<(), Error> {
    let watched = watches::read(project)?.into_iter().map(|watch| watch.gvk);
    let same_name = |known: &Gvk| known.lower() == gvk.lower() && known.group != gvk.group;
    match watched.chain(file.resources()).find(same_name) {
        Some(known) => Err(Error::KindTaken { kind: gvk.kind.clone(), group: known.group }),
        None => Ok(()),
    }
}

/// Writes the sample, and the roles of users.
fn add_common(project: &mut Project, file: &ProjectFile, gvk: &Gvk, sample: String) -> Result<(), Error> {
    let plural = &Definitions::of(project)?.plural(&gvk.group, &gvk.kind);
    let path = gvk.sample_file(file.domain());
    let entry = path.rsplit('/').next().unwrap_or(&path).to_owned();
    project.create(path, sample);
    kustomize::add(project, "config/samples", ("Kustomization", SAMPLES_KUSTOMIZATION), &entry)?;
    add_user_roles(project, gvk, plural)
}

/// Writes the roles that let users edit and view the API's resources.
pub(crate) fn add_user_roles(project: &mut Project, gvk: &Gvk, plural: &str) -> Result<(), Error> {
    let kind = gvk.lower();
    let words = [("group", gvk.group.as_str()), ("plural", plural), ("kind", &kind)];
    for (role, text) in [("editor", EDITOR_ROLE), ("viewer", VIEWER_ROLE)] {
        let name = format!("{kind}_{role}_role.yaml");
        project.create(format!("config/rbac/{name}"), fill(text, &words));
        add_role(project, &name)?;
    }
    Ok(())
}

/// Lists a file of `config/rbac`.
pub(crate) fn add_role(project: &mut Project, name: &str) -> Result<(), Error> {
    let new = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- __entry__\n";
    kustomize::add(project, "config/rbac", ("kustomization.yaml", new), name).map(drop)
}

/// Lists a file of `config/crd`, and `config/crd` itself when it is new.
pub(crate) fn add_crd(project: &mut Project, path: &str) -> Result<(), Error> {
    let entry = path.strip_prefix("config/crd/").unwrap_or(path);
    let added = kustomize::add(project, "config/crd", ("kustomization.yaml", CRD_KUSTOMIZATION), entry)?;
    if added == Added::List && kustomize::path(project, "config/default").is_some() {
        kustomize::add(project, "config/default", ("", ""), "../crd")?;
    }
    Ok(())
}
