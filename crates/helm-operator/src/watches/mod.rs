//! Reads watches.yaml, which says which charts serve which custom resources. It is as lenient as upstream.
//!
//! Counterpart: operator-sdk's `internal/helm/watches` and helm-operator-plugins' `pkg/watches`; the keys are the union
//! of both.

pub(crate) mod annotations;
mod chart_tests;
mod check;
mod decode;
mod duration;
mod expand;
mod expressions;
mod metadata;
mod node;
mod objects;
mod overrides;
mod patches;
mod pull;
mod render_on;
mod rollout;
mod rules;
mod sequencing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helm_release::kube::{Adopt, CrdPolicy, ObjectRule, Policy};
use helm_release::storage::Home;
use kube::core::{ApiResource, GroupVersionKind, Selector};

pub use crate::dependencies::{AnnotationRule, Dependency};
pub use crate::values_from::{SourceError, SourceKind, ValuesSource};
pub use crate::watches::annotations::AnnotationNames;
pub use chart_tests::{ChartTests, OnTestFailure};
pub(crate) use check::agree;
pub(crate) use duration::{DurationError, parse_duration};
pub use expand::Error as ExpandError;
pub use expressions::Expressions;
pub(crate) use expressions::{Field, names};
pub use metadata::{CommonAnnotations, CommonLabels};
pub use objects::{Granted, ObjectsRule};
pub use overrides::{OverrideError, OverrideValuesType, Overrides};
pub use patches::Patches;
#[cfg(test)]
pub(crate) use patches::patches_of;
pub(crate) use patches::{Change, Patch, group_version};
pub use pull::{Pem, Pull};
pub use render_on::RenderOn;
pub(crate) use rollout::Counts;
#[cfg(test)]
pub(crate) use rollout::rollout_of;
pub use rollout::{OnGateFailure, RolloutRule};
pub use rules::{AnnotationSources, Drift, LookupRule, OnFailure, SchemaRule, ServiceAccount, StorageNamespace};
pub use sequencing::Sequencing;

/// One entry of watches.yaml: a kind of custom resource and the chart that serves it. The default has the values of absent
/// keys, except that `watchDependentResources` is off.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// The line of the entry, starting at 1; 0 if unknown.
    pub line: u64,
    /// The API group; may be empty.
    pub group: String,
    /// The API version; never empty.
    pub version: String,
    /// The kind; never empty.
    pub kind: String,
    /// The chart's directory or archive, relative to the working directory, or its URL if it is fetched.
    pub chart: PathBuf,
    /// How the chart is fetched. `None`: it is on disk.
    pub pull: Option<Pull>,
    /// The override values for the `spec` of each resource.
    pub overrides: Overrides,
    /// How often a resource is reconciled without an event; zero means never. `None`: the flag decides.
    pub reconcile_period: Option<Duration>,
    /// How long one of the chart's hooks may take; zero means no limit. `None`: the flag decides.
    pub hook_timeout: Option<Duration>,
    /// How long a release may stay unready without progress before it counts as stalled; zero means no limit. `None`:
    /// the flag decides.
    pub progress_timeout: Option<Duration>,
    /// The CEL expressions: readiness rules and computed status fields.
    pub expressions: Expressions,
    /// How many resources of this kind are reconciled concurrently; at least 1. `None`: the flag decides.
    pub max_concurrent_reconciles: Option<usize>,
    /// Whether changes to the chart's objects trigger reconciles.
    pub watch_dependent_resources: bool,
    /// The label selector of the served custom resources; empty means all.
    pub selector: Selector,
    /// How the chart's objects are written.
    pub apply: Policy,
    /// How many revisions of a release are kept; 0 means all. `None`: the flag decides.
    pub max_history: Option<usize>,
    /// The namespace of the releases of cluster-scoped resources. `None`: the operator's own.
    pub release_namespace: Option<String>,
    /// The namespace of all release records, which are named `<namespace>.<name>` after their release there. `None`:
    /// each release's own namespace, where records have the release's name. Watches of one kind in several versions
    /// must agree.
    pub storage_namespace: Option<StorageNamespace>,
    /// The names of the annotations that control a release, and which of them count.
    pub annotations: AnnotationNames,
    /// How often every object is applied again without a reason; zero means never. `None`: the flag decides.
    pub full_resync_period: Option<Duration>,
    /// How many releases may be upgraded concurrently because the chart, override values or value sources changed; 0
    /// means no limit. `None`: the flag decides.
    pub max_parallel_upgrades: Option<usize>,
    /// In which steps a change of the chart, of override values or of what watches.yaml does to objects reaches the
    /// releases. `None`: in one.
    pub rollout: Option<Arc<RolloutRule>>,
    /// Secrets and ConfigMaps whose content is merged below the `spec` of each resource, in order.
    pub values_from: Vec<ValuesSource>,
    /// Whether a resource may name further value sources in its annotation `values-from`.
    pub values_from_annotation: AnnotationSources,
    /// What each resource waits for before its release is installed or upgraded.
    pub depends_on: Vec<Dependency>,
    /// What a resource may wait for in addition, as its annotation `depends-on` says. `None`: nothing.
    pub depends_on_annotation: Option<AnnotationRule>,
    /// Labels that each object of a release gets.
    pub common_labels: CommonLabels,
    /// Annotations that each object of a release gets.
    pub common_annotations: CommonAnnotations,
    /// Patches of what the chart renders.
    pub patches: Patches,
    /// The policy for drift.
    pub drift: Drift,
    /// What a resource with the annotation `adopt` may take over. Default: [`Adopt::Unowned`], which is nothing for a
    /// cluster-scoped resource.
    pub adopt: Adopt,
    /// The remediation after a failed install or upgrade.
    pub on_failure: OnFailure,
    /// How often to retry the same inputs after a failure other than an outage. `None`: no limit.
    pub retries: Option<u32>,
    /// The events, besides changes of a resource's own inputs, that trigger a new render.
    pub render_on: RenderOn,
    /// Whether the chart's tests run, and what their failure leads to.
    pub chart_tests: ChartTests,
    /// Whether an event quotes the end of the log of a hook that failed.
    pub hook_logs: bool,
    /// Whether the chart's objects are applied in the order that the chart asks for.
    pub sequencing: Sequencing,
    /// How to handle the custom resource definitions in the chart's `crds` directory.
    pub crds: CrdPolicy,
    /// Objects to delete and recreate when the server refuses to change their immutable fields, in addition to Jobs.
    pub recreate: Arc<[ObjectRule]>,
    /// What templates may read with `lookup` beyond their release.
    pub lookup: LookupRule,
    /// What a release may contain, in addition to objects in its own namespace.
    pub objects: ObjectsRule,
    /// What the chart's schemas may refer to, in addition to the chart's files.
    pub schema: SchemaRule,
    /// The account that lookups, hooks and the chart's objects are read and written as. `None`: the operator's.
    pub service_account: Option<ServiceAccount>,
    /// The keys about permissions and access to records that the entry does not set, so that their defaults apply.
    pub undecided: Vec<&'static str>,
}

/// The reason why watches.yaml cannot be used. The messages are upstream's where it has one.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    #[error("could not open watches file {} (run this in the project's folder, or set --watches-file)", path.display())]
    Open { path: PathBuf, source: std::io::Error },
    #[error("failed to load watches file {}", path.display())]
    In { path: PathBuf, source: Box<Error> },
    #[error("not a valid list of watches: {0}")]
    Yaml(String),
    #[error("{}{what}", place(*line))]
    Value {
        /// The line, starting at 1; 0 if unknown.
        line: u64,
        /// What is wrong.
        what: String,
    },
    #[error(transparent)]
    Override(#[from] OverrideError),
    #[error("failed to expand override values: {0}")]
    Expand(#[source] expand::Error),
}

fn place(line: u64) -> String {
    if line == 0 { String::new() } else { format!("line {line}: ") }
}

/// The content of a watches file, with warnings.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    /// The entries, in the file's order.
    pub watches: Vec<Watch>,
    /// Unknown keys.
    pub warnings: Vec<Warning>,
}

/// A likely mistake in a watches file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The line, starting at 1; 0 if unknown.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// Formats the warning as `line 3: unknown key`.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Reads a watches file with this process's environment, and logs its warnings.
///
/// # Errors
/// The errors of [`parse`], or the file cannot be read.
pub fn load(path: &Path) -> Result<Vec<Watch>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    let parsed = parse(&text, |name| std::env::var(name).ok());
    let located = |source| Error::In { path: path.to_owned(), source: Box::new(source) };
    let Watches { watches, warnings } = parsed.map_err(located)?;
    for warning in &warnings {
        tracing::warn!(file = %path.display(), "{warning}");
    }
    Ok(watches)
}

/// Logs which override values name environment variables that are not set. Only the operator calls this: other commands
/// may read the file in another environment.
pub(crate) fn log_unset(path: &Path, watches: &[Watch]) {
    for warning in watches.iter().filter_map(unset) {
        tracing::warn!(file = %path.display(), "{warning}");
    }
}

fn unset(watch: &Watch) -> Option<Warning> {
    let lacking = watch.overrides.unset()?;
    let what = format!(
        "override values of {} name environment variables that are not set, and that count as empty: {lacking}; set them in the operator's environment",
        watch.full_name()
    );
    Some(Warning { line: watch.line, what })
}

/// Parses the text of a watches file. `env` looks up environment variables for override values.
///
/// # Errors
/// The text is not a list of entries; a value has the wrong type; an entry lacks version or kind, or repeats a kind;
/// versions of a kind disagree about `storageNamespace`; an override value or its template is invalid.
pub fn parse(text: &str, env: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Result<Watches, Error> {
    let env: expand::Env = Arc::new(env);
    let entries = node::entries(text)?;
    let mut warnings = Vec::new();
    let watches = entries.iter().map(|e| decode::watch(e, &env, &mut warnings)).collect::<Result<Vec<_>, _>>()?;
    check::check(&entries, &watches)?;
    Ok(Watches { watches, warnings })
}

impl Watch {
    /// Returns the group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.group, &self.version, &self.kind)
    }

    /// Returns the controller's name in logs, metrics and events: `<kind in lower case>-controller`, as in upstream.
    /// Returns its kind with the group, if there is one: `Memcached.cache.my.domain`.
    pub(crate) fn full_name(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// Returns whether a person means this kind, whose group may be left out. Upper and lower case are alike.
    pub(crate) fn is_meant_by(&self, word: &str) -> bool {
        word.eq_ignore_ascii_case(&self.kind) || word.eq_ignore_ascii_case(&self.full_name())
    }

    pub(crate) fn controller_name(&self) -> String {
        format!("{}-controller", self.kind.to_lowercase())
    }

    /// Returns where the records of the watch's releases are stored, for an operator in this namespace.
    pub(crate) fn home(&self, own: &str) -> Home {
        self.storage(own).map(Home::in_namespace).unwrap_or_default()
    }

    /// Returns the namespace of all release records, for an operator in this namespace.
    pub(crate) fn storage<'a>(&'a self, own: &'a str) -> Option<&'a str> {
        self.storage_namespace.as_ref().map(|namespace| match namespace {
            StorageNamespace::Own => own,
            StorageNamespace::Named(name) => name,
        })
    }

    /// Returns the API resource with a guessed plural. Use discovery when a server is available.
    pub(crate) fn api_resource(&self) -> ApiResource {
        ApiResource::from_gvk(&self.gvk())
    }
}
