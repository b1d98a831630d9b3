//! `parity`: installs, upgrades and uninstalls charts with both modes of Helm and with the operator, and compares the
//! live objects after each step. With `--plans`, compares the operator's plans with what it then does.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use parity::corpus::{self, Chart, Shard};
use parity::{Options, planned, run};

/// Compares the live objects of releases made by the operator and by Helm.
///
/// Starts three API servers and takes each chart through install, upgrade and uninstall on each of them. Prints
/// differences and a table. Fails on a difference that is not known, and on a known one that no longer occurs.
#[derive(Parser)]
struct Args {
    /// Directory of charts with `cases.jsonl`; may be repeated [default: this repository's own charts]
    #[arg(long, value_name = "DIR", num_args = 1..)]
    corpus: Vec<PathBuf>,
    /// Run part i of n
    #[arg(long, value_name = "i/n", default_value = "1/1")]
    shard: Shard,
    /// Run only charts whose name contains one of these texts, separated by commas
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Cases per corpus chart: the first is an install, the others are upgrades
    #[arg(long, value_name = "N", default_value_t = 2)]
    cases: usize,
    /// Seconds after which no further chart starts
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
    /// Operator binary
    #[arg(long, value_name = "FILE", default_value = "target/release/helm-operator")]
    operator: PathBuf,
    /// List of known differences [default: this repository's]
    #[arg(long, value_name = "FILE")]
    known: Option<PathBuf>,
    /// Compare plans with the writes that follow instead, for at most this many charts that can be installed
    #[arg(long, value_name = "N")]
    plans: Option<usize>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let charts = charts(&args)?;
    anyhow::ensure!(!charts.is_empty(), "no charts selected");
    let known = match &args.known {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
        None => parity::known::OURS.to_owned(),
    };
    let operator =
        args.operator.canonicalize().with_context(|| format!("no operator binary at {}", args.operator.display()))?;
    let limit = Duration::from_secs(args.limit);
    if let Some(wanted) = args.plans {
        let report = planned::run(&planned::Options { charts, wanted, operator, limit }).await?;
        let _ = write!(std::io::stdout(), "{}", report.text());
        return Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let report = run(&Options { charts, operator, known, limit }).await?;
    let _ = write!(std::io::stdout(), "{}", report.text());
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn charts(args: &Args) -> anyhow::Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for folder in &args.corpus {
        charts.extend(corpus::read(folder, args.cases)?);
    }
    if args.corpus.is_empty() {
        eprintln!("no --corpus given: comparing this repository's own charts");
        charts = corpus::own(&parity::own_charts())?;
    }
    charts.retain(|chart| args.only.is_empty() || args.only.iter().any(|text| chart.name.contains(text)));
    Ok(args.shard.of(charts))
}
