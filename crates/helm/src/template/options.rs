//! The flags of `helm template`: Helm's names, meanings and defaults.
//!
//! Flags that act only on a cluster or on a chart repository are accepted, so that a command line written for Helm runs, and hidden from help.
//! Counterpart: Helm's `pkg/cmd/template.go`, `install.go` and `flags.go`.

use std::path::PathBuf;

/// What to render, with which values, for which cluster.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[allow(clippy::struct_excessive_bools)] // One for each flag of Helm's.
pub struct Options {
    /// The release's name, if given, and the chart: a folder or a .tgz archive
    #[cfg_attr(feature = "cli", arg(value_name = "[NAME] CHART", num_args = 1..=2, required = true))]
    pub name_and_chart: Vec<String>,

    /// The release's namespace
    #[cfg_attr(feature = "cli", arg(short, long, default_value = "default"))]
    pub namespace: String,

    /// Values from a YAML file ("-" reads standard input); may be repeated
    #[cfg_attr(feature = "cli", arg(short = 'f', long, value_name = "FILE", value_delimiter = ','))]
    pub values: Vec<String>,

    /// Set a value: a.b[0]=c,d=e
    #[cfg_attr(feature = "cli", arg(long, value_name = "KEY=VALUE"))]
    pub set: Vec<String>,

    /// Set a value, as a string
    #[cfg_attr(feature = "cli", arg(long, value_name = "KEY=VALUE"))]
    pub set_string: Vec<String>,

    /// Set a value from JSON: key=JSON, or a whole object
    #[cfg_attr(feature = "cli", arg(long, value_name = "JSON"))]
    pub set_json: Vec<String>,

    /// Set a value to a file's content: key=path
    #[cfg_attr(feature = "cli", arg(long, value_name = "KEY=PATH"))]
    pub set_file: Vec<String>,

    /// Set a value to text that is taken as it stands
    #[cfg_attr(feature = "cli", arg(long, value_name = "KEY=VALUE"))]
    pub set_literal: Vec<String>,

    /// Show only what these templates rendered, such as templates/service.yaml; globs are allowed
    #[cfg_attr(feature = "cli", arg(short, long, value_name = "TEMPLATE"))]
    pub show_only: Vec<String>,

    /// Kubernetes version for .Capabilities.KubeVersion
    #[cfg_attr(feature = "cli", arg(long, value_name = "VERSION"))]
    pub kube_version: Option<String>,

    /// Further API versions for .Capabilities.APIVersions
    #[cfg_attr(feature = "cli", arg(short, long, value_name = "VERSIONS", value_delimiter = ','))]
    pub api_versions: Vec<String>,

    /// Include the chart's CRDs
    #[cfg_attr(feature = "cli", arg(long))]
    pub include_crds: bool,

    /// Leave hooks out
    #[cfg_attr(feature = "cli", arg(long))]
    pub no_hooks: bool,

    /// Leave test hooks out
    #[cfg_attr(feature = "cli", arg(long))]
    pub skip_tests: bool,

    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[cfg_attr(feature = "cli", arg(long))]
    pub is_upgrade: bool,

    /// Do not check values against values.schema.json
    #[cfg_attr(feature = "cli", arg(long))]
    pub skip_schema_validation: bool,

    /// Write each template's output to a file below this folder
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR"))]
    pub output_dir: Option<PathBuf>,

    /// Put the release's name into the output folder's path
    #[cfg_attr(feature = "cli", arg(long))]
    pub release_name: bool,

    /// Generate the release's name
    #[cfg_attr(feature = "cli", arg(short, long))]
    pub generate_name: bool,

    /// Template for the release's name
    #[cfg_attr(feature = "cli", arg(long, value_name = "TEMPLATE"))]
    pub name_template: Option<String>,

    /// Where to simulate: "client", or "server" (asks the cluster for its capabilities, for lookup, and to check each object)
    #[cfg_attr(feature = "cli", arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client", conflicts_with = "validate"))]
    pub dry_run: Option<String>,

    /// The same as --dry-run=server
    #[cfg_attr(feature = "cli", arg(long))]
    pub validate: bool,

    /// Print what was rendered even where it is no valid YAML
    #[cfg_attr(feature = "cli", arg(long))]
    pub debug: bool,

    #[cfg_attr(feature = "cli", command(flatten))]
    #[allow(missing_docs)] // Its text would show in help.
    pub unused: Unused,

    #[cfg_attr(feature = "cli", command(flatten))]
    #[allow(missing_docs)] // Its text would show in help.
    pub refused: Refused,
}

/// Flags of Helm's that change nothing in what is rendered from a local chart.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[allow(missing_docs, clippy::struct_excessive_bools)] // The names are Helm's.
pub struct Unused {
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub atomic: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub create_namespace: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub dependency_update: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub description: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub devel: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub disable_openapi_validation: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub enable_dns: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub force: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub force_conflicts: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub force_replace: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub hide_notes: bool,
    #[cfg_attr(feature = "cli", arg(short, long, hide = true))]
    pub labels: Vec<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub render_subchart_notes: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub replace: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub rollback_on_failure: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true"))]
    pub server_side: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub skip_crds: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub take_ownership: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub timeout: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub version: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "watcher"))]
    pub wait: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub wait_for_jobs: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub insecure_skip_tls_verify: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub pass_credentials: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub plain_http: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub burst_limit: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub ca_file: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub cert_file: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub color: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub colour: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub content_cache: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub key_file: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub keyring: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub password: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub qps: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub registry_config: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub repository_cache: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub repository_config: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub username: Option<String>,
}

/// Flags of Helm's that would change what is rendered, or with whose rights, and are not supported.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[allow(missing_docs)] // The names are Helm's.
pub struct Refused {
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub repo: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub verify: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub post_renderer: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub post_renderer_args: Vec<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub kube_apiserver: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub kube_as_group: Vec<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub kube_as_user: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub kube_ca_file: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub kube_insecure_skip_tls_verify: bool,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub kube_tls_server_name: Option<String>,
    #[cfg_attr(feature = "cli", arg(long, hide = true))]
    pub kube_token: Option<String>,
}

/// What to do instead of fetching.
const FETCH: &str = "fetch the chart with 'helm pull' and give its path";
/// What to do instead of filtering.
const FILTER: &str = "send the output through the program";
/// What to do instead of naming the cluster flag by flag.
const KUBECONFIG: &str = "write it into a kubeconfig and give that with --kubeconfig";

impl Refused {
    /// The first of these flags that is given, and what to do instead. Those that name a cluster count only if it is asked.
    pub(super) fn first(&self, wants_cluster: bool) -> Option<(&'static str, &'static str)> {
        let flags = [
            (self.repo.is_some(), "repo", FETCH),
            (self.verify, "verify", FETCH),
            (self.post_renderer.is_some() || !self.post_renderer_args.is_empty(), "post-renderer", FILTER),
            (wants_cluster && self.kube_apiserver.is_some(), "kube-apiserver", KUBECONFIG),
            (wants_cluster && !self.kube_as_group.is_empty(), "kube-as-group", KUBECONFIG),
            (wants_cluster && self.kube_as_user.is_some(), "kube-as-user", KUBECONFIG),
            (wants_cluster && self.kube_ca_file.is_some(), "kube-ca-file", KUBECONFIG),
            (wants_cluster && self.kube_insecure_skip_tls_verify, "kube-insecure-skip-tls-verify", KUBECONFIG),
            (wants_cluster && self.kube_tls_server_name.is_some(), "kube-tls-server-name", KUBECONFIG),
            (wants_cluster && self.kube_token.is_some(), "kube-token", KUBECONFIG),
        ];
        flags.into_iter().find(|(given, ..)| *given).map(|(_, flag, instead)| (flag, instead))
    }
}
