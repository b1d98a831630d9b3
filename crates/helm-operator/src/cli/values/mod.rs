//! `values`: shows the values that a resource's release is rendered with, each with its origin.
//!
//! Reads the resource and its value sources with the caller's own rights, and writes nothing.

mod cluster;
mod json;
mod offline;
mod shown;
mod table;
#[cfg(test)]
mod tests;
mod text;
pub(super) mod watch;
mod yaml;

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use helm::chart::Chart;

use crate::manager::operator::Operator;
use crate::origins::rows::Row;
use crate::origins::{self, Inputs};
use crate::pull;
use crate::values_from::{Content, FoundSource, Resolved};
use crate::view::primary::Primary;
use crate::watches::Watch;
use shown::Shown;

use super::flags::WATCHES_FILE;
use super::kubeconfig::ClusterFlags;

/// The replacement of a value that may not be shown.
const HIDDEN: &str = "****";

/// The arguments of `values`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The custom resource's name, after its kind if watches.yaml has several
    #[arg(required_unless_present = "filename", num_args = 1..=2, value_names = ["KIND", "NAME"])]
    names: Vec<String>,

    /// Read the custom resource from a file, '-' for standard input; no cluster is asked
    #[arg(short, long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context"])]
    filename: Option<PathBuf>,

    /// The resource's namespace; default: that of the kubeconfig's context
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// The resource's kind; KIND.GROUP if groups share it
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// Path to the watches file
    #[arg(long, default_value = WATCHES_FILE, value_name = "PATH")]
    watches_file: PathBuf,

    /// The form of the output
    #[arg(short, long, default_value = "table", value_name = "FORM")]
    output: Form,

    /// Leave out values that are the charts' own defaults
    #[arg(long)]
    changed: bool,

    #[command(flatten)]
    cluster: ClusterFlags,
}

impl Args {
    fn name(&self) -> Option<&str> {
        self.names.last().map(String::as_str)
    }

    /// Returns the kind of the resource, given as a flag or before the name.
    fn kind(&self) -> Option<&str> {
        let before = (self.names.len() > 1).then(|| self.names.first()).flatten();
        self.kind.as_ref().or(before).map(String::as_str)
    }
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One line per value
    Table,
    /// The values, each line with its origin as a comment
    Yaml,
    /// Everything, for programs
    Json,
}

/// The reason why values cannot be shown. The messages never quote a value.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Watches(#[from] crate::watches::Error),
    #[error(transparent)]
    Watch(#[from] watch::Error),
    #[error(transparent)]
    File(#[from] offline::Error),
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    #[error(transparent)]
    Pull(#[from] pull::Error),
    #[error("cannot load chart {}", path.display())]
    Chart { path: PathBuf, source: helm::disk::ReadError },
    #[error(transparent)]
    Sources(#[from] crate::view::sources::named::Unnamed),
    #[error(transparent)]
    Values(#[from] origins::Error),
}

/// A resource with what its values come from.
struct Resource<'a> {
    watch: &'a Watch,
    primary: Primary,
    /// The value sources that could be read, lowest precedence first; `None` where an object or key is missing.
    sources: Vec<(Resolved, Option<Content>)>,
    /// What the reader must know, such as sources that could not be read.
    notes: Vec<String>,
}

/// Returns the examples at the end of the help.
pub(super) fn examples(name: &str) -> String {
    format!(
        "Examples:\n  # Which values has the release of the resource 'web', and where does each come from?\n  {name} values web -n shop\n\n  \
         # Only what differs from the charts' defaults\n  {name} values web -n shop --changed\n\n  \
         # As a values file, with the origin at the end of each line\n  {name} values web -n shop -o yaml\n\n  \
         # Before it is applied, without a cluster\n  {name} values -f web.yaml\n\n\
         Values of Secrets and of the operator's environment are shown as ****. A line with '!' is read by no template."
    )
}

/// Shows the values.
pub(super) fn run(args: &Args, operator: &Operator) -> ExitCode {
    match shown(args, operator) {
        Ok(shown) => {
            shown.notes.iter().for_each(|note| complain(&format!("Note: {}", text::printable(note))));
            print(&match args.output {
                Form::Table => table::of(&shown),
                Form::Yaml => yaml::of(&shown),
                Form::Json => json::of(&shown),
            })
        }
        Err(error) => {
            complain(&format!("Error: {}", text::printable(&controller::report::chain(&error))));
            ExitCode::FAILURE
        }
    }
}

fn shown(args: &Args, operator: &Operator) -> Result<Shown, Error> {
    let own: Vec<Watch> = operator.own_watches().cloned().collect();
    let watches = watch::all(&args.watches_file, own)?;
    let mut resource = match &args.filename {
        Some(path) => offline::read(path, args, &watches)?,
        None => cluster::read(args, &watches)?,
    };
    if operator.customises(resource.watch) {
        let note = "this program has code around the chart; what it changes in the values is not shown";
        resource.notes.push(note.to_owned());
    }
    of(resource, args.changed)
}

/// Traces a resource's values, and hides what may not be shown.
fn of(resource: Resource<'_>, only_changed: bool) -> Result<Shown, Error> {
    let Resource { watch, primary, sources, mut notes } = resource;
    let failed = |source| Error::Chart { path: watch.chart.clone(), source };
    let chart = Chart::load_with_lines(&pull::local(watch)?).map_err(failed)?;
    let found: Vec<FoundSource<'_>> = sources.iter().map(|(source, content)| found(source, content.as_ref())).collect();
    let overrides_type = watch.overrides.kind().unwrap_or_default();
    if watch.overrides.kind().is_none() && !watch.overrides.typed_keys().is_empty() {
        let note = "override values are shown with their type; in a release that operator-sdk made they stay strings, \
                    unless watches.yaml sets overrideValuesType";
        notes.push(note.to_owned());
    }
    let inputs = Inputs { sources: &found, spec: &primary.spec, overrides: &watch.overrides, overrides_type };
    let values = origins::values(&chart, &inputs)?;
    let mut shown = shown::of(&primary, &chart, &values, notes);
    if only_changed {
        shown.rows.retain(Row::is_changed);
    }
    Ok(shown)
}

fn found<'a>(source: &'a Resolved, content: Option<&'a Content>) -> FoundSource<'a> {
    FoundSource { source, bytes: content.and_then(|content| content.get(&source.values_key)) }
}

fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("Error: cannot write the output: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line to standard error. A missing reader does not matter.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
