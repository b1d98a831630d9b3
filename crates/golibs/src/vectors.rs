//! Runs the shared conformance vectors in unit tests, where they are present.

use std::path::PathBuf;

use serde_json::Value;

/// Calls `check` with each case of the file and fails with all non-empty reports. Does nothing, saying so, where the file is absent.
pub(crate) fn each(file: &str, mut check: impl FnMut(&Value) -> String) {
    let Some(text) = path(file).and_then(|path| std::fs::read_to_string(path).ok()) else {
        eprintln!("skipped: no shared vectors, set SHARED to run {file}");
        return;
    };
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a vector is JSON")).collect();
    let reports: Vec<String> = cases
        .iter()
        .map(|case| (case, check(case)))
        .filter(|(_, r)| !r.is_empty())
        .map(|(c, r)| format!("{c}\n    {r}"))
        .collect();
    assert!(
        reports.is_empty(),
        "{} of {} differ\n{}",
        reports.len(),
        cases.len(),
        reports[..reports.len().min(40)].join("\n")
    );
}

fn path(file: &str) -> Option<PathBuf> {
    let beside = || Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let root = std::env::var_os("SHARED").map(PathBuf::from).or_else(beside)?;
    Some(root.join("vectors").join(file))
}
