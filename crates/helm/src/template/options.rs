//! The flags of `helm template`: Helm's names, meanings and defaults.
//!
//! Leaves out flags that only concern clusters or chart repositories.
//! Counterpart: Helm's `pkg/cmd/template.go`, `install.go` and `flags.go`.

use std::path::PathBuf;

/// The arguments and flags of `helm template`.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[allow(clippy::struct_excessive_bools)] // One for each of Helm's flags.
pub struct Options {
    /// The release's name, if given, and the chart: a folder or a .tgz archive
    #[cfg_attr(feature = "cli", arg(value_name = "[NAME] CHART", num_args = 1..=2, required = true))]
    pub name_and_chart: Vec<String>,

    /// The release's namespace
    #[cfg_attr(feature = "cli", arg(short, long, default_value = "default"))]
    pub namespace: String,

    /// Values from a YAML file ("-" reads standard input); may be repeated
    #[cfg_attr(feature = "cli", arg(short = 'f', long, value_name = "FILE"))]
    pub values: Vec<String>,

    /// Set a value: `a.b[0]=c,d=e`
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

    /// Set a value to text that is not parsed
    #[cfg_attr(feature = "cli", arg(long, value_name = "KEY=VALUE"))]
    pub set_literal: Vec<String>,

    /// Show only what these templates rendered, such as templates/service.yaml; globs are allowed
    #[cfg_attr(feature = "cli", arg(short, long, value_name = "TEMPLATE"))]
    pub show_only: Vec<String>,

    /// Kubernetes version for .Capabilities.KubeVersion
    #[cfg_attr(feature = "cli", arg(long, value_name = "VERSION"))]
    pub kube_version: Option<String>,

    /// More API versions for .Capabilities.APIVersions
    #[cfg_attr(feature = "cli", arg(short, long, value_name = "VERSIONS"))]
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

    /// Same as --dry-run=server
    #[cfg_attr(feature = "cli", arg(long))]
    pub validate: bool,

    /// Print the output even if it is not valid YAML
    #[cfg_attr(feature = "cli", arg(long))]
    pub debug: bool,
}
