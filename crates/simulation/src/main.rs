//! Plays seeds: one with `--seed`, as many as fit with `--minutes`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use simulation::repeated::Repeated;
use simulation::run::{Report, play, play_printed};
use simulation::script::Script;
use simulation::shrink::shrink;

/// Plays random scripts against whole managers.
#[derive(Parser)]
struct Args {
    /// Plays this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Plays the script in this file, as a failure prints it.
    #[arg(long)]
    script: Option<std::path::PathBuf>,
    /// Plays the actions of the script in this file at other times, with new seeds.
    #[arg(long, conflicts_with_all = ["seed", "script", "twice"])]
    near: Option<std::path::PathBuf>,
    /// How many minutes to play new seeds.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// The first of the new seeds.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// How many seeds are played at a time.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Ends with the first seed that fails, and sums up in one line what that took.
    #[arg(long)]
    until_failure: bool,
    /// Plays each new seed again after some others, and fails where it takes another course.
    #[arg(long)]
    twice: bool,
    /// Prints every step.
    #[arg(long)]
    trace: bool,
    /// Prints the log of the operator from this level on.
    #[arg(long)]
    log: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.log {
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::DEBUG).init();
    }
    match play_all(&args) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Plays the requested scripts; returns whether any failed.
fn play_all(args: &Args) -> anyhow::Result<bool> {
    let read = |file| anyhow::Ok(Script::read(&std::fs::read_to_string(file)?)?);
    match (&args.script, args.seed, &args.near) {
        (Some(file), _, _) => Ok(one(&read(file)?, args.trace)),
        (None, Some(seed), _) => Ok(one(&Script::of(seed), args.trace)),
        (None, None, _) if args.twice => Ok(twice(args)),
        (None, None, Some(file)) => {
            let script = read(file)?;
            Ok(many(args, |seed| script.near(seed)))
        }
        (None, None, None) => Ok(many(args, Script::of)),
    }
}

/// Plays new seeds twice on one thread; returns whether any took another course.
fn twice(args: &Args) -> bool {
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(args.minutes * 60.0));
    let (mut repeated, mut differences) = (Repeated::starting(args.from), 0);
    while began.elapsed() < limit {
        if let Some(difference) = repeated.play() {
            eprintln!("{difference}");
            differences += 1;
        }
    }
    eprintln!("{} seeds played twice, {differences} of them differently", repeated.count());
    differences > 0
}

fn one(script: &Script, trace: bool) -> bool {
    let report = if trace { play_printed(script) } else { play(script) };
    if trace {
        print(script, &report)
    } else {
        tell(script, &report)
    }
    report.violation.is_some()
}

/// Prints how a run ended; for a failed one, prints a shrunk script.
fn tell(script: &Script, report: &Report) {
    let (script, report) = shrink(script, report);
    print(&script, &report);
}

fn print(script: &Script, report: &Report) {
    let Some(violation) = &report.violation else {
        eprintln!(
            "seed {}: {} steps, {:.0} s, hash {:016x}",
            script.seed,
            report.steps.0,
            report.simulated.as_secs_f64(),
            report.steps.1
        );
        return;
    };
    eprintln!("{script}FAILED at {:.3} s: {}", violation.at.as_secs_f64(), violation.what);
}

/// The totals of the seeds so far.
#[derive(Default)]
struct Played {
    seeds: AtomicU64,
    steps: AtomicU64,
    failures: AtomicU64,
    /// For how many tens of minutes the totals were printed.
    told: AtomicU64,
}

impl Played {
    /// Prints the totals every ten minutes.
    fn tell_progress(&self, began: Instant) {
        let tens = began.elapsed().as_secs() / 600;
        if self.told.fetch_max(tens, Ordering::Relaxed) < tens {
            let (seeds, steps) = (self.seeds.load(Ordering::Relaxed), self.steps.load(Ordering::Relaxed));
            eprintln!(
                "{seeds} seeds, {steps} steps, {} failed in {tens}0 minutes",
                self.failures.load(Ordering::Relaxed)
            );
        }
    }
}

fn many(args: &Args, script: impl Fn(u64) -> Script + Sync) -> bool {
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(args.minutes * 60.0));
    let (next, played) = (AtomicU64::new(args.from), Played::default());
    let is_over = || began.elapsed() >= limit || (args.until_failure && played.failures.load(Ordering::Relaxed) > 0);
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| {
                while !is_over() {
                    let script = script(next.fetch_add(1, Ordering::Relaxed));
                    let report = play(&script);
                    let seeds = played.seeds.fetch_add(1, Ordering::Relaxed) + 1;
                    let steps = played.steps.fetch_add(report.steps.0, Ordering::Relaxed) + report.steps.0;
                    if !args.until_failure {
                        played.tell_progress(began);
                    }
                    if report.violation.is_none() {
                        continue;
                    }
                    let is_first = played.failures.fetch_add(1, Ordering::Relaxed) == 0;
                    match (args.until_failure, is_first) {
                        (false, _) => tell(&script, &report),
                        (true, true) => sum_up(seeds, steps, shrink(&script, &report)),
                        (true, false) => {}
                    }
                }
            });
        }
    });
    let Played { seeds, steps, failures, .. } = played;
    let (seeds, steps, failures) = (seeds.into_inner(), steps.into_inner(), failures.into_inner());
    if args.until_failure {
        if failures == 0 {
            print_line(&format!("{seeds:>8} {steps:>8}  nothing found"));
        }
        return failures > 0;
    }
    let minute = steps as f64 / began.elapsed().as_secs_f64() * 60.0;
    eprintln!("{seeds} seeds, {steps} steps, {minute:.0} a minute, {failures} failed");
    failures > 0
}

/// Prints one line with the effort until the first failure, and the violation.
fn sum_up(seeds: u64, steps: u64, (script, report): (Script, Report)) {
    let what = report.violation.map(|violation| violation.what).unwrap_or_default();
    print_line(&format!("{seeds:>8} {steps:>8}  {what} ({})", script.steps.len()));
}

#[allow(clippy::print_stdout)] // The program's output.
fn print_line(text: &str) {
    println!("{text}");
}
