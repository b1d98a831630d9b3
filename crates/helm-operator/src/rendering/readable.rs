//! Which files a chart consists of: workers can read no others.

use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of files and folders in a chart, as in [`helm::chart::Chart::load`].
const MAX_ENTRIES: usize = 20_000;

/// The maximum depth of folders.
const MAX_DEPTH: usize = 64;

/// Returns the chart, and the files elsewhere to which it links. A chart that links to folders is readable with its
/// siblings.
pub(super) fn of_chart(chart: &Path) -> Vec<PathBuf> {
    let chart = canonical(chart);
    let mut walk = Walk { chart: &chart, entries: 0, linked: Vec::new() };
    match walk.folder(&chart, 0) {
        Some(()) => walk.linked.into_iter().chain([chart.clone()]).collect(),
        None => vec![beside(&chart)],
    }
}

/// Returns the folder with the chart and its siblings, to which links and references of schemas may lead.
pub(super) fn beside(chart: &Path) -> PathBuf {
    let chart = canonical(chart);
    match chart.parent() {
        Some(parent) if parent.parent().is_some() => parent.to_owned(),
        _ => chart,
    }
}

fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

struct Walk<'a> {
    chart: &'a Path,
    entries: usize,
    /// The linked files outside the chart.
    linked: Vec<PathBuf>,
}

impl Walk<'_> {
    /// Follows the links of a folder; returns `None` if there are too many. Archives have none.
    fn folder(&mut self, folder: &Path, depth: usize) -> Option<()> {
        let Ok(entries) = fs::read_dir(folder) else { return Some(()) };
        for entry in entries.flatten() {
            self.entries += 1;
            let (path, kind) = (entry.path(), entry.file_type().ok()?);
            if self.entries > MAX_ENTRIES || depth > MAX_DEPTH {
                return None;
            }
            if kind.is_dir() {
                self.folder(&path, depth + 1)?;
            } else if kind.is_symlink() {
                self.link(&path)?;
            }
        }
        Some(())
    }

    fn link(&mut self, link: &Path) -> Option<()> {
        let Ok(target) = fs::canonicalize(link) else { return Some(()) };
        if target.starts_with(self.chart) {
            return Some(());
        }
        if target.is_dir() {
            return None;
        }
        // Loading rejects links that lead further away.
        if target.starts_with(beside(self.chart)) {
            self.linked.push(target);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_chart_is_readable_with_the_files_that_it_links_to() {
        let root = tempfile::tempdir().unwrap();
        let parent = root.path().canonicalize().unwrap().join("charts");
        let chart = parent.join("web");
        fs::create_dir_all(chart.join("templates")).unwrap();
        for name in ["shared.tpl", "other.tpl", "web/values.yaml"] {
            fs::write(parent.join(name), "").unwrap();
        }
        fs::write(root.path().join("far.tpl"), "").unwrap();
        symlink("../../shared.tpl", chart.join("templates/_shared.tpl")).unwrap();
        symlink("../values.yaml", chart.join("templates/inside")).unwrap();
        symlink("../../far.tpl", chart.join("far")).unwrap();
        symlink("nowhere", chart.join("broken")).unwrap();
        assert_eq!(of_chart(&chart), [parent.join("shared.tpl"), chart.clone()]);
        fs::create_dir(parent.join("common")).unwrap();
        symlink("../common", chart.join("common")).unwrap();
        assert_eq!(of_chart(&chart), [parent]);
    }

    #[test]
    fn an_archive_is_readable_alone() {
        let root = tempfile::tempdir().unwrap();
        let archive = root.path().canonicalize().unwrap().join("web-1.0.0.tgz");
        fs::write(&archive, "").unwrap();
        assert_eq!(of_chart(&archive), [archive]);
    }
}
