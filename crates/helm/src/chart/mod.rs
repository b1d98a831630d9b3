//! A chart as data: loaded once, never changed, shared by every render.
//!
//! What values decide about a chart (an alias, a disabled subchart, imported values) lives in a [`ChartView`](crate::view::ChartView).
//! Counterparts: Helm's `pkg/chart/v2` and `pkg/chart/v2/loader`.

mod archive;
mod directory;
mod ignore;
mod load;
mod metadata;
#[cfg(test)]
mod tests;

pub use archive::{MAX_CHART_BYTES, MAX_CHART_FILES};
pub use load::LoadError;
pub use metadata::{Dependency, Maintainer, Metadata};
pub(crate) use metadata::{field, number_text};

use std::path::Path;
use std::sync::{Arc, OnceLock};

use go_template::{Map, Str, Value};
use sha2::{Digest as _, Sha256};

use crate::schema::Schema;

/// One file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The path below the chart's folder, with `/`.
    pub name: String,
    /// What is in it.
    pub data: Str,
}

/// A chart with its subcharts.
#[derive(Debug)]
pub struct Chart {
    /// `Chart.yaml`.
    pub metadata: Metadata,
    /// `Chart.lock`, as it stands.
    pub lock: Option<Value>,
    /// What is below `templates/`.
    pub templates: Vec<File>,
    /// `values.yaml`, frozen. Shared by every render, so never to be handed to a template: copy it first.
    pub values: Map,
    /// `values.schema.json`.
    pub schema: Option<Str>,
    /// Every other file: what `.Files` shows, and `crds/`.
    pub files: Vec<File>,
    /// The charts below `charts/`, by name.
    pub dependencies: Vec<Arc<Chart>>,
    digest: String,
    compiled_schema: OnceLock<Result<Schema, String>>,
}

/// A file below `crds/`, with the path that output names.
#[derive(Clone, Debug)]
pub struct Crd {
    /// The path from the root chart's name on.
    pub path: String,
    /// The manifest, one or more documents.
    pub data: Str,
}

impl Chart {
    /// Loads a chart from a folder or a `.tgz` archive.
    ///
    /// # Errors
    /// With Helm's texts: not found, not a chart, bad metadata, or over a limit.
    pub fn load(path: &Path) -> Result<Arc<Chart>, LoadError> {
        let about = std::fs::metadata(path).map_err(|e| LoadError::io(path, &e))?;
        let files = if about.is_dir() { directory::read(path)? } else { archive::read_file(path)? };
        load::from_files(files)
    }

    /// Loads a chart from the bytes of a `.tgz` archive.
    ///
    /// # Errors
    /// As [`load`](Chart::load).
    pub fn load_archive(bytes: &[u8]) -> Result<Arc<Chart>, LoadError> {
        load::from_files(archive::read(bytes, &mut { MAX_CHART_BYTES })?)
    }

    /// Loads a chart from files in memory, paths below the chart's folder.
    ///
    /// # Errors
    /// As [`load`](Chart::load).
    pub fn load_files(files: Vec<File>) -> Result<Arc<Chart>, LoadError> {
        load::from_files(files)
    }

    /// The text of a template by the name that errors and `# Source:` give it: the charts' names on the way to it, then its path.
    pub fn template(&self, name: &str) -> Option<&Str> {
        let (_, below) = name.split_once('/')?;
        if let Some(file) = self.templates.iter().find(|file| file.name == below) {
            return Some(&file.data);
        }
        let below = below.strip_prefix("charts/")?;
        let (subchart, _) = below.split_once('/')?;
        let aliased = self.metadata.dependencies.iter().find(|wanted| wanted.alias == subchart);
        let subchart = aliased.map_or(subchart, |wanted| &wanted.name);
        self.dependencies.iter().find(|chart| chart.metadata.name == subchart)?.template(below)
    }

    /// A digest of every file that can change what is rendered, subcharts too. Equal files give an equal digest, in every process.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// A digest of the charts below `charts/` alone.
    pub fn dependencies_digest(&self) -> String {
        digest(&[], &self.dependencies)
    }

    /// The schema, compiled at the first call, or why it cannot be; `None` without one.
    pub(crate) fn compiled_schema(&self) -> Option<&Result<Schema, String>> {
        let schema = self.schema.as_ref()?;
        Some(self.compiled_schema.get_or_init(|| Schema::compile(schema)))
    }

    /// Why the chart cannot be installed by itself, if so: library charts cannot.
    pub fn not_installable(&self) -> Option<String> {
        match self.metadata.kind.as_str() {
            "" | "application" => None,
            kind => Some(format!("{kind} charts are not installable")),
        }
    }

    /// The dependencies that `Chart.yaml` names and `charts/` lacks.
    pub fn missing_dependencies(&self) -> Vec<&str> {
        let there = |wanted: &&Dependency| self.dependencies.iter().any(|chart| chart.metadata.name == wanted.name);
        self.metadata.dependencies.iter().filter(|wanted| !there(wanted)).map(|wanted| wanted.name.as_str()).collect()
    }
}

/// The digest over names and contents, in order, and the subcharts' digests.
fn digest(parts: &[&[File]], dependencies: &[Arc<Chart>]) -> String {
    let mut hash = Sha256::new();
    for file in parts.iter().copied().flatten() {
        hash.update((file.name.len() as u64).to_le_bytes());
        hash.update(&file.name);
        hash.update((file.data.len() as u64).to_le_bytes());
        hash.update(&file.data);
    }
    for chart in dependencies {
        hash.update(chart.digest());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
