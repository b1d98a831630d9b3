//! Adds an API that a chart serves.

use super::add_common;
use crate::chart::ChartFiles;
use crate::gvk::Gvk;
use crate::project_file::ProjectFile;
use crate::{Error, Project, crd, rbac, sample, watches};

/// Adds chart, watch, sample, definition and roles. Returns notes.
pub(super) fn create(
    project: &mut Project,
    file: &ProjectFile,
    gvk: &Gvk,
    files: &ChartFiles,
) -> Result<Vec<String>, Error> {
    if project.contains(&format!("src/api/{}.rs", gvk.module())) {
        return Err(Error::ServedBy(gvk.to_string(), "Rust"));
    }
    let (chart, copied) = files.copy(project);
    let mut notes = Vec::new();
    if !copied && !files.is_same(project, &chart) {
        notes.push(format!("{chart} exists already and is used as it is"));
    }
    watches::add(project, gvk, &chart)?;
    notes.extend(crd::generate_kind(project, gvk)?);
    notes.extend(rbac::generate_kind(project, gvk)?);
    let text = |name: &str| project.text(&format!("{chart}/{name}")).unwrap_or_default();
    let sample = sample::of_chart(gvk, &chart, text("values.yaml"), text("values.schema.json"));
    add_common(project, file, gvk, sample)?;
    Ok(notes)
}
