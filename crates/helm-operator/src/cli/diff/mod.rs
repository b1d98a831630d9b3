//! `diff`: shows what the operator would write for resources, without writing it.

mod inputs;
mod offline;
mod rollout;
mod session;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use controller::report::chain;

use crate::charts::rehearsals::Rehearsed;
use crate::cli::kubeconfig::ClusterFlags;
use crate::manager::operator::Operator;
use crate::plan::diff::Colour;
use crate::plan::text::{Style, text};
use crate::plan::{json, markdown};

/// The exit code if something changes, as of `kubectl diff`.
const CHANGES: u8 = 1;

/// The exit code after an error, or if a reconcile would fail.
const ERROR: u8 = 2;

/// The lines of differences that a terminal gets without `--full`.
const MAX_LINES: usize = 200;

/// The flags of `diff`.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The kind of resources in the cluster; without -f
    pub(crate) kind: Option<String>,

    /// The names of resources
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Files, folders or - for standard input, with resources as they would be applied
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: Vec<PathBuf>,

    /// Every resource of the kind: what a new chart, image or override changes
    #[arg(long)]
    pub(crate) all: bool,

    /// The new chart, instead of the watches file's: a folder, an archive, oci://registry/name:version or a URL
    #[arg(long, value_name = "CHART")]
    pub(crate) chart: Option<PathBuf>,

    /// Compare the renders of both charts for the files' resources, without a cluster
    #[arg(long, requires = "chart", requires = "filename")]
    pub(crate) offline: bool,

    /// Namespace of the resources [default: the kubeconfig's]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Read objects in all namespaces, as an operator does that serves them all; with --all, plan the resources of all
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,

    /// How to print
    #[arg(short, long, value_enum, default_value_t = Form::Text, value_name = "FORM")]
    pub(crate) output: Form,

    /// Show all differences, also on a terminal
    #[arg(long)]
    pub(crate) full: bool,

    /// Path to the watches file
    #[arg(long, default_value = "./watches.yaml", value_name = "PATH")]
    pub(crate) watches_file: PathBuf,

    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,

    /// Namespace of the Secret that holds the key of release records: the operator's [default: the kubeconfig's]
    #[arg(long, env = "RECORD_KEY_NAMESPACE", hide_env = true, value_name = "NAMESPACE")]
    pub(crate) record_key_namespace: Option<String>,

    /// A merge patch for the resources in the cluster before they are planned
    #[arg(skip)]
    pub(crate) annotate: Option<serde_json::Value>,
}

/// How plans are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Objects with their differences, and a summary
    Text,
    /// A list of plans
    Json,
    /// A comment for a pull request, below 60 kB
    Markdown,
}

pub(super) fn examples(name: &str) -> String {
    format!(
        "Examples:\n  # What applying this file would make the operator do\n  {name} diff -f config/samples/shop.yaml\n\n  \
         # What a new version of the chart changes in every release\n  {name} diff Shop --all -A --chart ../shop-0.3.0\n\n  \
         # The same with a version in a registry\n  {name} diff Shop --all -A --chart oci://registry.example.com/charts/shop:0.3.0\n\n  \
         # The same for files, without a cluster: only what the charts render\n  {name} diff -f resources/ --chart ../shop-0.3.0 --offline\n\n  \
         # A comment for a pull request\n  {name} diff -f resources/ -o markdown\n\n\
         Exit codes: 0 nothing changes, 1 something changes, 2 an error, or a reconcile that would fail.\n\
         Nothing is written: the operator's own reconcile runs, and each of its writes is a dry run on the API server."
    )
}

/// Plans the next reconcile of each resource, and prints the plans.
pub(super) fn run(diff: &Diff, operator: Operator) -> ExitCode {
    let planned = match diff.offline {
        true => offline::plans(diff, operator).map(|plans| (plans, Vec::new())),
        false => session::plans(diff, operator),
    };
    let code = match planned {
        Ok((plans, rollouts)) => print(diff, &plans, &rollouts).map_or(ERROR, |()| code(&plans)),
        Err(failure) => {
            super::print_error(&chain(&failure));
            ERROR
        }
    };
    ExitCode::from(code)
}

fn code(plans: &[Rehearsed]) -> u8 {
    match plans {
        plans if plans.iter().any(|one| one.plan.is_failure()) => ERROR,
        plans if plans.iter().any(|one| !one.plan.changes.is_empty()) => CHANGES,
        _ => 0,
    }
}

fn print(diff: &Diff, plans: &[Rehearsed], rollouts: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let printed = match diff.output {
        Form::Text => {
            let max_lines = (out.is_terminal() && !diff.full).then_some(MAX_LINES);
            let style = Style { colour: Colour::of(&out), max_lines };
            let plans = plans.iter().map(|one| text(&one.plan, &one.mask, style));
            plans.chain(rollouts.iter().cloned()).collect::<Vec<_>>().join("\n")
        }
        Form::Json => {
            let plans: Vec<_> = plans.iter().map(|one| json::json(&one.plan, &one.mask)).collect();
            format!("{:#}\n", serde_json::Value::from(plans))
        }
        Form::Markdown => markdown::markdown(plans.iter().map(|one| (&one.plan, &one.mask))),
    };
    out.write_all(printed.as_bytes())
}
