//! Reads and writes the files that a command line names.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path};

/// The reason why a values file, or standard input, cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum InputError {
    #[error("cannot read standard input: {0}")]
    StandardInput(io::Error),
    #[error("open {path}: {}", open_text(cause))]
    File { path: String, cause: io::Error },
}

/// What happens to the content that a file already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, before the new text.
    Keep,
    /// The new text replaces it.
    Replace,
}

fn open_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads the file, or standard input for `-`.
pub(crate) fn read(path: &str) -> Result<Vec<u8>, InputError> {
    if path.trim() == "-" {
        let mut text = Vec::new();
        io::stdin().read_to_end(&mut text).map_err(InputError::StandardInput)?;
        return Ok(text);
    }
    fs::read(path).map_err(|cause| InputError::File { path: path.to_owned(), cause })
}

/// Returns whether the path exists and can be read.
pub(crate) fn exists(path: &Path) -> bool {
    fs::metadata(path).is_ok()
}

/// Writes the text to a file below the folder.
///
/// Fails for paths that leave the folder, because a chart's name is untrusted.
pub(crate) fn write(folder: &Path, path: &str, text: &str, existing: Existing) -> io::Result<()> {
    if Path::new(path).components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the template's path is outside of the folder"));
    }
    let file = folder.join(path);
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    let keeps = existing == Existing::Keep;
    let mut file = fs::OpenOptions::new().create(true).write(true).append(keeps).truncate(!keeps).open(file)?;
    file.write_all(text.as_bytes())
}
