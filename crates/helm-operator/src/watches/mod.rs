//! Which custom resources are served by which charts: watches.yaml, read as leniently as upstream reads it.
//!
//! Counterpart: operator-sdk's `internal/helm/watches` and helm-operator-plugins' `pkg/watches`; the keys are the union of both.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use kube::core::{ApiResource, GroupVersionKind, Selector};

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
    /// Override values: a path as in `--set` and the value as text, with the environment and templates expanded.
    pub override_values: BTreeMap<String, String>,
    /// How the text of override values becomes values.
    pub override_values_type: OverrideValuesType,
    /// How often a resource is looked at without an event; absent: the flag decides; zero: never.
    pub reconcile_period: Option<Duration>,
    /// How many resources of this kind are worked on at once, at least 1; absent: the flag decides.
    pub max_concurrent_reconciles: Option<usize>,
    /// Whether changes to the chart's objects start a reconcile.
    pub watch_dependent_resources: bool,
    /// Which custom resources are served, by their labels; empty: all.
    pub selector: Selector,
    /// Whether `lookup` may read the cluster when a release is compared with its chart.
    pub dry_run_option: DryRunOption,
}

/// How the text of override values becomes values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverrideValuesType {
    /// As `--set`: `true`, `null` and integers have their type (helm-operator-plugins).
    #[default]
    Typed,
    /// As `--set-string`: every value is a string (operator-sdk).
    String,
}

/// Upstream's `dryRunOption`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRunOption {
    /// Nothing was said.
    #[default]
    Unset,
    /// `none`.
    None,
    /// `client`: `lookup` finds nothing.
    Client,
    /// `server`: `lookup` reads the cluster.
    Server,
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
