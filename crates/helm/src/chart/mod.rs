//! Charts as immutable data, shared by all renders.
//!
//! Everything that depends on values (an alias, a disabled subchart, imported values) is in a [`ChartView`](crate::view::ChartView). Counterparts:
//! Helm's `pkg/chart/v2` and `pkg/chart/v2/loader`.

mod archive;
mod chart_yaml;
mod error;
mod load;
mod metadata;
mod schemas;
#[cfg(test)]
pub(crate) mod tests;

pub use archive::{ArchiveError, MAX_CHART_BYTES, MAX_CHART_FILES};
pub use error::{FileError, LoadError};
pub(crate) use load::{ValuesText, from_files};
pub use metadata::{Dependency, InvalidMetadata, MAX_DEPENDENCIES, Maintainer, Metadata};
pub use schemas::UnreadSchema;
pub(crate) use schemas::path_of;

use std::sync::{Arc, OnceLock};

use go_template::{Map, Str, Value};
use sha2::{Digest as _, Sha256};

use crate::schema::{Documents, InvalidSchema, Schema};

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The path relative to the chart's folder, with `/` as the separator.
    pub name: String,
    /// The content.
    pub data: Str,
}

impl<N: Into<String>, D: Into<Str>> From<(N, D)> for File {
    fn from((name, data): (N, D)) -> File {
        File { name: name.into(), data: data.into() }
    }
}

/// A chart with its subcharts.
#[derive(Debug)]
pub struct Chart {
    /// `Chart.yaml`.
    pub metadata: Metadata,
    /// `Chart.lock`, as parsed.
    pub lock: Option<Value>,
    /// The files below `templates/`.
    pub templates: Vec<File>,
    /// `values.yaml`, frozen. All renders share it: copy it before passing it to a template.
    pub values: Map,
    /// `values.schema.json`.
    pub schema: Option<Str>,
    /// The other documents that `values.schema.json` refers to.
    pub documents: Documents,
    /// All other files: those in `.Files`, and `crds/`.
    pub files: Vec<File>,
    /// The charts below `charts/`, ordered by name.
    pub dependencies: Vec<Arc<Chart>>,
    /// What the entries of `dependencies` in `Chart.yaml` wait for. Helm ignores the key, so it is not part of the
    /// metadata or the digest.
    pub(crate) depends_on: Vec<DependsOn>,
    /// The text of `values.yaml`, in a chart that was loaded to trace values to their lines.
    pub(crate) values_text: Option<Str>,
    digest: String,
    compiled_schema: OnceLock<Result<Schema, InvalidSchema>>,
}

/// The subcharts that an entry of `dependencies` waits for: its `depends-on`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DependsOn {
    /// The entry's alias, or else its name.
    pub(crate) subchart: String,
    /// The names; `None` if the key has anything but a list of names.
    pub(crate) names: Option<Vec<String>>,
}

/// A file below `crds/`.
#[derive(Clone, Debug)]
pub struct Crd {
    /// The path that the output shows, which starts with the root chart's name.
    pub path: String,
    /// One or more YAML documents.
    pub data: Str,
}

impl Chart {
    /// Builds a chart from files in memory, which are named by their paths relative to the chart's folder.
    ///
    /// ```
    /// use helm::chart::Chart;
    ///
    /// let chart = Chart::from_files([
    ///     ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
    ///     ("values.yaml", "port: 80\n"),
    ///     ("templates/service.yaml", "port: {{ .Values.port }}\n"),
    ///     ("charts/cache/Chart.yaml", "apiVersion: v2\nname: cache\nversion: 2.0.0\n"),
    /// ])?;
    /// assert_eq!(chart.metadata.name, "web");
    /// assert_eq!(chart.dependencies[0].metadata.version, "2.0.0");
    /// # Ok::<(), helm::chart::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// `Chart.yaml` is missing or invalid, another file is not valid YAML, a subchart fails to load, or a limit is exceeded.
    pub fn from_files<F: Into<File>>(files: impl IntoIterator<Item = F>) -> Result<Arc<Chart>, LoadError> {
        load::from_files(files.into_iter().map(Into::into).collect(), &|_| None, ValuesText::Drop)
    }

    /// Loads a chart like [`from_files`](Chart::from_files), and keeps the text of its values files, so that [`trace`](crate::origins::trace) names
    /// lines.
    ///
    /// # Errors
    /// Fails like [`from_files`](Chart::from_files).
    pub fn from_files_with_lines<F: Into<File>>(files: impl IntoIterator<Item = F>) -> Result<Arc<Chart>, LoadError> {
        load::from_files(files.into_iter().map(Into::into).collect(), &|_| None, ValuesText::Keep)
    }

    /// Loads a chart from the bytes of a `.tgz` archive.
    ///
    /// # Errors
    /// Fails like [`from_files`](Chart::from_files), and if the archive is malformed, contains paths outside its folder, or exceeds
    /// [`MAX_CHART_BYTES`] or [`MAX_CHART_FILES`].
    pub fn load_archive(bytes: &[u8]) -> Result<Arc<Chart>, LoadError> {
        load::from_files(Chart::unpack(bytes)?, &|_| None, ValuesText::Drop)
    }

    /// Returns the files of a `.tgz` archive, named by their paths relative to the chart's folder.
    ///
    /// # Errors
    /// Fails like [`load_archive`](Chart::load_archive), except that the files need not form a chart.
    pub fn unpack(bytes: &[u8]) -> Result<Vec<File>, ArchiveError> {
        archive::read(bytes, &mut { MAX_CHART_BYTES })
    }

    /// Returns the source of a template, given the name that errors and `# Source:` comments show, such as `web/charts/cache/templates/service.yaml`.
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

    /// Returns a SHA-256 digest, in hex, of all files that can change the output, including those of subcharts. Equal files have equal digests in
    /// every process.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns a digest of the charts below `charts/` only.
    pub fn dependencies_digest(&self) -> String {
        digest(&[], &self.dependencies)
    }

    /// Returns the schema, compiled on first use, or `None` if the chart has no schema.
    pub(crate) fn compiled_schema(&self) -> Option<&Result<Schema, InvalidSchema>> {
        let schema = self.schema.as_ref()?;
        Some(self.compiled_schema.get_or_init(|| Schema::compile_with(schema, &self.documents)))
    }

    /// Returns why the chart cannot be installed by itself, if it cannot: only application charts can.
    pub fn not_installable(&self) -> Option<String> {
        match self.metadata.kind.as_str() {
            "" | "application" => None,
            kind => Some(format!("{kind} charts are not installable")),
        }
    }

    /// Returns the names of the dependencies in `Chart.yaml` that are missing below `charts/`.
    pub fn missing_dependencies(&self) -> Vec<&str> {
        let there = |wanted: &&Dependency| self.dependencies.iter().any(|chart| chart.metadata.name == wanted.name);
        self.metadata.dependencies.iter().filter(|wanted| !there(wanted)).map(|wanted| wanted.name.as_str()).collect()
    }
}

/// Hashes names and contents, in order, and the subcharts' digests.
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
