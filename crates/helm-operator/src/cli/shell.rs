//! `completion` and `man`: generate shell completions and manual pages for the command line.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use super::complete;

/// The arguments of `completion`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
}

/// The arguments of `man`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Man {
    /// The folder for the pages, one for each command
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the script that completes this program's commands.
pub(super) fn completion(name: &str, asked: &Completion) -> ExitCode {
    match complete::script(name, &asked.shell.to_string()).and_then(|script| io::stdout().write_all(&script)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed its end.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes the manual pages.
pub(super) fn man(name: &'static str, asked: &Man) -> ExitCode {
    let written = std::fs::create_dir_all(&asked.folder)
        .and_then(|()| clap_mangen::generate_to(super::command(name).name(name), &asked.folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: cannot write manual pages to {}: {error}", asked.folder.display());
            ExitCode::FAILURE
        }
    }
}
