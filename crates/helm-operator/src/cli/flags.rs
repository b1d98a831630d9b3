//! Defines the flags of `run`: those of operator-sdk and helm-operator-plugins, with their defaults, aliases and
//! conflicts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, ValueEnum};
use controller::context::ControllerConfig;
use controller::notifications::{self, Sink};
use controller::runtime::namespaces::Namespaces;
use controller::shards::{InvalidRing, Ring, ShardSelector};
use controller::traces;
use controller::webhooks;
use golibs::strconv::parse_bool;

use crate::charts::ChartConfig;
use crate::manager::{CertificateFiles, Config, ProcessConfig, Tls};
use crate::rendering::{self, Rendering, RenderingFlags};
use crate::telemetry::{self, Encoder, LogLevel, TimeEncoding};
use crate::watches::{DurationError, parse_duration};

/// The default of `--watches-file`.
pub(crate) const WATCHES_FILE: &str = "./watches.yaml";

/// What precedes a reason in the type of a CloudEvent: the domain of the operator's annotations, reversed.
const EVENT_TYPE: &str = "io.operatorframework.sdk.helm.";

/// Flags that contradict each other, or whose value must not be quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("only one of --{0} and --{1} may be set")]
    Both(&'static str, &'static str),
    #[error("--metrics-secure flag is required when --metrics-require-rbac is present")]
    RbacWithoutTls,
    #[error("{0}")]
    CloudEvents(String),
    #[error("--cloudevents-sink is required when --{0} is present")]
    WithoutSink(&'static str),
    #[error("{0}")]
    Traces(String),
    #[error("--controller-ring: {0}")]
    Ring(#[from] InvalidRing),
}

/// How CloudEvents are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum CloudEventsMode {
    /// Everything is in the body
    Structured,
    /// The attributes are headers
    Binary,
}

/// The flags of `run`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Run {
    /// Path to the watches file
    #[arg(long, default_value = WATCHES_FILE, value_name = "PATH")]
    pub(crate) watches_file: PathBuf,

    /// For development: watch the charts' folders, and the sources if cargo runs the program, and serve what is saved
    #[arg(long)]
    pub(crate) reload: bool,

    /// Default reconcile period for controllers, as a Go duration; 0 means only on changes
    #[arg(long, default_value = "1m", value_parser = duration, value_name = "DURATION")]
    reconcile_period: Duration,

    /// Time limit for one of a chart's hooks, as a Go duration; 0 means no limit
    #[arg(long, default_value = "1h", value_parser = duration, value_name = "DURATION")]
    hook_timeout: Duration,

    /// Time that a release may stay unready without progress before it counts as stalled, as a Go duration; 0 means no limit
    #[arg(long, default_value = "10m", value_parser = duration, value_name = "DURATION")]
    progress_timeout: Duration,

    /// How often every object is applied again without a reason, as a Go duration; 0 means never
    #[arg(long, default_value = "0", value_parser = duration, value_name = "DURATION")]
    full_resync_period: Duration,

    /// How many releases of one kind may be upgraded at a time when the chart, override values or sources of values change; 0 means no limit
    #[arg(long, default_value = "0", value_name = "N")]
    max_parallel_upgrades: u16,

    /// Maximum number of concurrent reconciles for each kind [default: number of cores, at least 8]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    max_concurrent_reconciles: Option<u16>,

    /// How many processes render charts at a time; 0 renders in the operator's own process, where a hostile chart can end it [default: 1 or 2, by processors and memory]
    #[arg(long, value_name = "N")]
    render_workers: Option<u8>,

    /// Memory limit of one render, such as 100Mi [default: what the container's limit leaves to each worker, at most 256Mi]
    #[arg(long, value_parser = bytes, value_name = "BYTES")]
    render_memory: Option<u64>,

    /// Time limit of one render, as a Go duration
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "DURATION")]
    render_timeout: Duration,

    /// The folder of charts that are fetched; make it a volume to start while a registry is away [default: helm-operator-charts in the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    chart_cache: Option<PathBuf>,

    /// How many bytes of fetched charts are kept, besides those that are served
    #[arg(long, default_value = "256Mi", value_parser = bytes, value_name = "BYTES")]
    chart_cache_size: u64,

    /// How long running reconciles may take to finish after SIGTERM, as a Go duration; keep it below the pod's terminationGracePeriodSeconds [default: 8s]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(super) shutdown_grace: Option<Duration>,

    /// How many revisions of a release are kept; 0 keeps all
    #[arg(long, default_value = "10", value_name = "N")]
    max_history: u16,

    /// The address the metrics endpoint binds to; 0 turns it off [default: :8080]
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<String>,

    /// Old name of --metrics-bind-address
    #[arg(long, hide = true, value_name = "ADDRESS")]
    metrics_addr: Option<String>,

    /// Serve metrics over HTTPS, with a self-signed certificate unless --metrics-cert-path is set
    #[arg(long)]
    metrics_secure: bool,

    /// Serve metrics only to bearer tokens whose user may get /metrics; needs --metrics-secure
    #[arg(long)]
    metrics_require_rbac: bool,

    /// The directory that contains the metrics server's certificate and key; read again when they change
    #[arg(long, value_name = "DIR")]
    metrics_cert_path: Option<PathBuf>,

    /// The name of the metrics server's certificate file
    #[arg(long, default_value = "tls.crt", value_name = "FILE")]
    metrics_cert_name: PathBuf,

    /// The name of the metrics server's key file
    #[arg(long, default_value = "tls.key", value_name = "FILE")]
    metrics_cert_key: PathBuf,

    /// The address the probe endpoint binds to; 0 turns it off
    #[arg(long, default_value = ":8081", value_name = "ADDRESS")]
    health_probe_bind_address: String,

    /// The address that the page for people is served at over HTTPS, such as :8443; 0 turns it off
    #[arg(long, default_value = "0", value_name = "ADDRESS")]
    web_bind_address: String,

    /// The directory that contains tls.crt and tls.key of the page; read again when they change [default: self-signed]
    #[arg(long, value_name = "DIR")]
    web_cert_path: Option<PathBuf>,

    /// Let people reconcile, retry and suspend on the page, each with their own rights; needs --web-bind-address
    #[arg(long)]
    web_actions: bool,

    /// The address that webhooks are served at, if the program has any
    #[arg(long, default_value = ":9443", value_name = "ADDRESS")]
    webhook_bind_address: String,

    /// Name of the webhooks' Service and configurations [default: the lease's name with -webhook]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    webhook_name: String,

    /// How the API server reaches the webhooks without their Service [default: outside a cluster, https://127.0.0.1 with the port]
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,

    /// The directory that contains tls.crt, tls.key and ca.crt of the webhooks; read again when they change [default: made by the operator, in a Secret]
    #[arg(long, value_name = "DIR")]
    webhook_cert_path: Option<PathBuf>,

    /// Run controllers only while holding a lease, so that several replicas can run
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean, value_name = "BOOL")]
    leader_elect: Option<bool>,

    /// Old name of --leader-elect
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean, value_name = "BOOL")]
    enable_leader_election: Option<bool>,

    /// Name of the lease; of a shard, the name of the lease of the leader before it, which the shard waits for
    #[arg(long, value_name = "NAME")]
    leader_election_id: Option<String>,

    /// Namespace of the lease [default: the pod's]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAMESPACE")]
    leader_election_namespace: String,

    /// Serve only what is assigned to this process, as a shard of this ControllerRing, instead of --leader-elect; the shard's name and its lease's are the pod's
    #[arg(long, value_name = "NAME")]
    controller_ring: Option<String>,

    /// Alpha: list, watch and serve only resources in this range of hashes, such as "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"; needs the API server's feature gate ShardedListAndWatch, and one process for each other range
    #[arg(long, value_name = "EXPRESSION")]
    shard_selector: Option<ShardSelector>,

    /// Namespace of the Secret that holds the key of release records [default: the lease's, else the pod's, else the kubeconfig's]
    #[arg(
        long,
        env = "RECORD_KEY_NAMESPACE",
        default_value = "",
        hide_default_value = true,
        hide_env = true,
        value_name = "NAMESPACE"
    )]
    record_key_namespace: String,

    /// URL that each event is also sent to as a CloudEvent, once: https, or http on this host itself
    #[arg(long, env = "CLOUDEVENTS_SINK", hide_env = true, value_name = "URL")]
    cloudevents_sink: Option<String>,

    /// File with the key that signs CloudEvents: header X-Signature with the HMAC-SHA256 of the body; read again for each event
    #[arg(long, value_name = "PATH")]
    cloudevents_secret_file: Option<PathBuf>,

    /// File with the certificates, in PEM, that the sink's must lead to [default: the system's]
    #[arg(long, value_name = "PATH")]
    cloudevents_ca_file: Option<PathBuf>,

    /// How CloudEvents are written: structured, everything in the body, or binary, attributes as headers
    #[arg(long, value_enum, default_value = "structured", value_name = "MODE")]
    cloudevents_mode: CloudEventsMode,

    /// Attribute source of CloudEvents, which tells clusters and operators apart [default: the program's name after a slash]
    #[arg(long, value_name = "URI")]
    cloudevents_source: Option<String>,

    /// URL of an OpenTelemetry collector that gets a trace of each reconcile: OTLP over HTTP, with the path, mostly /v1/traces
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", hide_env = true, value_name = "URL")]
    traces_endpoint: Option<String>,

    /// File with the certificates, in PEM, that the collector's must lead to [default: the system's]
    #[arg(long, value_name = "PATH")]
    traces_ca_file: Option<PathBuf>,

    /// Show override values as **** in events
    #[arg(long)]
    suppress_override_values: bool,

    /// Let clients of the HTTPS metrics server use HTTP/2
    #[arg(long)]
    enable_http2: bool,

    /// Accepted for old deployments and ignored
    #[arg(long, hide = true, value_name = "PATH")]
    config: Option<PathBuf>,

    /// Development defaults for logs: console encoding, debug level
    #[arg(long)]
    zap_devel: bool,

    /// Log encoding [default: json, or console on a terminal or with --zap-devel]
    #[arg(long, value_enum, value_name = "FORM")]
    zap_encoder: Option<Encoder>,

    /// Log level: debug, info, error, panic or a number above 0 [default: info, or debug with --zap-devel]
    #[arg(long, value_name = "LEVEL")]
    zap_log_level: Option<LogLevel>,

    /// Accepted for old deployments; there are no stack traces
    #[arg(long, hide = true, value_name = "LEVEL")]
    zap_stacktrace_level: Option<LogLevel>,

    /// Encoding of times in logs [default: rfc3339]
    #[arg(long, value_enum, value_name = "FORM")]
    zap_time_encoding: Option<TimeEncoding>,
}

impl Run {
    /// Returns the manager's configuration. `env` looks up environment variables.
    ///
    /// # Errors
    /// Flags contradict each other.
    pub(crate) fn config(&self, env: impl Fn(&str) -> Option<String>) -> Result<Config, UsageError> {
        self.check()?;
        let defaults = Config::default().process;
        let address = self.metrics_bind_address.clone().or_else(|| self.metrics_addr.clone());
        let shard = defaults.controllers.pod_name.as_deref();
        let ring = self.controller_ring.as_deref().map(|ring| Ring::new(ring, shard)).transpose()?;
        let old_name = || env("OPERATOR_NAME").filter(|name| !name.is_empty());
        let controllers = ControllerConfig {
            namespaces: Namespaces::parse(&env("WATCH_NAMESPACE").unwrap_or_default()),
            pod_name: defaults.controllers.pod_name,
            reconcile_period: self.reconcile_period,
            max_concurrent_reconciles: self
                .max_concurrent_reconciles
                .map_or(defaults.controllers.max_concurrent_reconciles, usize::from),
            ring,
            shard_selector: self.shard_selector.clone(),
        };
        let charts = ChartConfig {
            hook_timeout: self.hook_timeout,
            progress_timeout: self.progress_timeout,
            max_history: self.max_history.into(),
            full_resync_period: self.full_resync_period,
            max_parallel_upgrades: self.max_parallel_upgrades.into(),
            suppress_override_values: self.suppress_override_values,
            rendering: self.rendering(rendering::memory_limit()),
            chart_cache: self.chart_cache.clone().unwrap_or_else(|| ChartConfig::default().chart_cache),
            chart_cache_size: self.chart_cache_size,
            chart_hop: None,
            record_key_namespace: match &self.record_key_namespace {
                own if own.is_empty() => self.leader_election_namespace.clone(),
                own => own.clone(),
            },
        };
        let process = ProcessConfig {
            notifications: self.notifications(&defaults.program)?,
            program: defaults.program,
            controllers,
            metrics_bind_address: address.unwrap_or(defaults.metrics_bind_address),
            metrics_tls: self.metrics_secure.then(|| self.metrics_tls()),
            health_probe_bind_address: self.health_probe_bind_address.clone(),
            web_bind_address: self.web_bind_address.clone(),
            web_certificate: self
                .web_cert_path
                .as_ref()
                .map(|folder| CertificateFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") }),
            web_actions: self.web_actions,
            webhooks: webhooks::Settings {
                bind_address: self.webhook_bind_address.clone(),
                name: self.webhook_name.clone(),
                url: self.webhook_url.clone(),
                certificate_dir: self.webhook_cert_path.clone(),
                ..webhooks::Settings::default()
            },
            leader_elect: self.leader_elect.or(self.enable_leader_election).unwrap_or(false),
            leader_election_id: self.leader_election_id.clone().or_else(old_name).unwrap_or_default(),
            leader_election_namespace: self.leader_election_namespace.clone(),
            shutdown_grace: self.shutdown_grace.unwrap_or(defaults.shutdown_grace),
        };
        Ok(Config { process, charts })
    }

    /// Returns where events are also sent. Never quotes the address, which may contain a token.
    fn notifications(&self, program: &str) -> Result<Option<notifications::Settings>, UsageError> {
        let Some(sink) = self.cloudevents_sink.as_deref().filter(|sink| !sink.is_empty()) else {
            return match (&self.cloudevents_secret_file, &self.cloudevents_ca_file) {
                (Some(_), _) => Err(UsageError::WithoutSink("cloudevents-secret-file")),
                (_, Some(_)) => Err(UsageError::WithoutSink("cloudevents-ca-file")),
                (None, None) => Ok(None),
            };
        };
        let invalid = |error: notifications::Error| UsageError::CloudEvents(error.to_string());
        let settings = notifications::Settings {
            secret_file: self.cloudevents_secret_file.clone(),
            ca_file: self.cloudevents_ca_file.clone(),
            mode: match self.cloudevents_mode {
                CloudEventsMode::Structured => notifications::Mode::Structured,
                CloudEventsMode::Binary => notifications::Mode::Binary,
            },
            source: self.cloudevents_source.clone().unwrap_or_else(|| format!("/{program}")),
            type_prefix: EVENT_TYPE.to_owned(),
            ..notifications::Settings::to(sink.parse::<Sink>().map_err(invalid)?)
        };
        settings.check().map_err(invalid)?;
        Ok(Some(settings))
    }

    /// Returns where traces are sent.
    ///
    /// # Errors
    /// The address is not a URL.
    pub(crate) fn traces(&self) -> Result<Option<traces::Settings>, UsageError> {
        let endpoint = self.traces_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty());
        let settings = |endpoint| traces::Settings { endpoint, ca_file: self.traces_ca_file.clone() };
        let invalid = |_| UsageError::Traces(traces::Error::Endpoint.to_string());
        Ok(endpoint.map(|text| text.parse().map_err(invalid)).transpose()?.map(settings))
    }

    /// Returns where charts are rendered, in a container with this memory limit.
    fn rendering(&self, limit: Option<u64>) -> Rendering {
        // With `--reload`, the running chart stays if a save is broken. Workers read the chart's files, so they would
        // get the broken save.
        let workers = self.render_workers.map(usize::from).or(self.reload.then_some(0));
        let timeout = Some(self.render_timeout);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        RenderingFlags { workers, memory: self.render_memory, timeout }.divide(processors, limit)
    }

    fn check(&self) -> Result<(), UsageError> {
        if self.metrics_addr.is_some() && self.metrics_bind_address.is_some() {
            return Err(UsageError::Both("metrics-addr", "metrics-bind-address"));
        }
        if self.controller_ring.is_some() && self.leader_elect.or(self.enable_leader_election) == Some(true) {
            return Err(UsageError::Both("controller-ring", "leader-elect"));
        }
        if self.controller_ring.is_some() && self.shard_selector.is_some() {
            return Err(UsageError::Both("controller-ring", "shard-selector"));
        }
        if self.enable_leader_election.is_some() && self.leader_elect.is_some() {
            return Err(UsageError::Both("enable-leader-election", "leader-elect"));
        }
        if self.metrics_require_rbac && !self.metrics_secure {
            return Err(UsageError::RbacWithoutTls);
        }
        Ok(())
    }

    fn metrics_tls(&self) -> Tls {
        let files = self.metrics_cert_path.as_ref().map(|folder| CertificateFiles {
            certificate: folder.join(&self.metrics_cert_name),
            key: folder.join(&self.metrics_cert_key),
        });
        Tls { files, http2: self.enable_http2, require_rbac: self.metrics_require_rbac }
    }

    pub(crate) fn telemetry(&self) -> telemetry::Options {
        telemetry::Options {
            devel: self.zap_devel,
            encoder: self.zap_encoder,
            level: self.zap_log_level,
            time: self.zap_time_encoding,
        }
    }

    fn serves_page(&self) -> bool {
        !matches!(&*self.web_bind_address, "" | "0")
    }

    /// Returns warnings about old flag names and flags without effect.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let limit = rendering::memory_limit();
        let too_large = self.rendering(limit).too_large_for(limit);
        let old = [
            (self.metrics_addr.is_some(), "--metrics-addr is deprecated, use --metrics-bind-address"),
            (self.enable_leader_election.is_some(), "--enable-leader-election is deprecated, use --leader-elect"),
            (self.config.is_some(), "--config has no effect"),
            (
                self.metrics_cert_path.is_some() && !self.metrics_secure,
                "--metrics-cert-path has no effect without --metrics-secure",
            ),
            (
                self.web_cert_path.is_some() && !self.serves_page(),
                "--web-cert-path has no effect without --web-bind-address",
            ),
            (self.web_actions && !self.serves_page(), "--web-actions has no effect without --web-bind-address"),
            (
                self.traces_ca_file.is_some() && self.traces_endpoint.is_none(),
                "--traces-ca-file has no effect without --traces-endpoint",
            ),
            (self.zap_stacktrace_level.is_some(), "--zap-stacktrace-level has no effect: there are no stack traces"),
        ];
        old.into_iter().filter(|(set, _)| *set).map(|(_, text)| text.to_owned()).chain(too_large).collect()
    }
}

/// The only boolean flag that is on by default.
const HIDES_OVERRIDES: &str = "suppress_override_values";

/// Makes a flag behave as in Go's pflag: `--flag=false` works, and the last occurrence counts.
pub(super) fn as_in_go(flag: Arg) -> Arg {
    if !matches!(flag.get_action(), ArgAction::SetTrue) {
        return flag;
    }
    let default = if flag.get_id() == HIDES_OVERRIDES { "true" } else { "false" };
    let flag = flag.action(ArgAction::Set).num_args(0..=1).require_equals(true).value_name("BOOL");
    flag.default_missing_value("true")
        .default_value(default)
        .hide_default_value(default == "false")
        .value_parser(boolean)
}

/// Parses a boolean like Go's `strconv.ParseBool`.
fn boolean(text: &str) -> Result<bool, String> {
    parse_bool(text.as_bytes()).map_err(|error| error.message("ParseBool", text.as_bytes()))
}

/// Parses a number of bytes as Kubernetes writes it: a whole number, with `Ki`, `Mi`, `Gi`, `k`, `M` or `G`.
fn bytes(text: &str) -> Result<u64, String> {
    let units =
        [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let with_unit = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (number, unit) = with_unit.unwrap_or((text, 1));
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "must be a number of bytes above 0, such as 100Mi".to_owned())
}

fn duration(text: &str) -> Result<Duration, DurationError> {
    parse_duration(text)
}
