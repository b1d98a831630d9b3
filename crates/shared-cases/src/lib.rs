//! Recorded answers that are kept beside the repository rather than in it: for tests that check far more cases than we commit.
//!
//! They lie in `../shared`, or where the environment variable `SHARED` points. Without them a test checks its committed cases only and says
//! so on standard error, which the test harness does not capture.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// How many differing cases [`each_line`] shows.
const SHOWN: usize = 40;

/// The file or folder of this name; `None`, with a message, where there is none.
pub fn path(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = std::env::var_os("SHARED").map_or_else(beside, PathBuf::from).join(name);
    if path.exists() {
        return Some(path);
    }
    say_once(name);
    None
}

/// The cases of a file with one JSON document per line; none, with a message, where there is no such file.
///
/// # Panics
/// The file cannot be read, or a line is not JSON.
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

/// Checks each case of a file. `check` returns how the answer differs, or an empty string.
///
/// # Panics
/// A case differs.
pub fn each_line(name: &str, check: impl FnMut(&Value) -> String) {
    each(name, &lines(name), check);
}

/// Like [`each_line`], for committed cases: text with one JSON document per line.
///
/// # Panics
/// A case differs, or a line is not JSON.
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

/// Says that the cases are missing, once per process.
fn say_once(name: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned()) {
        // Not `eprintln!`: the test harness would swallow it.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the cases of {name}; SHARED does not point at a folder that has them"
        );
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
