//! `status`, `get` and `history`: show releases with the rights of the person who asks. They write
//! nothing, and need no operator.

mod ask;
mod read;
mod records;
#[cfg(test)]
mod tests;
mod watch;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use controller::report::chain;
use tokio::runtime::Builder;

use super::flags::WATCHES_FILE;
use super::kubeconfig::ClusterFlags;
use crate::terminal::plain;
use ask::Asked;
use watch::Screen;

/// The exit code if what was asked for is not ready.
const NOT_READY: u8 = 3;

/// The flags that all of these commands share.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Target {
    /// The namespace [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// How to print the answer
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,

    /// Path to the watches file, which names the kinds and where their releases are recorded
    #[arg(long, default_value = WATCHES_FILE, value_name = "PATH")]
    watches_file: PathBuf,

    #[command(flatten)]
    cluster: ClusterFlags,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// The arguments of `status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Status {
    /// The resource: NAME if watches.yaml says which kinds there are, KIND NAME or KIND/NAME otherwise. Without one, all
    /// kinds of watches.yaml with how many of each are ready
    #[arg(value_name = "KIND NAME", num_args = 0..=2)]
    what: Vec<String>,

    /// Show it again whenever it changes
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    target: Target,
}

/// The arguments of `get`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Get {
    /// The kind, its plural name, or that with the group
    kind: String,

    /// In every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    #[command(flatten)]
    target: Target,
}

/// The arguments of `history`.
#[derive(Args, Clone, Debug)]
pub(crate) struct History {
    /// The resource, as for status
    #[arg(value_name = "KIND NAME", num_args = 1..=2, required = true)]
    what: Vec<String>,

    /// How many revisions to show
    #[arg(long, default_value = "10", value_name = "N")]
    max: usize,

    /// Show what a revision changed, or what differs between two: their recorded manifests and hooks
    #[arg(long, num_args = 1..=2, value_name = "REVISION")]
    diff: Vec<u32>,

    #[command(flatten)]
    target: Target,
}

/// An answer, as printed, and whether what was asked for is ready.
struct Answer {
    text: String,
    is_ready: bool,
}

/// Returns the examples at the end of the help of `status`.
pub(super) fn examples(name: &str) -> String {
    format!(
        "Examples:\n  # Why a resource is not ready, in the first line\n  {name} status memcached web -n demo\n\n  # All kinds of watches.yaml\n  \
         {name} status\n\n  # Again whenever something changes, until Ctrl-C\n  {name} status memcached web -n demo --watch\n\n\
         Exit codes: 0 ready, {NOT_READY} not ready, 1 the answer could not be read."
    )
}

/// Shows one resource, or all kinds.
pub(super) fn status(asked: Status) -> ExitCode {
    let Status { what, watch: watches, target } = asked;
    run(target.clone(), async move |asked: &Asked| {
        if !watches {
            return asked.status(&what).await;
        }
        let is_text = target.output == Output::Text;
        let size = || watch::size().filter(|_| is_text);
        let (mut out, mut errors) = (std::io::stdout(), std::io::stderr());
        let mut screen = Screen { out: &mut out, errors: &mut errors, size: &size };
        match watch::watch(async || asked.status(&what).await, &mut screen).await? {}
    })
}

/// Lists the resources of a kind.
pub(super) fn get(asked: Get) -> ExitCode {
    run(asked.target.clone(), async move |to: &Asked| to.get(&asked).await)
}

/// Lists the revisions of a release.
pub(super) fn history(asked: History) -> ExitCode {
    run(asked.target.clone(), async move |to: &Asked| match asked.diff[..] {
        [] => to.history(&asked.what, asked.max).await,
        [revision] => to.differences(&asked.what, [revision.saturating_sub(1), revision]).await,
        [from, to_revision, ..] => to.differences(&asked.what, [from, to_revision]).await,
    })
}

fn run(target: Target, ask: impl AsyncFnOnce(&Asked) -> Result<Answer, String>) -> ExitCode {
    let answered =
        Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string()).and_then(|runtime| {
            runtime.block_on(async {
                let config = target.cluster.configuration().await?;
                let namespace = target.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
                let client = kube::Client::try_from(config).map_err(|error| chain(&error))?;
                ask(&Asked::new(Arc::new(client), namespace, &target)?).await
            })
        });
    match answered.and_then(|answer| show(&answer.text).map(|()| answer.is_ready)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NOT_READY),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "Error: {}", plain(&error));
            ExitCode::FAILURE
        }
    }
}

fn show(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed_to_write)
}

fn failed_to_write(error: std::io::Error) -> String {
    format!("cannot write the answer: {error}")
}
