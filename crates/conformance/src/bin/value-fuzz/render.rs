//! Renders with the `helm` program and with this engine.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use conformance::{template, without_hint};
use serde_json::Value;
use tempfile::TempDir;

use crate::charts::Source;
use crate::compare::{Rendered, Verdict, verdict};

/// Both programs, and a folder for their input files.
pub(crate) struct Renderers {
    helm: PathBuf,
    folder: TempDir,
}

impl Renderers {
    pub(crate) fn new(helm: &Path) -> anyhow::Result<Renderers> {
        let helm = fs::canonicalize(helm).with_context(|| format!("cannot find Helm's program {}", helm.display()))?;
        Ok(Renderers { helm, folder: tempfile::tempdir()? })
    }

    /// Renders the chart with both programs, with these values over its own.
    pub(crate) fn compare(&self, source: &Source, overlay: Option<&Value>) -> anyhow::Result<Verdict> {
        let arguments = self.arguments(source, overlay)?;
        let helm = self.helm(&arguments)?;
        let ours = ours(&arguments);
        // Only a second run of Helm shows which parts of a chart are random. Its two runs also bracket the time of day
        // of ours.
        let again = if helm == ours { None } else { Some(self.helm(&arguments)?) };
        Ok(verdict(&helm, again.as_ref(), &ours))
    }

    fn arguments(&self, source: &Source, overlay: Option<&Value>) -> anyhow::Result<Vec<String>> {
        let chart = source.chart.display().to_string();
        let mut arguments = vec!["template".into(), "rel".into(), chart, "--namespace".into(), "ns".into()];
        arguments.extend(source.arguments.iter().cloned());
        if let Some(overlay) = overlay {
            let file = self.folder.path().join("values.json");
            fs::write(&file, overlay.to_string())?;
            arguments.extend(["-f".into(), file.display().to_string()]);
        }
        Ok(arguments)
    }

    fn helm(&self, arguments: &[String]) -> anyhow::Result<Rendered> {
        let output = Command::new(&self.helm)
            .args(arguments)
            .env_clear()
            .envs([("TZ", "UTC"), ("HOME", "/nonexistent")])
            .output()
            .with_context(|| format!("cannot run {}", self.helm.display()))?;
        Ok(if output.status.success() {
            Rendered::Text(output.stdout)
        } else {
            Rendered::Error(message(&String::from_utf8_lossy(&output.stderr)))
        })
    }
}

fn ours(arguments: &[String]) -> Rendered {
    match catch_unwind(AssertUnwindSafe(|| template(arguments))) {
        Ok(Ok(text)) => Rendered::Text(text),
        Ok(Err(error)) => Rendered::Error(message(&format!("Error: {error}"))),
        Err(_) => Rendered::Error("panicked".into()),
    }
}

/// Returns Helm's error without the warnings before it and the hint after it.
fn message(printed: &str) -> String {
    let error = printed.find("Error: ").map_or(printed, |at| &printed[at..]);
    without_hint(error).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_neither_warnings_nor_hints() {
        let printed = "level=WARN msg=x\nError: a failed\nb\n\nUse --debug flag to render out invalid YAML\n";
        assert_eq!(message(printed), "Error: a failed\nb");
        assert_eq!(message("other\n"), "other");
    }
}
