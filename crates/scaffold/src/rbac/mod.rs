//! The operator's minimal permissions: one file per API, so that regenerating one never touches another.
//!
//! The chart is rendered with many values (`branches`). Each kind that appears needs a rule (`needs`), whose comment
//! names the template. Nothing is granted by wildcard, unless a Role in the chart contains one.

mod branches;
mod covers;
mod missing;
mod native;
mod needs;
mod render;
mod rules;
#[cfg(test)]
mod tests;

use crate::crd::{HEADER, kept};
use crate::create_api::{add_role, add_user_roles};
use crate::definitions::Definitions;
use crate::deployment::Deployment;
use crate::documents::Document;
use crate::gvk::Gvk;
use crate::progress::Step;
use crate::watches::{self, Watch};
use crate::{Error, Existing, Project, chart, documents};

pub(crate) use missing::{Lack, cluster_admin, missing, missing_natives};
pub(crate) use native::write as write_native;
pub use native::{Native, Rule};
pub(crate) use render::{Asked, asked_by};

/// Writes the operator's role of each kind in watches.yaml and of `natives`, and missing roles for users of the former.
/// Returns notes.
///
/// A file that was not generated belongs to the user and is left alone, unless `existing` says otherwise.
///
/// # Errors
/// Fails if a chart does not load, or a list of `config` cannot be edited.
pub fn generate(project: &mut Project, natives: &[Native], existing: Existing) -> Result<Vec<String>, Error> {
    let about = About::of(project)?;
    let mut notes = Vec::new();
    let mut done: Vec<String> = Vec::new();
    for watch in &about.watches {
        if !done.contains(&watch.gvk.lower()) {
            notes.extend(write_kind(project, &about, &watch.gvk, existing)?);
            done.push(watch.gvk.lower());
        }
    }
    notes.extend(native::generate(project, natives, &done, existing)?);
    Ok(notes)
}

/// Writes the role of one kind, as [`generate`] does.
pub(crate) fn generate_kind(project: &mut Project, gvk: &Gvk) -> Result<Vec<String>, Error> {
    let about = About::of(project)?;
    write_kind(project, &about, gvk, Existing::Keep)
}

/// The facts besides charts that roles depend on.
struct About {
    watches: Vec<Watch>,
    definitions: Definitions,
    deployment: Deployment,
}

impl About {
    fn of(project: &Project) -> Result<About, Error> {
        let (definitions, deployment) = (Definitions::of(project)?, Deployment::of(project)?);
        Ok(About { watches: watches::read(project)?, definitions, deployment })
    }
}

fn write_kind(project: &mut Project, about: &About, gvk: &Gvk, existing: Existing) -> Result<Vec<String>, Error> {
    let is_own = |watch: &&Watch| watch.gvk.group == gvk.group && watch.gvk.kind == gvk.kind;
    let watches: Vec<&Watch> = about.watches.iter().filter(is_own).collect();
    let plural = about.definitions.plural(&gvk.group, &gvk.kind);
    let name = format!("{}_role.yaml", gvk.lower());
    let path = format!("config/rbac/{name}");
    let mut notes: Vec<String> = kept(project, &path, existing).into_iter().collect();
    if notes.is_empty() {
        let (needs, found) = needs(project, &watches, &about.definitions)?;
        notes.extend(found);
        let charts: Vec<&str> = watches.iter().map(|watch| watch.chart.as_str()).collect();
        let header = format!("{HEADER} rbac' from {} and watches.yaml; do not edit.\n", charts.join(", "));
        let role = free_name(project, gvk, &path);
        project.write(path, header + &rules::print(&role, gvk, &plural, &needs, &about.deployment));
    }
    add_role(project, &name)?;
    add_user_roles(project, gvk, &plural)?;
    Ok(notes)
}

/// Returns the prefix of the names of a kind's role and binding: the kind, unless another file has a role of that name.
fn free_name(project: &Project, gvk: &Gvk, path: &str) -> String {
    let (kind, folder) = (gvk.lower(), "config/rbac");
    let others = project.below(folder).map(|(file, _)| format!("{folder}/{file}")).filter(|file| file != path);
    let is_role = |document: &Document| {
        document.is("rbac.authorization.k8s.io", "ClusterRole")
            && document.text("/metadata/name") == format!("{kind}-role")
    };
    let is_taken = others.flat_map(|file| documents::valid(project, &file)).any(|document| is_role(&document));
    if is_taken { format!("{kind}-chart") } else { kind }
}

/// Returns the (API version, kind) of the objects that a watch's chart can render, except hooks.
pub(crate) fn kinds(project: &Project, watch: &Watch) -> Result<Vec<(String, String)>, Error> {
    Ok(seen(project, watch)?.kinds.into_keys().collect())
}

/// Returns the objects that a watch's chart can render.
fn seen(project: &Project, watch: &Watch) -> Result<render::Seen, Error> {
    let chart = chart::of(project, &watch.place)?;
    let own = project.below(&watch.place).filter(|(path, _)| path.starts_with("ci/") && path.ends_with("-values.yaml"));
    let examples: Vec<(&str, &[u8])> = own.collect();
    let report = |done, planned| project.progress.report(Step { chart: &watch.chart, done, planned });
    Ok(render::all(chart, watch, &examples, &report))
}

/// Returns the needs of the charts of a kind's versions, with notes about what could not be determined.
fn needs(
    project: &Project,
    watches: &[&Watch],
    definitions: &Definitions,
) -> Result<(needs::Needs, Vec<String>), Error> {
    let (mut all, mut notes) = (needs::Needs::default(), Vec::new());
    for watch in watches {
        let seen = seen(project, watch)?;
        notes.extend(seen.notes.iter().map(|note| format!("{}: {note}", watch.chart)));
        all.add(&seen, watch, definitions);
    }
    Ok((all, notes))
}
