//! The manager: one client, one lease, one metrics and probe server, one shutdown, any number of controllers.
//!
//! Counterpart: controller-runtime's `pkg/manager`.

use std::time::Duration;

use crate::context::Namespaces;

/// What the command line and the environment say, for every controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// How often a resource is looked at without an event when its watch does not say; zero: never.
    pub reconcile_period: Duration,
    /// How many resources of one kind are worked on at once when its watch does not say; at least 1.
    pub max_concurrent_reconciles: usize,
    /// Where `/metrics` is served, as `:8080` or `127.0.0.1:0`; `0` or empty: nowhere.
    pub metrics_bind_address: String,
    /// Where `/healthz` and `/readyz` are served; `0` or empty: nowhere.
    pub health_probe_bind_address: String,
    /// Whether only the holder of the lease works.
    pub leader_elect: bool,
    /// The lease's name; needed with `leader_elect`.
    pub leader_election_id: String,
    /// The lease's namespace; empty: the pod's own.
    pub leader_election_namespace: String,
    /// Whether events show override values as `****`.
    pub suppress_override_values: bool,
    /// The namespaces to serve.
    pub namespaces: Namespaces,
    /// The field manager of everything that is applied.
    pub field_manager: String,
    /// The name of the pod that this process runs in, or the host's.
    pub pod_name: Option<String>,
    /// How long running reconciles may take to finish once the process is told to end.
    pub shutdown_grace: Duration,
}

impl Default for Config {
    /// Upstream's defaults.
    fn default() -> Config {
        Config {
            reconcile_period: Duration::from_secs(60),
            max_concurrent_reconciles: std::thread::available_parallelism().map_or(1, usize::from),
            metrics_bind_address: ":8080".into(),
            health_probe_bind_address: ":8081".into(),
            leader_elect: false,
            leader_election_id: String::new(),
            leader_election_namespace: String::new(),
            suppress_override_values: false,
            namespaces: Namespaces::default(),
            field_manager: "helm-operator".into(),
            pod_name: std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()),
            shutdown_grace: Duration::from_secs(8),
        }
    }
}
