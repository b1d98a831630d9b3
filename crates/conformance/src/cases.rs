//! The cases of a corpus: real charts with the recorded output of `helm template`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// A case: a line of `cases.jsonl`. Paths are relative to the corpus.
#[derive(Deserialize)]
pub struct Case {
    /// The repository that the chart comes from.
    pub repo: String,
    /// The chart's name.
    pub chart: String,
    /// The case's name.
    pub case: String,
    /// `ok`, or `error` if Helm refuses the case.
    pub status: String,
    /// The chart's folder.
    pub dir: PathBuf,
    /// A file of values.
    pub values: Option<PathBuf>,
    /// Further arguments.
    pub args: Vec<String>,
    /// The file with Helm's output or message.
    pub expected: PathBuf,
    /// The file that names the random parts of the output.
    pub random: Option<PathBuf>,
}

impl Case {
    /// Returns the case's name within the corpus.
    pub fn id(&self) -> String {
        format!("{} {}", self.chart, self.case)
    }

    /// Returns whether Helm refuses the case.
    pub fn is_refused(&self) -> bool {
        self.status == "error"
    }
}

/// Returns the file that lists a corpus' cases.
pub fn file(corpus: &Path) -> PathBuf {
    corpus.join("cases.jsonl")
}

/// Reads the cases of a corpus.
///
/// # Errors
/// Fails if the file cannot be read, or a line is not a case.
pub fn read(corpus: &Path) -> anyhow::Result<Vec<Case>> {
    let text =
        fs::read_to_string(file(corpus)).with_context(|| format!("cannot read corpus {}", file(corpus).display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(number, line)| {
        serde_json::from_str(line)
            .with_context(|| format!("cannot read line {} of corpus {}", number + 1, file(corpus).display()))
    };
    lines.map(read).collect()
}
