//! Renders charts with random changes to their values, with Helm and with this engine, and prints the differences.
//!
//! `value-fuzz --helm PROGRAM DIR...` takes charts, folders of charts, and corpora (a directory with `cases.jsonl`).
//! Render number `n` of a run depends on the seed and `n` alone: `--seed S --first n --renders 1` repeats it.

mod change;
mod charts;
mod compare;
mod render;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use conformance::terminal::{print_line, progress};
use fastrand::Rng;

use crate::charts::Source;
use crate::compare::{Counts, Verdict};
use crate::render::Renderers;

/// Compares renders of randomly changed values with Helm's.
#[derive(Parser)]
#[command(after_help = "Example:\n  value-fuzz --helm target/cluster/bin/helm --renders 200 crates/conformance/own")]
struct Args {
    /// Charts, folders of charts, or corpora
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Helm's program
    #[arg(long, value_name = "PROGRAM")]
    helm: PathBuf,
    /// Seed of the run
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Number of the first render
    #[arg(long, value_name = "N", default_value = "0")]
    first: u64,
    /// How many renders to compare
    #[arg(long, value_name = "N", default_value = "1000")]
    renders: u64,
    /// Render each chart and case once, without changes, instead
    #[arg(long, conflicts_with_all = ["seed", "first", "renders"])]
    unchanged: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let sources = charts::find(&args.folders)?;
    anyhow::ensure!(!sources.is_empty(), "no chart found in {}", list(&args.folders));
    let renderers = Renderers::new(&args.helm)?;
    let mut counts = Counts::default();
    if args.unchanged {
        for (number, source) in sources.iter().enumerate() {
            progress(number as u64, sources.len() as u64, &source.name);
            let verdict = renderers.compare(source, None)?;
            say(&source.name, None, &verdict);
            counts.add(&verdict);
        }
    } else {
        for number in args.first..args.first + args.renders {
            progress(number - args.first, args.renders, "");
            compare_changed(&args, number, &sources, &renderers, &mut counts)?;
        }
    }
    print_line(&counts.to_string());
    Ok(if counts.different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares the render of this number.
fn compare_changed(
    args: &Args,
    number: u64,
    sources: &[Source],
    renderers: &Renderers,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    // Adjacent seeds must not share renders, so the seed is spread over all bits before the number is added.
    let mut rng = Rng::with_seed(args.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
    let source = rng.choice(sources).context("no chart")?;
    let overlay = change::overlay(&source.values, &mut rng);
    let verdict = renderers.compare(source, Some(&overlay))?;
    let repeat = format!("--seed {} --first {number} --renders 1\n      values: {overlay}", args.seed);
    say(&source.name, Some(&repeat), &verdict);
    counts.add(&verdict);
    Ok(())
}

/// Prints a difference; prints nothing for renders that agree.
fn say(name: &str, repeat: Option<&str>, verdict: &Verdict) {
    let (mark, helm, ours) = match verdict {
        Verdict::Different { helm, ours } => ("DIFF", helm, ours),
        Verdict::OtherError { helm, ours } => ("TEXT", helm, ours),
        Verdict::Same | Verdict::SameError | Verdict::Random => return,
    };
    print_line(&format!("{mark}  {name}  {}", repeat.unwrap_or("unchanged")));
    print_line(&format!("      helm: {helm}\n      ours: {ours}"));
}

fn list(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}
