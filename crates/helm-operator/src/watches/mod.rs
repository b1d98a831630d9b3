//! Which custom resources are served by which charts: watches.yaml, read as leniently as upstream reads it.
//!
//! Counterpart: operator-sdk's `internal/helm/watches` and helm-operator-plugins' `pkg/watches`; the keys are the union of both.

mod decode;
mod duration;
mod expand;
mod node;
mod overrides;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helm_release::kube::Policy;
use kube::core::{ApiResource, GroupVersionKind, Selector};

pub use duration::{DurationError, parse_duration};
pub use expand::Error as ExpandError;
pub use overrides::{OverrideError, OverrideValuesType, Overrides};

/// One entry of watches.yaml: a kind of custom resource and the chart that serves it.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The API group; may be empty.
    pub group: String,
    /// The API version; never empty.
    pub version: String,
    /// The kind; never empty.
    pub kind: String,
    /// The chart's folder or archive, relative to the working directory.
    pub chart: PathBuf,
    /// What is laid over the `spec` of each resource.
    pub overrides: Overrides,
    /// How often a resource is looked at without an event; absent: the flag decides; zero: never.
    pub reconcile_period: Option<Duration>,
    /// How long one of the chart's hooks may take; absent: the flag decides; zero: as long as it takes.
    pub hook_timeout: Option<Duration>,
    /// How many resources of this kind are worked on at once, at least 1; absent: the flag decides.
    pub max_concurrent_reconciles: Option<usize>,
    /// Whether changes to the chart's objects start a reconcile.
    pub watch_dependent_resources: bool,
    /// Which custom resources are served, by their labels; empty: all.
    pub selector: Selector,
    /// Which way the chart's objects are written.
    pub apply: Policy,
}

/// Why watches.yaml can't be used. The texts are upstream's where it has one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("could not open watches file: {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is no YAML.
    #[error("could not read watches file: {0}")]
    Yaml(String),
    /// A key has a value that it can't have.
    #[error("watches file, line {line}: {what}")]
    Value {
        /// The line, from 1; 0 where it is not known.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// An entry without version or kind.
    #[error("invalid GVK: {gvk}: {what} must not be empty")]
    Gvk {
        /// `group/version, Kind=kind`.
        gvk: String,
        /// `version` or `kind`.
        what: &'static str,
    },
    /// Two entries for one kind.
    #[error("duplicate GVK: {0}")]
    Duplicate(String),
    /// An override value that `--set` rejects.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// An override value's template is wrong.
    #[error("failed to expand override values: {0}")]
    Expand(#[source] expand::Error),
}

/// What a watches file says, and what is odd about it.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    /// The entries, in the file's order.
    pub watches: Vec<Watch>,
    /// What a user should hear of: unknown keys, with their lines.
    pub warnings: Vec<String>,
}

/// Reads a watches file with this process's environment and logs what is odd about it.
///
/// # Errors
/// As [`parse`], and when the file can't be read.
pub fn load(path: &Path) -> Result<Vec<Watch>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    let Watches { watches, warnings } = parse(&text, |name| std::env::var(name).ok())?;
    for warning in &warnings {
        tracing::warn!(file = %path.display(), "{warning}");
    }
    Ok(watches)
}

/// Reads the text of a watches file. `env` looks up environment variables for override values.
///
/// # Errors
/// No list at the top, a value of the wrong type, an entry without version or kind, two entries for one kind, a broken template.
pub fn parse(text: &str, env: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Result<Watches, Error> {
    let env: expand::Env = Arc::new(env);
    let entries = node::entries(text)?;
    let mut warnings = Vec::new();
    let watches = entries.iter().map(|e| decode::watch(e, &env, &mut warnings)).collect::<Result<Vec<_>, _>>()?;
    check(&watches)?;
    Ok(Watches { watches, warnings })
}

fn check(watches: &[Watch]) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for watch in watches {
        let gvk = format!("{}/{}, Kind={}", watch.group, watch.version, watch.kind);
        if watch.version.is_empty() {
            return Err(Error::Gvk { gvk, what: "version" });
        }
        if watch.kind.is_empty() {
            return Err(Error::Gvk { gvk, what: "kind" });
        }
        if !seen.insert(gvk.clone()) {
            return Err(Error::Duplicate(gvk));
        }
    }
    Ok(())
}

impl Watch {
    /// The group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.group, &self.version, &self.kind)
    }

    /// The controller's name in logs, metrics and events: `<kind in lower case>-controller`, as upstream.
    pub fn controller_name(&self) -> String {
        format!("{}-controller", self.kind.to_lowercase())
    }

    /// The API resource with a guessed plural. Discovery knows better; this is for tests and for a server that does not answer.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource::from_gvk(&self.gvk())
    }
}
