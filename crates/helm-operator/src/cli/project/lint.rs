//! `lint`: reports what would fail in the cluster, with file and line.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use scaffold::Project;
use scaffold::lint::{self, Finding, Level};
use scaffold::rbac::Native;

use super::{Error, FOLDER, progress, read};
use crate::terminal::{plain, plain_lines};
use crate::watches;

/// The flags of `lint`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  # In a project's folder, before 'make deploy'
  helm-operator lint

  # In CI: warnings fail, too
  helm-operator lint --strict

Exit code 1 if something would fail in the cluster. A line of the output: PATH:LINE: error: MESSAGE")]
pub(crate) struct Lint {
    /// Let warnings fail as well
    #[arg(long)]
    strict: bool,
}

/// Runs the command. `natives` are the program's own kinds.
pub(super) fn run(args: &Lint, natives: &[Native]) -> Result<ExitCode, Error> {
    let mut project = read(Path::new(FOLDER))?;
    let shown = progress::show(&mut project);
    let found = findings(&project, natives)?;
    drop(shown);
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    super::super::print(&report(&found, colour));
    let fails = found.iter().any(|finding| args.strict || finding.level == Level::Error);
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns what the operator itself would report about watches.yaml, and what the project's files show.
fn findings(project: &Project, natives: &[Native]) -> Result<Vec<Finding>, Error> {
    let mut found = own(project.text("watches.yaml").unwrap_or_default());
    // Without valid entries, nothing else can be checked.
    if found.iter().all(|finding| finding.level == Level::Warning) {
        found.extend(lint::check(project, natives)?);
        found.sort_by_key(|finding| finding.level);
    }
    Ok(found)
}

fn own(text: &str) -> Vec<Finding> {
    let finding = |level, line, message| Finding { level, path: "watches.yaml".to_owned(), line, message };
    match watches::parse(text, |name| std::env::var(name).ok()) {
        Ok(parsed) => {
            parsed.warnings.into_iter().map(|one| finding(Level::Warning, number(one.line), one.what)).collect()
        }
        Err(watches::Error::Value { line, what }) => vec![finding(Level::Error, number(line), what)],
        Err(error) => vec![finding(Level::Error, None, error.to_string())],
    }
}

/// Returns the line number, if it is known.
fn number(line: u64) -> Option<usize> {
    usize::try_from(line).ok().filter(|line| *line > 0)
}

fn report(found: &[Finding], colour: bool) -> String {
    let paint = |level: Level| match (colour, level) {
        (false, level) => level.to_string(),
        (true, Level::Error) => format!("\u{1b}[1;31m{level}\u{1b}[0m"),
        (true, Level::Warning) => format!("\u{1b}[1;33m{level}\u{1b}[0m"),
    };
    // Messages quote charts, which may be others'.
    let line = |finding: &Finding| {
        let (place, message) = (plain(&finding.place()), plain_lines(&finding.message));
        format!("{place}{}: {message}\n", paint(finding.level))
    };
    let lines: String = found.iter().map(line).collect();
    let count = |level: Level, one: &str| match found.iter().filter(|finding| finding.level == level).count() {
        1 => format!("1 {one}"),
        many => format!("{many} {one}s"),
    };
    format!("{lines}{}, {}", count(Level::Error, "error"), count(Level::Warning, "warning"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watches_file_that_the_operator_refuses_is_an_error_with_its_line() {
        let check = |text: &str, expected: &str| assert_eq!(report(&own(text), false), expected);
        check("[]", "0 errors, 0 warnings");
        check(
            "- group: a\n  version: v1\n  kind: A\n  chart: a\n  maxHistory: many\n",
            "watches.yaml:5: error: maxHistory: expected a whole number, found a string\n1 error, 0 warnings",
        );
        check(
            "- {group: a, version: v1, kind: A, chart: a}\n- group: b\n  version: v1\n  kind: B\n  chart: b\n  sort: c\n",
            "watches.yaml:6: warning: unknown key \"sort\" is ignored\n0 errors, 1 warning",
        );
        let twice = "- {group: a, version: v1, kind: A, chart: a}\n";
        let duplicate =
            "watches.yaml:2: error: duplicate GVK: a/v1, Kind=A: line 1 has it already\n1 error, 0 warnings";
        check(&twice.repeat(2), duplicate);
    }

    #[test]
    fn a_finding_controls_no_terminal() {
        let message = "template: a.yaml:1:3: \u{1b}]0;title\u{7}\nfix it".to_owned();
        let found = Finding { level: Level::Error, path: "a\u{1b}.yaml".to_owned(), line: Some(1), message };
        let expected = "a\u{fffd}.yaml:1: error: template: a.yaml:1:3: \u{fffd}]0;title\u{fffd}\nfix it\n";
        assert_eq!(report(&[found], false), format!("{expected}1 error, 0 warnings"));
    }

    #[test]
    fn only_terminals_get_colours() {
        let found = own("- {group: a, version: v1, kind: A, chart: a, sort: b}\n");
        assert!(!report(&found, false).contains('\u{1b}') && report(&found, true).contains("\u{1b}[1;33mwarning"));
    }
}
