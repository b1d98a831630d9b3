//! Finds recorded answers outside the repository, for tests with far more cases than the repository holds.
//!
//! Looks in `../shared`, or where the environment variable `SHARED` points. If they are missing, a test checks only its
//! committed cases and prints a message to standard error that the test harness does not capture.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Maximum number of differing cases that [`each_line`] prints.
const SHOWN: usize = 40;

/// Returns the file or directory of this name; prints a message and returns `None` if it does not exist.
pub fn path(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = std::env::var_os("SHARED").map_or_else(beside, PathBuf::from).join(name);
    if path.exists() {
        return Some(path);
    }
    report_once(name);
    None
}

/// Returns the cases of a file with one JSON document per line; prints a message and returns an empty list if it does
/// not exist.
///
/// # Panics
/// If the file cannot be read, or a line is not JSON.
pub fn lines(name: &str) -> Vec<Value> {
    let Some(path) = path(name) else { return Vec::new() };
    parse(&std::fs::read_to_string(path).expect("recorded answers are readable text"))
}

fn parse(text: &str) -> Vec<Value> {
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

/// Checks each case of a file. `check` returns the difference, or an empty string.
///
/// # Panics
/// If a case differs.
pub fn each_line(name: &str, check: impl FnMut(&Value) -> String) {
    each(name, &lines(name), check);
}

/// Checks committed cases like [`each_line`]. The text has one JSON document per line.
///
/// # Panics
/// If a case differs, or a line is not JSON.
pub fn each_committed(text: &str, check: impl FnMut(&Value) -> String) {
    each("the committed cases", &parse(text), check);
}

fn each(name: &str, cases: &[Value], mut check: impl FnMut(&Value) -> String) {
    let differing: Vec<String> = cases
        .iter()
        .map(|case| (case, check(case)))
        .filter(|(_, difference)| !difference.is_empty())
        .map(|(case, difference)| format!("{case}\n    {difference}"))
        .collect();
    let shown = differing[..differing.len().min(SHOWN)].join("\n");
    assert!(differing.is_empty(), "{} of {} cases in {name} differ\n{shown}", differing.len(), cases.len());
}

/// Prints once per process that the cases are missing.
fn report_once(name: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned()) {
        // Avoids `eprintln!`, which the test harness captures.
        let _ = writeln!(std::io::stderr(), "skipped: the cases of {name}; set SHARED to the directory that has them");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_cases_are_skipped() {
        assert_eq!(path("no-such-file.jsonl"), None);
        each_line("no-such-file.jsonl", |_| "differs".into());
    }
}
