//! `generate`: rewrites the files that follow from charts, watches.yaml and code.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use clap::{Args, Subcommand};
use scaffold::webhooks::{self, Webhooks};
use scaffold::{Existing, Project, bundle, crd, disk, helm_chart, policies, rbac, ring};

use super::{Error, FOLDER, edit, progress, read};
use crate::manager::Operator;

/// What to generate.
#[derive(Args, Clone, Debug)]
pub(crate) struct Generate {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Writes config/crd from the charts' values and from the program's own types
    Crds(Options),
    /// Writes the operator's role for each chart from all that the chart can render, and for each reconciler from its rights
    Rbac(Options),
    /// Writes ValidatingAdmissionPolicies to config/policies, which hold resources and the operator to watches.yaml
    Policies(Options),
    /// Writes a ControllerRing of all kinds to config/sharding, and the sharder's rights, for processes with --controller-ring
    Ring(Options),
    /// Writes config/webhook, and the rights that the program's webhooks need
    Webhooks(Options),
    /// Writes a chart that installs the operator to dist/chart, from config
    HelmChart(Options),
    /// Writes an OLM bundle to bundle, from the manifests on standard input
    #[command(
        after_help = "Example:\n  kubectl kustomize config/default | helm-operator generate bundle --version 0.0.1"
    )]
    Bundle(Bundle),
}

/// The flags of `generate bundle`: operator-sdk's.
#[derive(Args, Clone, Debug)]
struct Bundle {
    /// The operator's version
    #[arg(long, default_value = "0.0.1", value_name = "VERSION")]
    version: String,

    /// The channels that offer this version
    #[arg(long, default_value = "alpha", value_delimiter = ',', value_name = "CHANNELS")]
    channels: Vec<String>,

    /// The channel for those who choose none
    #[arg(long, value_name = "CHANNEL")]
    default_channel: Option<String>,

    /// The package's name [default: the project's]
    #[arg(long, value_name = "NAME")]
    package: Option<String>,

    /// Replace the bundle's metadata and Dockerfile if they exist [default: true]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    overwrite: Option<bool>,

    /// Accepted for old scripts and ignored
    #[arg(short, long, hide = true)]
    quiet: bool,
}

impl From<&Bundle> for bundle::Options {
    fn from(flags: &Bundle) -> bundle::Options {
        bundle::Options {
            version: flags.version.trim_start_matches('v').to_owned(),
            channels: flags.channels.clone(),
            default_channel: flags.default_channel.clone(),
            package: flags.package.clone(),
            metadata: if flags.overwrite == Some(false) { Existing::Keep } else { Existing::Replace },
        }
    }
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

impl Options {
    fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

/// Runs the command. `operator` describes the program's own kinds.
pub(super) fn run(args: &Generate, operator: &Operator) -> Result<(), Error> {
    match &args.what {
        What::Crds(options) => {
            let mut own = operator.definitions().map_err(|error| Error::Kinds(Box::new(error)))?;
            write("crds", options, |project| {
                if !operator.webhooks.converted_definitions().is_empty() {
                    operator.convert_at(&webhooks::service(project)?, &mut own);
                }
                crd::generate(project, &own, options.existing())
            })
        }
        What::Rbac(options) => {
            write("rbac", options, |project| rbac::generate(project, &operator.natives, options.existing()))
        }
        What::Policies(options) => {
            write("policies", options, |project| policies::generate(project, options.existing()))
        }
        What::Ring(options) => {
            write("ring", options, |project| ring::generate(project, &operator.natives, options.existing()))
        }
        What::Webhooks(options) => {
            let own = Webhooks {
                has_admission: operator.webhooks.has_admission(),
                definitions: operator.webhooks.converted_definitions(),
            };
            write("webhooks", options, |project| webhooks::generate(project, &own, options.existing()))
        }
        What::HelmChart(options) => write("helm-chart", options, |project| {
            disk::read_built(Path::new(FOLDER), helm_chart::FOLDER, project)?;
            helm_chart::generate(project, options.existing())
        }),
        What::Bundle(flags) => bundle(flags),
    }
}

/// Runs the generator, or checks that it would change nothing.
fn write(
    name: &'static str,
    options: &Options,
    work: impl FnOnce(&mut Project) -> Result<Vec<String>, scaffold::Error>,
) -> Result<(), Error> {
    if options.check { check(name, work) } else { edit(|project| Ok(work(project)?)) }
}

/// Writes the bundle of the manifests on standard input.
fn bundle(flags: &Bundle) -> Result<(), Error> {
    if io::stdin().is_terminal() {
        return Err(Error::NoManifests);
    }
    let mut manifests = String::new();
    io::stdin().read_to_string(&mut manifests)?;
    edit(|project| Ok(bundle::generate(project, &manifests, &flags.into())?))
}

/// Fails if the generator would change a file.
fn check(
    name: &'static str,
    work: impl FnOnce(&mut Project) -> Result<Vec<String>, scaffold::Error>,
) -> Result<(), Error> {
    let mut project = read(Path::new(FOLDER))?;
    let shown = progress::show(&mut project);
    work(&mut project)?;
    drop(shown);
    let stale: Vec<&str> = project.changes().map(|(path, _)| path).collect();
    if stale.is_empty() { Ok(()) } else { Err(Error::Stale(format!("not up to date: {}", stale.join(", ")), name)) }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        bundle: Bundle,
    }

    #[test]
    fn overwrite_decides_about_a_bundles_metadata_as_in_operator_sdk() {
        for (line, expected) in [
            ("bundle", Existing::Replace),
            ("bundle -q --overwrite", Existing::Replace),
            ("bundle --overwrite=false", Existing::Keep),
        ] {
            let line = Line::try_parse_from(line.split_whitespace()).unwrap();
            assert_eq!(bundle::Options::from(&line.bundle).metadata, expected, "{line:?}");
        }
    }
}
