//! `generate`: rewrites what follows from charts, watches.yaml and code.

use std::path::Path;

use clap::{Args, Subcommand};
use scaffold::{Project, crd, disk, helm_chart, rbac};
use serde_json::Value;

use super::{Error, FOLDER, edit};

/// What to generate.
#[derive(Args, Clone, Debug)]
pub(crate) struct Generate {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum What {
    /// Writes config/crd from the charts' values and from the program's own types
    Crds(Options),
    /// Writes the operator's role for each chart from all that the chart can render
    Rbac(Options),
    /// Writes a chart that installs the operator to dist/chart, from config
    HelmChart,
}

/// What all generators take.
#[derive(Args, Clone, Copy, Debug)]
struct Options {
    /// Write nothing; fail if a file is not up to date
    #[arg(long)]
    check: bool,

    /// Replace files that were not generated, too
    #[arg(long)]
    force: bool,
}

/// Runs the command. `natives` are the definitions of the program's own kinds.
pub(super) fn run(args: &Generate, natives: &[Value]) -> Result<(), Error> {
    match args.what {
        What::Crds(options) => write("crds", options, |project| crd::generate(project, natives, options.force)),
        What::Rbac(options) => write("rbac", options, |project| rbac::generate(project, options.force)),
        What::HelmChart => edit(|project| Ok(helm_chart::generate(project)?)),
    }
}

/// Runs the generator, or checks that it would change nothing.
fn write(
    name: &'static str,
    options: Options,
    work: impl FnOnce(&mut Project) -> Result<Vec<String>, scaffold::Error>,
) -> Result<(), Error> {
    if options.check { check(name, work) } else { edit(|project| Ok(work(project)?)) }
}

/// Fails if the generator would change a file.
fn check(
    name: &'static str,
    work: impl FnOnce(&mut Project) -> Result<Vec<String>, scaffold::Error>,
) -> Result<(), Error> {
    let mut project = disk::read(Path::new(FOLDER))?;
    work(&mut project)?;
    let stale: Vec<&str> = project.changes().map(|(path, _)| path).collect();
    if stale.is_empty() { Ok(()) } else { Err(Error::Stale(format!("not up to date: {}", stale.join(", ")), name)) }
}
