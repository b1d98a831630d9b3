//! Reads a chart's folder. Counterparts: Helm's `pkg/chart/v2/loader/directory.go` and `internal/sympath`.
//!
//! Follows links as Helm does, but only to files in the chart's folder or beside it: otherwise a chart could render `/etc` or the token of a
//! ServiceAccount.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::ReadError;
use super::ignore::{Entry, Rules};
use crate::chart::{File, MAX_CHART_BYTES, MAX_CHART_FILES};

/// Maximum nesting of folders, which also ends cycles of links.
pub(super) const MAX_FOLDER_DEPTH: usize = 64;

/// Maximum size of `.helmignore` in bytes, because each of its patterns is tried on each file.
pub(super) const MAX_IGNORE_BYTES: u64 = 64 << 10;

/// Maximum product of the size of `.helmignore` in bytes and the number of files.
const MAX_IGNORE_WORK: u64 = 16 << 20;

/// Maximum number of links in a chart, because each is followed through all links on its path.
pub(super) const MAX_LINKS: usize = 1000;

/// The limits on reading a folder, and the treatment of entries that are neither files nor folders.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A word for the folder, for errors.
    pub what: &'static str,
    /// The total size of the files.
    pub bytes: u64,
    /// The number of files and folders.
    pub entries: usize,
    /// The treatment of broken links, devices, sockets and pipes, which are never opened.
    pub odd: Odd,
}

/// The treatment of an entry that cannot be read as a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// Its presence is an error.
    Refused,
    /// It is treated as absent.
    Skipped,
}

/// The limits of a chart's folder, which are those of its archive.
pub const CHART_BOUNDS: Bounds =
    Bounds { what: "chart", bytes: MAX_CHART_BYTES, entries: MAX_CHART_FILES, odd: Odd::Refused };

/// Reads the files below a folder that are not skipped, in the order of their paths. Links must stay in the folder.
///
/// `skips` is called with a path relative to the folder and the entry's metadata, before anything below that path is read.
///
/// # Errors
/// A link leaves the folder, a limit is exceeded, or something cannot be read; see [`ReadError`].
pub fn read_folder(
    folder: &Path,
    bounds: Bounds,
    skips: &dyn Fn(&str, &fs::Metadata) -> bool,
) -> Result<Vec<File>, ReadError> {
    let allowed = fs::canonicalize(folder).map_err(|e| ReadError::stat(folder, e))?;
    let mut walk = Walk { skips, bounds, ignore_bytes: 0, allowed, files: Vec::new(), bytes: 0, entries: 0, links: 0 };
    walk.folder(folder, "", 0)?;
    Ok(walk.files)
}

/// Reads all files of a chart's folder that `.helmignore` does not exclude, in the order of their paths.
pub(super) fn read(folder: &Path) -> Result<Vec<File>, ReadError> {
    let chart_yaml = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).join("Chart.yaml");
    if let Err(cause) = fs::metadata(&chart_yaml) {
        return Err(ReadError::NoChart { path: chart_yaml.display().to_string(), cause });
    }
    let rules = ignore_file(folder)?;
    let ignore_bytes = rules.len() as u64;
    let rules = Rules::parse(&String::from_utf8_lossy(&rules))?;
    let mut walk = Walk {
        skips: &|name, about| rules.ignores(name, if about.is_dir() { Entry::Folder } else { Entry::File }),
        bounds: CHART_BOUNDS,
        ignore_bytes,
        allowed: allowed(folder)?,
        files: Vec::new(),
        bytes: 0,
        entries: 0,
        links: 0,
    };
    walk.folder(folder, "", 0)?;
    Ok(walk.files.into_iter().map(without_mark).collect())
}

/// Returns the file without a byte order mark, as Helm loads it.
fn without_mark(file: File) -> File {
    match file.data.strip_prefix(b"\xef\xbb\xbf") {
        Some(text) => File { data: text.into(), ..file },
        None => file,
    }
}

/// Returns the content of `.helmignore`, or nothing if the file does not exist.
fn ignore_file(folder: &Path) -> Result<Vec<u8>, ReadError> {
    let mut rules = Vec::new();
    let path = folder.join(".helmignore");
    // Opening a pipe would wait for a writer.
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

/// Returns the folder that links and a schema's references must stay in. It is the chart's parent, so that charts can share files, unless that is the
/// root of the file system.
pub(super) fn allowed(folder: &Path) -> Result<PathBuf, ReadError> {
    let chart = fs::canonicalize(folder).map_err(|e| ReadError::stat(folder, e))?;
    match chart.parent() {
        Some(parent) if parent.parent().is_some() => Ok(parent.to_owned()),
        _ => Ok(chart),
    }
}

struct Walk<'a> {
    skips: &'a dyn Fn(&str, &fs::Metadata) -> bool,
    bounds: Bounds,
    ignore_bytes: u64,
    allowed: PathBuf,
    files: Vec<File>,
    bytes: u64,
    /// The number of files and folders so far, which also ends cycles of links.
    entries: usize,
    links: usize,
}

impl Walk<'_> {
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
        let Bounds { what, entries: limit, odd, .. } = self.bounds;
        if self.entries > limit {
            return Err(ReadError::TooManyFiles { what, limit });
        }
        if self.ignore_bytes * self.entries as u64 > MAX_IGNORE_WORK {
            return Err(ReadError::IgnoreTooSlow);
        }
        let about = match self.about(path, &name) {
            Err(ReadError::BrokenLink { .. }) if odd == Odd::Skipped => return Ok(()),
            // Nothing is read of what is skipped, wherever it is.
            Err(ReadError::LinkOutside { .. }) if fs::metadata(path).is_ok_and(|about| (self.skips)(&name, &about)) => {
                return Ok(());
            }
            about => about?,
        };
        if (self.skips)(&name, &about) {
            return Ok(());
        }
        match (about.is_dir(), about.is_file(), odd) {
            (true, ..) => self.folder(path, &name, depth + 1),
            (_, true, _) => self.file(path, name, about.len()),
            (.., Odd::Skipped) => Ok(()),
            (.., Odd::Refused) => Err(ReadError::IrregularFile(path.display().to_string())),
        }
    }

    /// Returns the metadata of the path or of its link's target. Rejects links that leave the allowed folder.
    fn about(&mut self, path: &Path, name: &str) -> Result<fs::Metadata, ReadError> {
        let about = fs::symlink_metadata(path).map_err(|e| ReadError::stat(path, e))?;
        if !about.is_symlink() {
            return Ok(about);
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(ReadError::TooManyLinks(self.bounds.what));
        }
        let target = fs::canonicalize(path)
            .map_err(|cause| ReadError::BrokenLink { path: path.display().to_string(), cause })?;
        if target.starts_with(&self.allowed) {
            return fs::metadata(path).map_err(|e| ReadError::stat(path, e));
        }
        Err(ReadError::LinkOutside { name: name.to_owned(), allowed: self.allowed.display().to_string() })
    }

    fn file(&mut self, path: &Path, name: String, size: u64) -> Result<(), ReadError> {
        let Bounds { what, bytes: limit, .. } = self.bounds;
        let left = limit.saturating_sub(self.bytes);
        if size > left {
            return Err(ReadError::TooLarge { name, what, limit });
        }
        let failed = |cause| ReadError::File { name: name.clone(), cause };
        let mut data = Vec::with_capacity(size as usize + 1);
        let file = fs::File::open(path).map_err(failed)?;
        // The file may grow in the meantime.
        file.take(left + 1).read_to_end(&mut data).map_err(failed)?;
        self.bytes += data.len() as u64;
        if self.bytes > limit {
            return Err(ReadError::TooLarge { name, what, limit });
        }
        self.files.push(File { name, data: data.into() });
        Ok(())
    }
}
