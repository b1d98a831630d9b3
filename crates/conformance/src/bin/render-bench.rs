//! Measures renders per second of a chart on one core, loaded once: the counterpart of `tools/peers/helm-engine` for
//! Helm's engine.
//!
//! `render-bench SECONDS CHART [VALUES]...` prints one line of JSON. One render resolves subcharts, merges and
//! validates values, and runs every template.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use go_template::Map;
use helm::chart::Chart;
use helm::engine::{Capabilities, Engine, KubeVersion, ReleaseOptions};
use helm::values;
use helm::view::{self, Nulls};

/// The operator's allocator.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    // Like the operator, render on a separate thread: musl does not report how much of the main thread's stack is left.
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(bench)?;
    thread.join().unwrap_or_else(|_| anyhow::bail!("rendering panicked"))
}

fn bench() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, chart, files @ ..] = args.as_slice() else {
        anyhow::bail!("usage: render-bench SECONDS CHART [VALUES]...");
    };
    let seconds: f64 = seconds.parse().context("SECONDS is not a number")?;
    let engine = Engine::new(Chart::load(Path::new(chart))?);
    let mut user = Map::default();
    for file in files {
        let table = values::read(&std::fs::read(file)?).map_err(anyhow::Error::msg)?;
        user = values::merge_maps(&user, &table);
    }
    report(&engine, &user, seconds)
}

#[allow(clippy::print_stdout)] // The program's output.
fn report(engine: &Engine, user: &Map, seconds: f64) -> anyhow::Result<()> {
    // Built once, as in the operator.
    let kube = KubeVersion::bare("v1.36.0", "1", "36");
    let capabilities = Capabilities::new(kube, helm::engine::DEFAULT_API_VERSIONS.iter().copied());
    let bytes = render(engine, user, &capabilities)?;
    let start = Instant::now();
    let mut renders = 0_u32;
    while start.elapsed().as_secs_f64() < seconds {
        render(engine, user, &capabilities)?;
        renders += 1;
    }
    let took = start.elapsed().as_secs_f64();
    let (rate, each) = (f64::from(renders) / took, took * 1000.0 / f64::from(renders));
    println!("{{\"renders\":{renders},\"per_second\":{rate:.1},\"ms_each\":{each:.3},\"bytes\":{bytes}}}");
    Ok(())
}

fn render(engine: &Engine, user: &Map, capabilities: &Capabilities) -> anyhow::Result<usize> {
    let view = engine.resolve(user, &mut Vec::new())?;
    let merged = view::coalesce(&view, user, Nulls::Remove, &mut Vec::new())?;
    view::validate(&view, &merged)?;
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let files = engine.execute(&view, &merged, &release, capabilities, None)?;
    Ok(files.iter().map(|(_, output)| output.len()).sum())
}
