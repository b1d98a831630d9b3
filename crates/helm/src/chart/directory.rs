//! A chart's folder as files. Counterparts: Helm's `pkg/chart/v2/loader/directory.go` and `internal/sympath`.
//!
//! Links are followed as Helm does, but only to what lies beside the chart or in it: a chart that links to `/etc` or to a service account's
//! token would have it rendered.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::archive::{MAX_CHART_BYTES, MAX_CHART_FILES};
use super::ignore::Rules;
use super::{File, LoadError};

/// How deep folders may lie in each other; a link to a parent folder ends here.
const MAX_FOLDER_DEPTH: usize = 64;

/// How large `.helmignore` may be: each of its patterns is tried on each file.
const MAX_IGNORE_BYTES: u64 = 64 << 10;

/// The most that the bytes of `.helmignore` and the number of files may come to, multiplied.
const MAX_IGNORE_WORK: u64 = 16 << 20;

/// How many links there may be: each is followed through all links on its way.
const MAX_LINKS: usize = 1000;

/// Reads every file below the folder that `.helmignore` leaves in, in the order of their paths.
pub(super) fn read(folder: &Path) -> Result<Vec<File>, LoadError> {
    let chart_yaml = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).join("Chart.yaml");
    if let Err(error) = fs::metadata(&chart_yaml) {
        let place = chart_yaml.display();
        return Err(LoadError::new(format!(
            "unable to detect chart at {place}: open {place}: {}",
            super::load::cause(&error)
        )));
    }
    let rules = ignore_file(folder)?;
    let ignore_bytes = rules.len() as u64;
    let rules = Rules::parse(&String::from_utf8_lossy(&rules))?;
    let mut walk =
        Walk { rules, around: around(folder)?, ignore_bytes, files: Vec::new(), bytes: 0, entries: 0, links: 0 };
    walk.folder(folder, "", 0)?;
    Ok(walk.files)
}

/// What `.helmignore` says; nothing if there is none.
fn ignore_file(folder: &Path) -> Result<Vec<u8>, LoadError> {
    let mut rules = Vec::new();
    if let Ok(file) = fs::File::open(folder.join(".helmignore")) {
        let _ = file.take(MAX_IGNORE_BYTES + 1).read_to_end(&mut rules);
    }
    if rules.len() as u64 > MAX_IGNORE_BYTES {
        return Err(LoadError::new(format!(
            ".helmignore is larger than {MAX_IGNORE_BYTES} bytes (limit MAX_IGNORE_BYTES)"
        )));
    }
    Ok(rules)
}

/// The folder that links must stay in: the one that the chart lies in, so that charts can share files, unless that is everything.
fn around(folder: &Path) -> Result<PathBuf, LoadError> {
    let chart = fs::canonicalize(folder).map_err(|e| LoadError::io(folder, &e))?;
    match chart.parent() {
        Some(parent) if parent.parent().is_some() => Ok(parent.to_owned()),
        _ => Ok(chart),
    }
}

struct Walk {
    rules: Rules,
    ignore_bytes: u64,
    around: PathBuf,
    files: Vec<File>,
    bytes: u64,
    /// Files and folders so far: folders that link to each other would be walked for ever.
    entries: usize,
    links: usize,
}

impl Walk {
    fn folder(&mut self, folder: &Path, below: &str, depth: usize) -> Result<(), LoadError> {
        if depth > MAX_FOLDER_DEPTH {
            return Err(LoadError::new(format!(
                "folders lie more than {MAX_FOLDER_DEPTH} deep below the chart (limit MAX_FOLDER_DEPTH): {below}"
            )));
        }
        let entries = fs::read_dir(folder).map_err(|e| LoadError::io(folder, &e))?;
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

    fn entry(&mut self, path: &Path, name: String, depth: usize) -> Result<(), LoadError> {
        self.entries += 1;
        if self.entries > MAX_CHART_FILES {
            return Err(LoadError::new(format!("chart has more than {MAX_CHART_FILES} files (limit MAX_CHART_FILES)")));
        }
        if self.ignore_bytes * self.entries as u64 > MAX_IGNORE_WORK {
            return Err(LoadError::new(
                ".helmignore has too many patterns for so many files (limit MAX_IGNORE_WORK)".to_owned(),
            ));
        }
        let about = self.about(path, &name)?;
        if self.rules.ignores(&name, about.is_dir()) {
            return Ok(());
        }
        if about.is_dir() {
            return self.folder(path, &name, depth + 1);
        }
        if !about.is_file() {
            return Err(LoadError::new(format!(
                "cannot load irregular file {} as it has file mode type bits set",
                path.display()
            )));
        }
        let data = self.content(path, about.len()).map_err(|e| LoadError::new(format!("error reading {name}: {e}")))?;
        let text = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&data);
        self.files.push(File { name, data: text.into() });
        Ok(())
    }

    /// What lies at the path, behind a link, too. Refuses a link that leads out.
    fn about(&mut self, path: &Path, name: &str) -> Result<fs::Metadata, LoadError> {
        let about = fs::symlink_metadata(path).map_err(|e| LoadError::io(path, &e))?;
        if !about.is_symlink() {
            return Ok(about);
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(LoadError::new(format!("chart has more than {MAX_LINKS} symlinks (limit MAX_LINKS)")));
        }
        let target = fs::canonicalize(path).map_err(|e| {
            LoadError::new(format!("error evaluating symlink {}: {}", path.display(), super::load::cause(&e)))
        })?;
        if target.starts_with(&self.around) {
            return fs::metadata(path).map_err(|e| LoadError::io(path, &e));
        }
        Err(LoadError::new(format!("symlink {name} leads out of {}, which no chart may", self.around.display())))
    }

    fn content(&mut self, path: &Path, size: u64) -> Result<Vec<u8>, String> {
        let left = MAX_CHART_BYTES.saturating_sub(self.bytes);
        let mut data = Vec::with_capacity(size.min(left) as usize + 1);
        let file = fs::File::open(path).map_err(|e| e.to_string())?;
        file.take(left + 1).read_to_end(&mut data).map_err(|e| e.to_string())?;
        self.bytes += data.len() as u64;
        if self.bytes > MAX_CHART_BYTES {
            return Err(format!("chart exceeds maximum decompressed size of {MAX_CHART_BYTES} bytes"));
        }
        Ok(data)
    }
}
