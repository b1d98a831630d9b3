//! Lines of output, and progress on a terminal.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};

/// Writes a line. Ignores a closed pipe, for example when piped into `head`.
pub fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Shows progress of long work on a terminal.
#[allow(clippy::print_stderr)] // Progress for the user.
pub fn progress(done: u64, of: u64, what: impl Display) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{done}/{of} {what}");
        if done == of {
            eprintln!();
        }
    }
}
