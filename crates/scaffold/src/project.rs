//! A project in memory: its files, and which of them a command created or changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::progress::{Progress, Step};

/// The files of a project, by path relative to its folder, with `/` as separator.
#[derive(Clone, Debug, Default)]
pub struct Project {
    files: BTreeMap<String, File>,
    /// What the removed files had contained.
    removed: BTreeMap<String, Vec<u8>>,
    /// The folder that new files are copied from.
    pub(crate) copied_from: Option<PathBuf>,
    pub(crate) progress: Progress,
}

#[derive(Clone, Debug)]
struct File {
    content: Vec<u8>,
    change: Option<Change>,
    /// The content that was read, if the file has another one now.
    before: Option<Vec<u8>>,
}

/// What a command does with an existing file that it did not generate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Keeps it: it is the user's.
    #[default]
    Keep,
    /// Replaces it.
    Replace,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The file is new.
    Created,
    /// The file has other content.
    Changed,
    /// The file is no longer part of the project.
    Removed,
}

impl Project {
    /// Creates a project with these existing files.
    pub fn from_files<P: Into<String>, C: Into<Vec<u8>>>(files: impl IntoIterator<Item = (P, C)>) -> Project {
        let files = files.into_iter().map(|(path, content)| {
            let file = File { content: content.into(), change: None, before: None };
            (path.into(), file)
        });
        Project { files: files.collect(), ..Project::default() }
    }

    /// Sets the receiver of progress reports of slow work on this project.
    pub fn report_to(&mut self, report: impl Fn(Step<'_>) + Send + Sync + 'static) {
        self.progress = Progress::to(report);
    }

    /// Gives new files the modes of those of the same name in a folder: scripts can be run, and secrets stay private.
    pub fn take_modes_from(&mut self, folder: &Path) {
        self.copied_from = Some(folder.to_owned());
    }

    /// Returns whether the file exists.
    pub fn contains(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns a file's content.
    pub fn bytes(&self, path: &str) -> Option<&[u8]> {
        Some(&self.files.get(path)?.content)
    }

    /// Returns a text file's content; `None` if the file does not exist or is not UTF-8.
    pub fn text(&self, path: &str) -> Option<&str> {
        std::str::from_utf8(self.bytes(path)?).ok()
    }

    /// Returns all paths and contents.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, file)| (path.as_str(), file.content.as_slice()))
    }

    /// Returns the paths and contents below a folder; the paths are relative to it.
    pub fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let files = self.files.range(prefix.clone()..);
        files.map_while(move |(path, file)| Some((path.strip_prefix(&prefix)?, file.content.as_slice())))
    }

    /// Creates a file unless it exists. Returns whether it created it.
    pub fn create(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) -> bool {
        let path = path.into();
        let missing = !self.contains(&path);
        if missing {
            self.write(path, content);
        }
        missing
    }

    /// Sets a file's content. Identical content counts as no change.
    pub fn write(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        let (path, content) = (path.into(), content.into());
        let known = self.files.get_mut(&path);
        if known.as_ref().is_some_and(|file| file.content == content) {
            return;
        }
        let before = match known {
            Some(file) if file.change.is_none() => Some(std::mem::take(&mut file.content)),
            Some(file) => file.before.take(),
            None => self.removed.remove(&path),
        };
        let change = if before.is_some() { Change::Changed } else { Change::Created };
        self.files.insert(path, File { content, change: Some(change), before });
    }

    /// Adds a file that is not the project's own, such as a chart that was fetched. It is unchanged.
    pub fn lend(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.files.insert(path.into(), File { content: content.into(), change: None, before: None });
    }

    pub(crate) fn remove(&mut self, path: &str) {
        let Some(file) = self.files.remove(path) else { return };
        let before = if file.change.is_none() { Some(file.content) } else { file.before };
        self.removed.extend(before.map(|content| (path.to_owned(), content)));
    }

    /// Rewrites an existing text file.
    pub(crate) fn edit(&mut self, path: &str, edit: impl FnOnce(&str) -> Result<String, Error>) -> Result<(), Error> {
        let text = self.text(path).ok_or_else(|| Error::read(path, "the file does not exist or is not UTF-8"))?;
        let text = edit(text)?;
        self.write(path, text);
        Ok(())
    }

    /// Returns what a changed or removed file contained when it was read; `None` for a new one.
    pub(crate) fn before(&self, path: &str) -> Option<&[u8]> {
        let changed = self.files.get(path).and_then(|file| file.before.as_ref());
        changed.or_else(|| self.removed.get(path)).map(Vec::as_slice)
    }

    /// Returns the changes, sorted by path.
    pub fn changes(&self) -> impl Iterator<Item = (&str, Change)> {
        let written = self.files.iter().filter_map(|(path, file)| Some((path.as_str(), file.change?)));
        let removed = self.removed.keys().map(|path| (path.as_str(), Change::Removed));
        let all: BTreeMap<&str, Change> = written.chain(removed).collect();
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_content_is_a_change() {
        let mut project = Project::from_files([("a", "1"), ("b", "1"), ("c", "1")]);
        assert!(!project.create("a", "2"));
        assert!(project.create("d", "1"));
        project.write("b", "1");
        project.write("c", "2");
        project.write("d", "2");
        let changes: Vec<_> = project.changes().collect();
        assert_eq!(changes, [("c", Change::Changed), ("d", Change::Created)]);
        project.lend("oci://r/shop", "chart");
        assert_eq!(project.text("oci://r/shop"), Some("chart"));
        assert_eq!(project.changes().count(), 2, "what is lent is never written");
        assert_eq!((project.text("a"), project.text("d")), (Some("1"), Some("2")));
    }

    #[test]
    fn removed_files_are_changes_unless_they_were_new() {
        let mut project = Project::from_files([("a", "1"), ("b", "1")]);
        project.create("c", "1");
        for path in ["a", "b", "c", "d"] {
            project.remove(path);
        }
        project.write("b", "2");
        let changes: Vec<_> = project.changes().collect();
        assert_eq!(changes, [("a", Change::Removed), ("b", Change::Changed)]);
        assert!(!project.contains("a"));
    }

    #[test]
    fn a_folder_does_not_contain_files_of_a_longer_name() {
        let project = Project::from_files([("a/x", ""), ("a/y/z", ""), ("ab/x", ""), ("a.yaml", "")]);
        assert_eq!(project.below("a").map(|(path, _)| path).collect::<Vec<_>>(), ["x", "y/z"]);
    }
}
