//! Loads a chart from a folder or an archive file. Counterpart: Helm's `pkg/chart/v2/loader`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::schemas::{Beside, SchemaCopies};
use super::{ReadError, folder};
use crate::chart::{self, ArchiveError, Chart, File, MAX_CHART_BYTES, ValuesText};

impl Chart {
    /// Loads a chart from a folder or a `.tgz` archive.
    ///
    /// Skips the files that `.helmignore` excludes. Follows symbolic links as Helm does, but only to files in the chart's folder or beside it. A
    /// schema may refer to files of the chart, or to files beside its folder.
    ///
    /// # Errors
    /// The path cannot be read, is not a chart, contains a link that leads elsewhere, or exceeds a limit; see [`ReadError`].
    pub fn load(path: &Path) -> Result<Arc<Chart>, ReadError> {
        Chart::load_with(path, &SchemaCopies::default())
    }

    /// Loads a chart whose schemas may refer to local copies of other documents.
    ///
    /// # Errors
    /// Fails like [`load`](Chart::load).
    pub fn load_with(path: &Path, copies: &SchemaCopies) -> Result<Arc<Chart>, ReadError> {
        load(path, copies, ValuesText::Drop)
    }

    /// Loads a chart that keeps the text of its values files, so that [`trace`](crate::origins::trace) names lines.
    ///
    /// # Errors
    /// Fails like [`load`](Chart::load).
    pub fn load_with_lines(path: &Path) -> Result<Arc<Chart>, ReadError> {
        load(path, &SchemaCopies::default(), ValuesText::Keep)
    }
}

fn load(path: &Path, copies: &SchemaCopies, values_text: ValuesText) -> Result<Arc<Chart>, ReadError> {
    let about = fs::metadata(path).map_err(|e| ReadError::stat(path, e))?;
    let (files, beside) = match about.is_dir() {
        true => (folder::read(path)?, Some(Beside::of(path)?)),
        false => (archive(path)?, None),
    };
    let read = |url: &_| copies.read(url).or_else(|| beside.as_ref()?.read(url));
    Ok(chart::from_files(files, &read, values_text)?)
}

fn archive(path: &Path) -> Result<Vec<File>, ReadError> {
    let about = fs::metadata(path).map_err(|e| ReadError::stat(path, e))?;
    if !about.is_file() {
        return Err(ReadError::IrregularFile(path.display().to_string()));
    }
    if about.len() > MAX_CHART_BYTES {
        return Err(ReadError::Chart(ArchiveError::TooLarge.into()));
    }
    let bytes = fs::read(path).map_err(|e| ReadError::stat(path, e))?;
    let name = || path.display().to_string();
    if !bytes.starts_with(b"\x1f\x8b\x08") {
        let is_yaml = path.extension().is_some_and(|ext| ext == "yml" || ext == "yaml");
        return Err(match is_yaml {
            true => ReadError::YamlFile(name()),
            false => ReadError::NotAnArchive { path: name(), found: content_type(&bytes) },
        });
    }
    Chart::unpack(&bytes).map_err(|cause| match cause {
        ArchiveError::NotGzip => ReadError::InvalidArchive { path: name(), cause },
        cause => ReadError::Archive(cause),
    })
}

/// Implements the part of Go's `http.DetectContentType` that matters here.
fn content_type(bytes: &[u8]) -> &'static str {
    let start = &bytes[..bytes.len().min(512)];
    let is_binary = |b: &u8| matches!(b, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    match start {
        [b'P', b'K', 3, 4, ..] => "application/zip",
        // Helm inspects 512 bytes, and pads shorter files with zeros.
        _ if start.len() < 512 || start.iter().any(is_binary) => "application/octet-stream",
        _ => "text/plain; charset=utf-8",
    }
}
