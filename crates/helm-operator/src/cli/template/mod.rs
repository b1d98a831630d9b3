//! `template`: prints what `helm template` prints, from the same arguments. Counterpart: Helm's `pkg/cmd/template.go`.
//!
//! Standard output and error messages are Helm's. Only `--validate` and `--dry-run=server` start a runtime or look for
//! a cluster. `--watches-file` adds what the operator adds.

mod args;
pub(super) mod cluster;
mod comma_list;
mod excerpt;
#[cfg(test)]
mod tests;
mod usage;
mod watch;

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use controller::report::chain;
use golibs::shorten::{MAX_MESSAGE, shorten};
use helm::chart::Chart;
use helm::template::{Error, Options, Output};

use super::kubeconfig::ClusterFlags;
use super::rendered;
use crate::plan::diff::Colour;
use crate::watches::Watch;

/// The flags of `template`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Template {
    #[command(flatten)]
    options: Options,

    /// The kubeconfig, for --validate and --dry-run=server
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// The kubeconfig's context
    #[arg(long, value_name = "NAME")]
    kube_context: Option<String>,

    /// Add what an entry of this watches file adds: override values, patches, commonLabels and commonAnnotations
    #[arg(long, value_name = "PATH")]
    watches_file: Option<PathBuf>,

    /// The kind of that entry; needed if not exactly one has this chart
    #[arg(long, requires = "watches_file", value_name = "KIND")]
    kind: Option<String>,
}

/// The exit code when the reader closes the pipe, as `head` does. It is the code that a shell reports for Helm, which
/// is killed by the signal.
const NO_READER: u8 = 141;

/// Returns the examples at the end of the help.
pub(super) fn examples(name: &str) -> String {
    format!(
        "Examples:\n  # As 'helm template', for a check: diff <(helm template rel ./chart) <({name} template rel ./chart)\n  \
         {name} template rel ./chart\n\n  # With values, for a namespace and a version of Kubernetes\n  \
         {name} template rel ./chart -f values.yaml --set image.tag=1.2 -n demo --kube-version 1.36\n\n  # One template's output\n  \
         {name} template rel ./chart --show-only templates/deployment.yaml\n\n  # With the cluster's capabilities and objects, each result \
         checked by its API server\n  {name} template rel ./chart --validate\n\n  # As the operator would apply it: override values, \
         patches, labels and annotations of watches.yaml\n  {name} template rel ./chart --watches-file watches.yaml\n\n\
         An error in a template is followed by an excerpt of the template where standard error is a terminal, or with --debug."
    )
}

/// Turns Helm's command line into one for the parser of [`Template`], and prints Helm's warnings to standard error.
///
/// # Errors
/// The exit code, after the error was printed.
pub(super) fn plain_args(given: &[String], name: &str) -> Result<Vec<String>, ExitCode> {
    let read = args::read(given, name, |variable| std::env::var(variable).ok().filter(|value| !value.is_empty()));
    let warnings = match &read {
        Ok(line) => &line.warnings,
        Err((warnings, _)) => warnings,
    };
    warnings.iter().for_each(|warning| complain(warning));
    match read {
        Ok(mut line) => {
            line.default_namespace(cluster::namespace);
            Ok(line.plain())
        }
        Err((_, error)) => {
            complain(&format!("Error: {error}"));
            Err(ExitCode::FAILURE)
        }
    }
}

/// Renders and prints.
pub(super) fn run(template: &Template) -> ExitCode {
    match template.output() {
        Ok(output) => template.print(output),
        Err(error) => template.fail(&error.to_string(), Some(&error)),
    }
}

impl Template {
    fn output(&self) -> Result<Output, Error> {
        let options = &self.options;
        let watch = self.watch()?;
        let over = |values| match &watch {
            Some(watch) => watch.overrides.over(values).map_err(|error| chain(&error)),
            None => Ok(values),
        };
        let decorated = |rendered| match &watch {
            Some(watch) => rendered::decorated(watch, rendered, &options.namespace).map_err(Error::Caller),
            None => Ok(rendered),
        };
        if options.wants_cluster() {
            let flags = ClusterFlags { kubeconfig: self.kubeconfig.clone(), context: self.kube_context.clone() };
            return cluster::output(options, &flags, over, decorated);
        }
        let (rendered, warnings) = options.render_over(None, over)?;
        let rendered = match rendered {
            Ok(rendered) => Ok(decorated(rendered)?),
            failed => failed,
        };
        options.output(rendered, warnings)
    }

    /// Returns the entry of the watches file that adds something.
    fn watch(&self) -> Result<Option<Watch>, Error> {
        let Some(file) = &self.watches_file else { return Ok(None) };
        let chart = self.options.name_and_chart.last().map_or("", String::as_str);
        watch::entry(file, self.kind.as_deref(), chart).map(Some)
    }

    fn print(&self, output: Output) -> ExitCode {
        for warning in &output.warnings {
            complain(warning);
        }
        let mut stdout = std::io::stdout().lock();
        if let Err(error) = stdout.write_all(&output.text).and_then(|()| stdout.flush()) {
            if error.kind() == ErrorKind::BrokenPipe {
                return ExitCode::from(NO_READER);
            }
            return self.fail(&format!("cannot write the output: {error}"), None);
        }
        match output.failed {
            Some(error) => self.fail(&error.to_string(), Some(&error)),
            None => ExitCode::SUCCESS,
        }
    }

    fn fail(&self, text: &str, error: Option<&Error>) -> ExitCode {
        complain(&format!("Error: {}", shorten(text, MAX_MESSAGE)));
        if std::io::stderr().is_terminal() || self.options.debug {
            let colour = Colour::of(&std::io::stderr());
            if let Some(excerpt) = error.and_then(|error| self.excerpt(error, colour)) {
                complain(&format!("\n{excerpt}"));
            }
        }
        ExitCode::FAILURE
    }

    /// Loads the chart again, so that only errors pay for the excerpt.
    fn excerpt(&self, error: &Error, colour: Colour) -> Option<String> {
        let error = error.in_template()?;
        let chart = Chart::load(Path::new(self.options.name_and_chart.last()?.trim())).ok()?;
        let source = |name: &str| chart.template(name).map(|text| text.to_text().into_owned());
        excerpt::of(error.places(), &source, colour)
    }
}

/// Prints a line to standard error. A missing reader does not matter.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
