//! `parity`: installs, upgrades and uninstalls charts by Helm in both its ways and by the operator, and compares what is there after each.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use parity::corpus::{self, Chart, Shard};
use parity::{Options, run};

/// Compares what the operator leaves on an API server with what Helm leaves there.
///
/// Starts three API servers and takes each chart through install, upgrade and uninstall on each of them. Prints a line for each
/// difference and a table; fails if a difference is not in the list of known ones, or if one of those is gone.
#[derive(Parser)]
struct Args {
    /// A folder of charts with `cases.jsonl`; may be repeated [default: the project's own charts]
    #[arg(long, value_name = "DIR", num_args = 1..)]
    corpus: Vec<PathBuf>,
    /// Only part i of n
    #[arg(long, value_name = "i/n", default_value = "1/1")]
    shard: Shard,
    /// Only charts whose name contains this text; separate several by commas
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Cases of each chart of a corpus: the first is installed, the others are upgrades
    #[arg(long, value_name = "N", default_value_t = 2)]
    cases: usize,
    /// Seconds after which no further chart is begun
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
    /// The operator
    #[arg(long, value_name = "FILE", default_value = "target/release/helm-operator")]
    operator: PathBuf,
    /// Another list of known differences
    #[arg(long, value_name = "FILE")]
    known: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let charts = charts(&args)?;
    anyhow::ensure!(!charts.is_empty(), "no chart is to be compared");
    let known = match &args.known {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
        None => parity::known::OURS.to_owned(),
    };
    let operator =
        args.operator.canonicalize().with_context(|| format!("no operator at {}", args.operator.display()))?;
    let report = run(&Options { charts, operator, known, limit: Duration::from_secs(args.limit) }).await?;
    let _ = write!(std::io::stdout(), "{}", report.text());
    Ok(if report.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn charts(args: &Args) -> anyhow::Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for folder in &args.corpus {
        charts.extend(corpus::read(folder, args.cases)?);
    }
    if args.corpus.is_empty() {
        eprintln!("no corpus is given (--corpus DIR): comparing the project's own charts");
        charts = corpus::own(&parity::own_charts())?;
    }
    charts.retain(|chart| args.only.is_empty() || args.only.iter().any(|text| chart.name.contains(text)));
    Ok(args.shard.of(charts))
}
