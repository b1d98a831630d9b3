//! Measures each corpus chart's speed-up over Helm's engine. Both engines run alternately, each in a separate process.
//!
//! `bench-corpus --helm PROGRAM DIR` prints the charts with the smallest speed-up, the slowest charts with Helm, and
//! the median. `render-bench` measures our side and must be in the same directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use clap::Parser;
use conformance::cases::{self, Case};
use conformance::terminal::progress;
use serde::Deserialize;

/// Times the charts of a corpus against Helm's engine.
#[derive(Parser)]
struct Args {
    /// Directory of charts with `cases.jsonl`
    corpus: PathBuf,
    /// Helm's engine: a program that takes what `render-bench` takes, such as `target/peers/helm-engine`
    #[arg(long, value_name = "PROGRAM")]
    helm: PathBuf,
    /// Seconds per chart and side
    #[arg(long, default_value = "0.3")]
    seconds: f64,
    /// Measure only the N charts with the longest recorded output
    #[arg(long, value_name = "N")]
    heaviest: Option<usize>,
    /// Rows per table
    #[arg(long, value_name = "N", default_value = "15")]
    rows: usize,
}

#[derive(Deserialize)]
struct Answer {
    ms_each: f64,
}

/// Milliseconds per render of one chart.
struct Figures {
    chart: String,
    helm: f64,
    ours: f64,
}

impl Figures {
    fn ratio(&self) -> f64 {
        self.helm / self.ours
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let cases = select_cases(&args)?;
    let mut all = Vec::with_capacity(cases.len());
    for (number, case) in cases.iter().enumerate() {
        progress(number as u64, cases.len() as u64, case.dir.display());
        all.push(measure(&args, case)?);
    }
    progress(cases.len() as u64, cases.len() as u64, "");
    print(all, args.rows);
    Ok(())
}

/// Selects one case per chart: the first that renders and needs no flags.
fn select_cases(args: &Args) -> anyhow::Result<Vec<Case>> {
    let mut seen = BTreeSet::new();
    let mut cases = cases::read(&args.corpus)?;
    cases.retain(|case| !case.is_refused() && case.args.is_empty() && seen.insert(case.dir.clone()));
    if let Some(heaviest) = args.heaviest {
        let size = |case: &Case| fs::metadata(args.corpus.join(&case.expected)).map_or(0, |file| file.len());
        cases.sort_by_key(|case| std::cmp::Reverse(size(case)));
        cases.truncate(heaviest);
    }
    Ok(cases)
}

fn measure(args: &Args, case: &Case) -> anyhow::Result<Figures> {
    let mut files = vec![args.corpus.join(&case.dir)];
    files.extend(case.values.iter().map(|values| args.corpus.join(values)));
    let ours = std::env::current_exe()?.with_file_name("render-bench");
    let run = |mut command: Command| -> anyhow::Result<f64> {
        let output = command.arg(args.seconds.to_string()).args(&files).output()?;
        let answer: Answer = serde_json::from_slice(&output.stdout).with_context(|| {
            format!("{command:?} printed no figures: {}", String::from_utf8_lossy(&output.stderr).trim_end())
        })?;
        Ok(answer.ms_each)
    };
    let helm = run(Command::new(&args.helm))?;
    Ok(Figures { chart: case.dir.display().to_string(), helm, ours: run(Command::new(ours))? })
}

#[allow(clippy::print_stdout)] // The program's output.
fn print(mut all: Vec<Figures>, rows: usize) {
    let table = |title: &str, figures: &[Figures]| {
        println!("{title:<72} {:>10} {:>10} {:>7}", "helm ms", "ours ms", "ratio");
        for Figures { chart, helm, ours } in figures {
            println!("{chart:<72} {helm:>10.2} {ours:>10.3} {:>7.1}", helm / ours);
        }
        println!();
    };
    all.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    let below = |limit: f64| all.iter().filter(|figures| figures.ratio() < limit).count();
    let median = all.get(all.len() / 2).map_or(0.0, Figures::ratio);
    let summary =
        format!("{} charts: median {median:.1} times, {} below 15, {} below 5", all.len(), below(15.0), below(5.0));
    table("smallest speed-up", &all[..rows.min(all.len())]);
    all.sort_by(|a, b| b.helm.total_cmp(&a.helm));
    table("slowest with Helm", &all[..rows.min(all.len())]);
    println!("{summary}");
}
