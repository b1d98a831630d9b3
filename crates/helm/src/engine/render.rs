//! Renders from values to manifests: the part of Helm's install that precedes contact with the cluster.
//!
//! Counterparts: `renderResources` in Helm's `pkg/action/action.go` and `ToRenderValues` in `pkg/chart/common/util`.

use std::sync::Arc;

use go_template::{Map, Value};

use super::{Capabilities, Engine, File, Lookup, RenderError};
use crate::chart::Crd;
use crate::manifest::{self, Hook, Manifest, SortError};
use crate::view::{self, ChartView, Nulls, ResolveError, SchemaError, TypeMismatch};

/// The release to render for: `.Release`.
#[derive(Clone, Debug)]
pub struct ReleaseOptions {
    /// The release's name.
    pub name: String,
    /// The release's namespace.
    pub namespace: String,
    /// The release's revision, counted from 1.
    pub revision: i64,
    /// Whether an earlier revision exists.
    pub is_upgrade: bool,
}

impl ReleaseOptions {
    pub(super) fn to_map(&self) -> Map {
        [
            ("Name", Value::from(self.name.as_str())),
            ("Namespace", Value::from(self.namespace.as_str())),
            ("Revision", Value::int(self.revision)),
            ("IsUpgrade", Value::Bool(self.is_upgrade)),
            ("IsInstall", Value::Bool(!self.is_upgrade)),
            ("Service", Value::from("Helm")),
        ]
        .into_iter()
        .collect()
    }
}

/// The input of a render.
pub struct Request<'a> {
    /// The user's values, without defaults. The render does not change them.
    pub values: &'a Map,
    /// The release.
    pub release: &'a ReleaseOptions,
    /// The cluster's version and APIs.
    pub capabilities: &'a Capabilities,
    /// Serves `lookup`. Without it, `lookup` finds nothing.
    pub lookup: Option<Arc<dyn Lookup>>,
    /// Whether to ignore `values.schema.json`.
    pub skip_schema: bool,
}

/// The result of a render.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The release's documents, in install order.
    pub manifests: Vec<Manifest>,
    /// The hooks, in install order.
    pub hooks: Vec<Hook>,
    /// The chart's `NOTES.txt`, or empty if it has none.
    pub notes: String,
    /// The files below `crds/`, which are not templates.
    pub crds: Vec<Crd>,
    /// Problems that did not stop the render. They do not contain values.
    pub warnings: Vec<String>,
}

impl Rendered {
    /// Returns the release's manifest as its record contains it, without hooks: the text that Helm 3 records, with the same objects as Helm 4's.
    pub fn manifest(&self) -> String {
        manifest::recorded(&self.manifests)
    }
}

/// The reason why a chart does not render. The texts are Helm's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The values do not determine which subcharts are enabled.
    #[error("chart dependencies processing failed: {0}")]
    Dependencies(ResolveError),
    /// The values cannot be merged with the charts' defaults.
    #[error("{0}")]
    Values(#[from] TypeMismatch),
    /// The values violate a schema.
    #[error("{}", schema_text(&.0.to_string()))]
    Schema(#[from] SchemaError),
    /// The chart does not support the cluster's version.
    #[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {cluster}")]
    KubeVersion {
        /// The chart's constraint.
        wanted: String,
        /// The cluster's version.
        cluster: String,
    },
    /// A template fails to parse or to execute.
    #[error("{0}")]
    Template(#[from] RenderError),
    /// A template rendered something other than manifests.
    #[error("{error}")]
    Manifest {
        /// The template, and the problem.
        error: SortError,
        /// The output of all templates, by name.
        files: Vec<(String, String)>,
    },
}

impl Error {
    /// Returns the text without the values that Helm quotes, which may be secret: for conditions, events and logs. Keeps messages of the chart's own
    /// templates, such as those of `fail`.
    pub fn without_values(&self) -> String {
        match self {
            Error::Dependencies(error) => format!("chart dependencies processing failed: {}", error.without_value()),
            Error::Values(error) => error.without_value(),
            Error::Schema(error) => schema_text(error.without_values()),
            other => other.to_string(),
        }
    }
}

fn schema_text(complaints: &str) -> String {
    format!("values don't meet the specifications of the schema(s) in the following chart(s):\n{complaints}")
}

impl Engine {
    /// Renders the chart.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn render(&self, request: &Request<'_>) -> Result<Rendered, Error> {
        let mut warnings = Vec::new();
        let view = self.resolve(request.values, &mut warnings).map_err(Error::Dependencies)?;
        let values = view::coalesce(&view, request.values, Nulls::Remove, &mut warnings)?;
        if !request.skip_schema {
            view::validate(&view, &values)?;
        }
        check_kube_version(&view, request.capabilities)?;
        let lookup = request.lookup.clone();
        let files = self.execute(&view, &values, request.release, request.capabilities, lookup)?;
        assemble(&view, files, warnings)
    }
}

fn check_kube_version(view: &ChartView, capabilities: &Capabilities) -> Result<(), Error> {
    let wanted = &view.metadata.kube_version;
    let cluster = &capabilities.kube_version;
    if wanted.is_empty() || view::in_range(wanted, cluster.normalized()) {
        return Ok(());
    }
    Err(Error::KubeVersion { wanted: wanted.clone(), cluster: cluster.version.clone() })
}

/// Sorts rendered files into notes, hooks and manifests.
fn assemble(view: &ChartView, files: Vec<File>, warnings: Vec<String>) -> Result<Rendered, Error> {
    let own_notes = format!("{}/templates/NOTES.txt", view.path);
    let mut notes = String::new();
    let mut texts = Vec::with_capacity(files.len());
    for (path, output) in files {
        let path = path.to_text().into_owned();
        let text =
            String::from_utf8(output).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        if path == own_notes {
            notes = text;
        } else if !path.ends_with("NOTES.txt") {
            texts.push((path, text));
        }
    }
    match manifest::sort_files(texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))) {
        Ok(sorted) => {
            let (manifests, hooks) = (sorted.manifests, sorted.hooks);
            Ok(Rendered { manifests, hooks, notes, crds: view.crds(), warnings })
        }
        Err(error) => Err(Error::Manifest { error, files: texts }),
    }
}
