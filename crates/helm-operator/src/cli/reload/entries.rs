//! Watches the watches file itself. A saved file is served, unless it is invalid or names a chart that does not load.

use std::path::{Path, PathBuf};

use controller::report::chain;
use helm::chart::Chart;

use super::AfterSave;
use crate::watches;

/// The text of a watches file.
pub(super) struct Entries {
    path: PathBuf,
    served: String,
    /// The text of the last save, whether or not it is served.
    last: String,
}

impl Entries {
    /// Reads the file as it is served.
    pub(super) fn of(path: &Path) -> Entries {
        let served = std::fs::read_to_string(path).unwrap_or_default();
        Entries { path: path.to_owned(), last: served.clone(), served }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory to watch. The file itself is not watched, because editors replace it by a new one.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Returns what to do about the saved file. The same error is reported once.
    pub(super) fn next(&mut self) -> AfterSave {
        let saved = match std::fs::read_to_string(&self.path) {
            Ok(saved) => saved,
            Err(error) => return AfterSave::Keep(error.to_string()),
        };
        if saved == self.last {
            return AfterSave::Nothing;
        }
        self.last.clone_from(&saved);
        match problem(&saved) {
            _ if saved == self.served => AfterSave::Nothing,
            Some(problem) => AfterSave::Keep(problem),
            None => AfterSave::Reload(String::new()),
        }
    }
}

/// Returns the reason why startup with this file would fail.
fn problem(text: &str) -> Option<String> {
    let parsed = match watches::parse(text, |name| std::env::var(name).ok()) {
        Ok(parsed) => parsed,
        Err(error) => return Some(chain(&error)),
    };
    parsed.watches.iter().filter(|watch| watch.pull.is_none()).find_map(|watch| {
        let error = Chart::load_with(&watch.chart, &watch.schema.copies).err()?;
        Some(format!("line {}: chart {:?}: {}", watch.line, watch.chart.display().to_string(), chain(&error)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_file_is_served_once_it_is_valid_and_each_fault_is_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let chart = folder.path().join("shop");
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: shop\nversion: 0.1.0\n").unwrap();
        let file = folder.path().join("watches.yaml");
        let entry = |chart: &Path, more: &str| {
            let text = format!("- {{group: g, version: v1, kind: Shop, chart: {}{more}}}\n", chart.display());
            std::fs::write(&file, text).unwrap();
        };
        entry(&chart, "");
        let mut entries = Entries::of(&file);
        assert_eq!(entries.next(), AfterSave::Nothing);
        assert_eq!(entries.folder(), folder.path());
        entry(&chart, ", reconcilePeriod: often");
        let AfterSave::Keep(error) = entries.next() else { panic!("it cannot be read") };
        assert!(error.starts_with("line 1: reconcilePeriod: "), "{error}");
        assert_eq!(entries.next(), AfterSave::Nothing);
        entry(Path::new("nope"), "");
        let AfterSave::Keep(error) = entries.next() else { panic!("the chart is missing") };
        assert!(error.starts_with("line 1: chart \"nope\": "), "{error}");
        entry(&chart, "");
        assert_eq!(entries.next(), AfterSave::Nothing, "it is served already");
        entry(&chart, ", reconcilePeriod: 1m");
        assert_eq!(entries.next(), AfterSave::Reload(String::new()));
        assert_eq!(Entries::of(Path::new("watches.yaml")).folder(), Path::new("."));
    }
}
