//! Reads the resources of files, folders and standard input.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use go_encoding::{json, yaml};
use go_template::Value;

/// The maximum size of a file of resources, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The extensions of files that a folder is searched for.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} exceeds {MAX_BYTES} bytes", path.display())]
    TooLarge { path: PathBuf },
    #[error("cannot parse {}: {why}", path.display())]
    Parse { path: PathBuf, why: String },
}

/// Returns the documents of all files, in order. A folder means the files directly in it, sorted by name.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<serde_json::Value>, Error> {
    let mut documents = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => {
                for file in files(path)? {
                    documents.extend(of_file(&file)?);
                }
            }
            false => documents.extend(of_file(path)?),
        }
    }
    Ok(documents)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    let is_wanted =
        |path: &PathBuf| path.is_file() && path.extension().is_some_and(|is| EXTENSIONS.iter().any(|one| is == *one));
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_wanted).collect();
    files.sort();
    Ok(files)
}

fn of_file(path: &Path) -> Result<Vec<serde_json::Value>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    let source: Box<dyn io::Read> = match path.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(fs::File::open(path).map_err(failed)?),
    };
    source.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    let parsed = yaml::parse_documents(&text);
    let documents = parsed.map_err(|error| Error::Parse { path: path.to_owned(), why: error.to_string() })?;
    Ok(documents.into_iter().map(|document| json::to_serde(&Value::Map(document))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_its_files_in_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.yaml"), "a: 2\n---\na: 3\n").unwrap();
        fs::write(folder.path().join("a.json"), "{\"a\": 1}").unwrap();
        fs::write(folder.path().join("c.txt"), "a: 4").unwrap();
        let read = read(&[folder.path().to_owned()]).unwrap();
        assert_eq!(read.iter().map(|document| document["a"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_file_that_cannot_be_read_or_parsed_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        assert!(read(std::slice::from_ref(&path)).unwrap_err().to_string().contains("a.yaml"));
        fs::write(&path, "a: [").unwrap();
        assert!(read(&[path]).unwrap_err().to_string().starts_with("cannot parse "));
    }
}
