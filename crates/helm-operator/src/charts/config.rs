//! The settings of chart controllers, from the command line.

use std::path::PathBuf;
use std::time::Duration;

use controller::context::Context;
use kube::Client;

pub use crate::rendering::Rendering;

/// The settings of every chart controller whose watch does not set its own.
#[derive(Clone, Debug)]
pub struct ChartConfig {
    /// How long one of a chart's hooks may take; zero means no limit. Default: one hour.
    pub hook_timeout: Duration,
    /// How long a release may stay unready without progress before it counts as stalled; zero means no limit. Default:
    /// ten minutes.
    pub progress_timeout: Duration,
    /// How many revisions of a release are kept; 0 means all. Default: 10.
    pub max_history: usize,
    /// How often every object is applied again without a reason; zero means never. Default: zero.
    pub full_resync_period: Duration,
    /// How many releases of one watch may be upgraded concurrently because of a change outside their resources; 0 means
    /// no limit. Default: 0.
    pub max_parallel_upgrades: usize,
    /// Whether events show override values as `****`. Default: true, because they may come from the operator's
    /// environment.
    pub suppress_override_values: bool,
    /// Where charts are rendered. Default: in this process.
    pub rendering: Rendering,
    /// The folder of fetched charts, which other users must not be able to write. Default: `helm-operator-charts` in
    /// the system's folder for temporary files.
    pub chart_cache: PathBuf,
    /// How many bytes of fetched charts are kept besides those that are served. Default: 256 MiB.
    pub chart_cache_size: u64,
    /// The transport for requests to registries and web servers. Default: `None`, for the network.
    pub chart_hop: Option<registry::Hop>,
    /// The namespace of the Secret with the key of release records. Empty means the pod's own or, outside a cluster,
    /// the kubeconfig's. Default: empty.
    pub record_key_namespace: String,
}

/// The default of [`ChartConfig::progress_timeout`], which is a Deployment's own default.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(600);

/// The default of [`ChartConfig::chart_cache_size`].
const CHART_CACHE: u64 = 256 << 20;

impl Default for ChartConfig {
    /// Returns upstream's defaults.
    fn default() -> ChartConfig {
        ChartConfig {
            hook_timeout: helm_release::action::HOOK_TIMEOUT,
            progress_timeout: PROGRESS_TIMEOUT,
            max_history: 10,
            full_resync_period: Duration::ZERO,
            max_parallel_upgrades: 0,
            suppress_override_values: true,
            rendering: Rendering::default(),
            chart_cache: std::env::temp_dir().join("helm-operator-charts"),
            chart_cache_size: CHART_CACHE,
            chart_hop: None,
            record_key_namespace: String::new(),
        }
    }
}

impl ChartConfig {
    /// Returns the settings of this process.
    pub(crate) fn of(context: &Context) -> ChartConfig {
        (*context.part(|_| ChartConfig::default())).clone()
    }

    /// Returns the operator's own namespace, which holds the key of release records.
    pub(crate) fn own_namespace<'a>(&'a self, client: &'a Client) -> &'a str {
        match &*self.record_key_namespace {
            "" => client.default_namespace(),
            namespace => namespace,
        }
    }
}
