//! Reads a chart's folder. Counterparts: Helm's `pkg/chart/v2/loader/directory.go` and `internal/sympath`.
//!
//! Follows links as Helm does, but only to files in the chart's folder or beside it: otherwise a chart could render `/etc` or the token
//! of a service account.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::ReadError;
use super::ignore::Rules;
use crate::chart::{File, MAX_CHART_BYTES, MAX_CHART_FILES};

/// How deep folders may be nested. Ends cycles of links.
pub(super) const MAX_FOLDER_DEPTH: usize = 64;

/// The size limit of `.helmignore`: each of its patterns is tried on each file.
pub(super) const MAX_IGNORE_BYTES: u64 = 64 << 10;

/// Limits the bytes of `.helmignore` times the number of files.
const MAX_IGNORE_WORK: u64 = 16 << 20;

/// How many links a chart may contain: each is followed through all links on its path.
pub(super) const MAX_LINKS: usize = 1000;

/// Reads all files below the folder that `.helmignore` does not exclude, in the order of their paths.
pub(super) fn read(folder: &Path) -> Result<Vec<File>, ReadError> {
    let chart_yaml = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).join("Chart.yaml");
    if let Err(cause) = fs::metadata(&chart_yaml) {
        return Err(ReadError::NoChart { path: chart_yaml.display().to_string(), cause });
    }
    let rules = ignore_file(folder)?;
    let ignore_bytes = rules.len() as u64;
    let rules = Rules::parse(&String::from_utf8_lossy(&rules))?;
    let mut walk =
        Walk { rules, allowed: allowed(folder)?, ignore_bytes, files: Vec::new(), bytes: 0, entries: 0, links: 0 };
    walk.folder(folder, "", 0)?;
    Ok(walk.files)
}

/// The content of `.helmignore`; empty if there is none.
fn ignore_file(folder: &Path) -> Result<Vec<u8>, ReadError> {
    let mut rules = Vec::new();
    let path = folder.join(".helmignore");
    // Opening a pipe would wait for its writer.
    if fs::metadata(&path).is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        return Err(ReadError::IrregularFile(path.display().to_string()));
    }
    if let Ok(file) = fs::File::open(path) {
        let _ = file.take(MAX_IGNORE_BYTES + 1).read_to_end(&mut rules);
    }
    if rules.len() as u64 > MAX_IGNORE_BYTES {
        return Err(ReadError::IgnoreTooLarge);
    }
    Ok(rules)
}

/// The folder that links and a schema's references must stay in: the chart's parent, so that charts can share files, unless that is the root of the file system.
pub(super) fn allowed(folder: &Path) -> Result<PathBuf, ReadError> {
    let chart = fs::canonicalize(folder).map_err(|e| ReadError::stat(folder, e))?;
    match chart.parent() {
        Some(parent) if parent.parent().is_some() => Ok(parent.to_owned()),
        _ => Ok(chart),
    }
}

struct Walk {
    rules: Rules,
    ignore_bytes: u64,
    allowed: PathBuf,
    files: Vec<File>,
    bytes: u64,
    /// Files and folders so far. Ends cycles of links.
    entries: usize,
    links: usize,
}

impl Walk {
    fn folder(&mut self, folder: &Path, below: &str, depth: usize) -> Result<(), ReadError> {
        if depth > MAX_FOLDER_DEPTH {
            return Err(ReadError::FoldersTooDeep(below.to_owned()));
        }
        let entries = fs::read_dir(folder).map_err(|e| ReadError::stat(folder, e))?;
        let mut names: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let name = name.to_string_lossy();
            let inner = if below.is_empty() { name.into_owned() } else { format!("{below}/{name}") };
            self.entry(&path, inner, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: String, depth: usize) -> Result<(), ReadError> {
        self.entries += 1;
        if self.entries > MAX_CHART_FILES {
            return Err(ReadError::TooManyFiles);
        }
        if self.ignore_bytes * self.entries as u64 > MAX_IGNORE_WORK {
            return Err(ReadError::IgnoreTooSlow);
        }
        let about = self.about(path, &name)?;
        if self.rules.ignores(&name, about.is_dir()) {
            return Ok(());
        }
        if about.is_dir() {
            return self.folder(path, &name, depth + 1);
        }
        if !about.is_file() {
            return Err(ReadError::IrregularFile(path.display().to_string()));
        }
        let data = self.content(path, &name, about.len())?;
        let text = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&data);
        self.files.push(File { name, data: text.into() });
        Ok(())
    }

    /// The metadata of the path or of its link's target. Rejects links that leave the allowed folder.
    fn about(&mut self, path: &Path, name: &str) -> Result<fs::Metadata, ReadError> {
        let about = fs::symlink_metadata(path).map_err(|e| ReadError::stat(path, e))?;
        if !about.is_symlink() {
            return Ok(about);
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(ReadError::TooManyLinks);
        }
        let target = fs::canonicalize(path)
            .map_err(|cause| ReadError::BrokenLink { path: path.display().to_string(), cause })?;
        if target.starts_with(&self.allowed) {
            return fs::metadata(path).map_err(|e| ReadError::stat(path, e));
        }
        Err(ReadError::LinkOutside { name: name.to_owned(), allowed: self.allowed.display().to_string() })
    }

    fn content(&mut self, path: &Path, name: &str, size: u64) -> Result<Vec<u8>, ReadError> {
        let failed = |cause| ReadError::File { name: name.to_owned(), cause };
        let left = MAX_CHART_BYTES.saturating_sub(self.bytes);
        let mut data = Vec::with_capacity(size.min(left) as usize + 1);
        let file = fs::File::open(path).map_err(failed)?;
        file.take(left + 1).read_to_end(&mut data).map_err(failed)?;
        self.bytes += data.len() as u64;
        if self.bytes > MAX_CHART_BYTES {
            return Err(ReadError::TooLarge(name.to_owned()));
        }
        Ok(data)
    }
}
