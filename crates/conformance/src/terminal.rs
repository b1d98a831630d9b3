//! Lines of output, and progress on a terminal.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};

/// Writes a line, and ignores a closed pipe, as behind `head`.
pub fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Shows how much of long work is done, if someone watches.
#[allow(clippy::print_stderr)] // Progress for the user.
pub fn progress(done: u64, of: u64, what: impl Display) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{done}/{of} {what}");
        if done == of {
            eprintln!();
        }
    }
}
