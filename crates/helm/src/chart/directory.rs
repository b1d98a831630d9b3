//! A chart's folder as files. Counterparts: Helm's `pkg/chart/v2/loader/directory.go` and `internal/sympath`.
//!
//! Links are followed, as Helm does, but only as far as they stay on a chart of bounded size and depth.

use std::fs;
use std::path::Path;

use super::archive::{MAX_CHART_BYTES, MAX_CHART_FILES};
use super::ignore::Rules;
use super::{File, LoadError};

/// How deep folders may lie in each other; a link to a parent folder ends here.
const MAX_FOLDER_DEPTH: usize = 64;

/// Reads every file below the folder that `.helmignore` leaves in, in the order of their paths.
pub(super) fn read(folder: &Path) -> Result<Vec<File>, LoadError> {
    let rules = fs::read_to_string(folder.join(".helmignore")).unwrap_or_default();
    let mut walk = Walk { rules: Rules::parse(&rules)?, files: Vec::new(), bytes: 0 };
    walk.folder(folder, "", 0)?;
    Ok(walk.files)
}

struct Walk {
    rules: Rules,
    files: Vec<File>,
    bytes: u64,
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
        let about = fs::metadata(path).map_err(|e| LoadError::io(path, &e))?;
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
        self.bytes += about.len();
        if self.bytes > MAX_CHART_BYTES || self.files.len() >= MAX_CHART_FILES {
            return Err(LoadError::new(format!("chart is larger than the maximum size {MAX_CHART_BYTES}")));
        }
        let data = fs::read(path).map_err(|e| LoadError::new(format!("error reading {name}: {e}")))?;
        let text = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&data);
        self.files.push(File { name, data: text.into() });
        Ok(())
    }
}
