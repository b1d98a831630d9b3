//! Compares this engine with recorded answers of real Helm: vectors (snippets) and corpora (whole charts).
//!
//! `conformance --vectors FILE... --corpus DIR...` prints a line per difference, a table by group, and finally `N
//! passed, N failed`.

mod corpus;
mod reads;
mod report;
mod vectors;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::report::{Differences, Report};

/// Compares this engine with recorded answers of real Helm.
#[derive(Parser)]
struct Args {
    /// File of vectors, one JSON object per line; may be repeated
    #[arg(long, value_name = "FILE", num_args = 1..)]
    vectors: Vec<PathBuf>,
    /// Directory of charts with `cases.jsonl`; may be repeated
    #[arg(long, value_name = "DIR", num_args = 1..)]
    corpus: Vec<PathBuf>,
    /// Check for each chart of the corpora, too, that values which no template reads change nothing
    #[arg(long)]
    unread: bool,
    /// Run only cases whose id or group contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Print expected and actual output of each failure in full
    #[arg(long)]
    verbose: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut report = Report::new(if args.verbose { Differences::InFull } else { Differences::Shortened });
    for file in &args.vectors {
        vectors::run(file, &args.only, &mut report)?;
    }
    for folder in &args.corpus {
        corpus::run(folder, &args.only, &mut report)?;
        if args.unread {
            let mut analysed = reads::Analysed::default();
            corpus::each(folder, &args.only, |case| analysed.check(folder, case, &mut report))?;
        }
    }
    Ok(if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
