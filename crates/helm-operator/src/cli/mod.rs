//! The command line of operators built on this library: `run`, `template`, `values`, `version`, and the commands that write
//! projects.
//!
//! Counterpart: operator-sdk's `internal/cmd/helm-operator`.

mod complete;
mod dag;
mod diff;
mod flags;
mod inspect;
mod kubeconfig;
mod project;
mod reload;
mod rendered;
mod rollback;
mod shell;
mod successors;
mod template;
#[cfg(test)]
mod tests;
mod values;
mod version;

use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use controller::manager::Threads;
use controller::report::chain;
use controller::traces::Traces;

use tokio_util::sync::CancellationToken;

use crate::manager::operator::Operator;
use crate::terminal::plain_lines;
use crate::{manager, rendering, telemetry};
use reload::Reload;

pub(crate) use flags::Run;
pub(crate) use template::Template;

/// The stack size of the thread that `template` renders on, in bytes: Linux's default for a main thread.
const STACK: usize = 8 << 20;

/// Kubernetes operator: serves the charts in watches.yaml, and controllers that the program adds in Rust
#[derive(Debug, Parser)]
#[command(disable_version_flag = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the operator
    Run(Box<Run>),
    /// Renders a chart as 'helm template' does
    Template(Box<Template>),
    /// Prints the order that a chart asks for its objects
    Dag(dag::Dag),
    /// Shows what the operator would change for resources, without changing it
    Diff(Box<diff::Diff>),
    /// Shows a resource's values, each with its origin
    Values(Box<values::Args>),
    /// Shows why a release is not ready, its objects, and what is next
    Status(Box<inspect::Status>),
    /// Lists the releases of a kind, the worst first
    Get(Box<inspect::Get>),
    /// Lists the revisions of a release, each with its cause
    History(Box<inspect::History>),
    /// Returns a release to a revision, and keeps it there
    Rollback(Box<rollback::Rollback>),
    /// Prints the version
    Version,
    /// Starts a project in the current folder
    Init(Box<project::Init>),
    /// Adds a kind to the project in the current folder
    Create(project::Create),
    /// Writes CRDs and roles from charts and code
    Generate(project::Generate),
    /// Names what would fail in the cluster, with file and line
    Lint(project::Lint),
    /// Prints the script that completes commands in a shell
    Completion(shell::Completion),
    /// Writes manual pages
    Man(shell::Man),
    /// Renders charts for the operator that starts it
    #[command(hide = true)]
    RenderWorker,
}

impl Operator {
    /// Runs the whole program: parses the arguments, starts logging, and serves everything until a signal. Returns the
    /// exit code: 0 after an orderly shutdown, 1 after an error, which is logged with its causes. The program's name is
    /// the file name of the first argument.
    ///
    /// The default `./watches.yaml` need not exist if the program adds charts or controllers itself.
    pub fn main(self) -> ExitCode {
        main(self)
    }
}

/// Runs a whole program: see [`Operator::main`].
fn main(operator: Operator) -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let name =
        args.first().and_then(|a| std::path::Path::new(a).file_name()?.to_str()).unwrap_or("helm-operator").to_owned();
    if complete::answer(&name) {
        return ExitCode::SUCCESS;
    }
    let args = match with_plain_template(with_run(args), &name) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let parsed = command(&name).try_get_matches_from(args.clone()).and_then(|m| Cli::from_arg_matches(&m));
    match parsed {
        Ok(cli) => dispatch(&name, cli, operator),
        Err(error) => refuse(&args, &error),
    }
}

/// Prints why the arguments are invalid, or the successor of operator-sdk's command.
fn refuse(args: &[std::ffi::OsString], error: &clap::Error) -> ExitCode {
    let words: Vec<_> = args.iter().skip(1).filter_map(|word| word.to_str()).collect();
    match successors::of(&words).filter(|_| error.kind() == ErrorKind::InvalidSubcommand) {
        Some(today) => eprintln!("Error: '{}' is a command of operator-sdk; here it is {today}", words.join(" ")),
        None => drop(error.print()),
    }
    ExitCode::from(u8::from(error.use_stderr()))
}

/// Returns the command line for a program with this name, for help and tests.
pub(crate) fn command(name: &str) -> clap::Command {
    let examples = format!(
        "Examples:\n  # Against the current kubeconfig, every namespace\n  {name} run\n\n  # One namespace, readable logs\n  \
         WATCH_NAMESPACE=demo {name} run --zap-devel\n\n  # As one of several replicas in a cluster\n  \
         {name} run --leader-elect --leader-election-id=my-operator"
    );
    complete::completing(Cli::command())
        .bin_name(name)
        .after_help(examples.clone())
        .mut_subcommand("run", |run| as_in_go(run).after_help(examples))
        .mut_subcommand("init", as_in_go)
        .mut_subcommand("diff", |diff| diff.after_help(diff::examples(name)))
        .mut_subcommand("rollback", |rollback| rollback.after_help(rollback::examples(name)))
        .mut_subcommand("status", |status| status.after_help(inspect::examples(name)))
        .mut_subcommand("template", |t| as_in_go(t).after_help(template::examples(name)))
        .mut_subcommand("values", |v| v.after_help(values::examples(name)))
}

fn as_in_go(command: clap::Command) -> clap::Command {
    command.mut_args(flags::as_in_go).args_override_self(true)
}

/// Inserts the command `run` before flags without a command, as in old deployments.
fn with_run(mut args: Vec<std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let first = args.get(1).and_then(|a| a.to_str()).unwrap_or_default();
    if first.starts_with("--") && first != "--help" {
        args.insert(1, "run".into());
    }
    args
}

/// Returns the arguments of `template`, parsed as Helm parses them.
fn with_plain_template(args: Vec<std::ffi::OsString>, name: &str) -> Result<Vec<std::ffi::OsString>, ExitCode> {
    let [program, command, rest @ ..] = args.as_slice() else { return Ok(args) };
    if command != "template" {
        return Ok(args);
    }
    let rest: Vec<String> = rest.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let plain = template::plain_args(&rest, name)?.into_iter().map(Into::into);
    Ok([program.clone(), command.clone()].into_iter().chain(plain).collect())
}

fn dispatch(name: &str, cli: Cli, operator: Operator) -> ExitCode {
    match cli.command {
        Command::Version => print(&version::line(name)),
        Command::Status(asked) => inspect::status(*asked),
        Command::Get(asked) => inspect::get(*asked),
        Command::History(asked) => inspect::history(*asked),
        Command::Rollback(asked) => on_known_stack(move || rollback::run(&asked, operator)),
        Command::Completion(asked) => shell::completion(name, &asked),
        Command::Man(asked) => shell::man(name.to_owned().leak(), &asked),
        Command::Template(template) => on_known_stack(move || template::run(&template)),
        Command::Dag(asked) => on_known_stack(move || dag::run(&asked)),
        Command::Diff(asked) => on_known_stack(move || diff::run(&asked, operator)),
        Command::Values(args) => on_known_stack(move || values::run(&args, &operator)),
        Command::Run(flags) => run(*flags, operator),
        Command::RenderWorker => on_known_stack(rendering::worker::main),
        Command::Init(init) => on_known_stack(move || project::init(&init)),
        Command::Create(create) => on_known_stack(move || project::create(&create)),
        Command::Lint(lint) => on_known_stack(move || project::lint(&lint, &operator.natives)),
        Command::Generate(generate) => on_known_stack(move || project::generate(&generate, &operator)),
    }
}

/// Runs work on a thread with a known stack size, under musl. Rendering asks for the remaining stack, which musl cannot
/// determine for the main thread, so that each question would cost a new stack. Elsewhere a thread would only cost its
/// start and its heap, which glibc grows page by page.
fn on_known_stack(work: impl FnOnce() -> ExitCode + Send + 'static) -> ExitCode {
    if !cfg!(target_env = "musl") {
        return work();
    }
    match std::thread::Builder::new().stack_size(STACK).spawn(work) {
        Ok(thread) => thread.join().unwrap_or(ExitCode::FAILURE),
        Err(error) => {
            eprintln!("Error: no thread to render on: {error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "the command's answer")]
fn print(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

/// Prints an error, and returns the exit code for it.
fn fail(why: &str) -> ExitCode {
    print_error(why);
    ExitCode::FAILURE
}

/// Prints an error, which may quote a chart or an object of the cluster.
fn print_error(why: &str) {
    eprintln!("Error: {}", plain_lines(why));
}

fn run(flags: Run, operator: Operator) -> ExitCode {
    let traces = traces(&flags);
    telemetry::init_with(flags.telemetry().or(operator.log), traces.as_ref().ok().and_then(Option::as_ref));
    version::log();
    if let Err(error) = manager::secrecy::keep_memory() {
        tracing::warn!(logger = "cmd", %error, "A crash may write this process's memory to a file");
    }
    for warning in flags.warnings() {
        tracing::warn!(logger = "cmd", "{warning}");
    }
    let (traces, result) = match traces {
        Ok(traces) => (traces, start(flags, operator)),
        Err(error) => (None, Err(error)),
    };
    if let Some(traces) = traces {
        traces.finish();
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(logger = "cmd", error = chain(&*error), "Manager exited non-zero");
            ExitCode::FAILURE
        }
    }
}

fn traces(flags: &Run) -> Result<Option<Traces>, Box<dyn std::error::Error>> {
    let program = manager::Config::default().process.program;
    Ok(flags.traces()?.map(|settings| Traces::new(&settings, &program)).transpose()?)
}

fn start(flags: Run, operator: Operator) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = flags.config(|name| std::env::var(name).ok())?;
    if flags.reload && flags.shutdown_grace.is_none() {
        config.process.shutdown_grace = RELOAD_GRACE;
    }
    let (reloads, file) = (flags.reload, flags.watches_file.clone());
    if reloads {
        reload::wait_for_git(&file);
    }
    let manager = with_watches(operator, &flags)?.manager(config);
    let threads = Threads::start()?;
    let manager = manager.controllers_on(threads.workers().clone());
    let stop = CancellationToken::new();
    let previews = manager.previews.clone();
    let reload = reloads.then(|| Reload::start(&file, stop.clone(), previews)).transpose()?;
    let result: Result<(), manager::Error> = threads.run(manager.run_or_stop(stop));
    drop(threads);
    let reload = reload.filter(Reload::is_wanted);
    let starts_again = starts_again(result, reload.is_some())?;
    match reload.filter(|_| starts_again) {
        Some(reload) => Err(reload.start_again().into()),
        None => Ok(()),
    }
}

/// How long a saved chart waits for running reconciles. The new process continues what they leave.
const RELOAD_GRACE: Duration = Duration::from_secs(2);

/// Returns whether to restart the program. A hook that hangs must not end it, because the saved chart may be the fix
/// for just that hook.
fn starts_again(result: Result<(), manager::Error>, is_wanted: bool) -> Result<bool, manager::Error> {
    match result {
        Err(error @ manager::Error::Run(manager::RunError::Grace(_))) if is_wanted => {
            tracing::warn!("{error}: the restarted operator continues them");
            Ok(true)
        }
        result => result.map(|()| is_wanted),
    }
}

/// Adds the charts of the watches file. The default file may be missing if the program itself has something to run.
fn with_watches(operator: Operator, flags: &Run) -> Result<Operator, manager::Error> {
    let file = &flags.watches_file;
    if !operator.is_empty() && file == std::path::Path::new(flags::WATCHES_FILE) && !file.exists() {
        tracing::info!(file = %file.display(), "No watches file: serving only what the program adds");
        return Ok(operator);
    }
    operator.watches(file)
}
