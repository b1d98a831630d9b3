//! Unpacks a chart's `.tgz` archive in memory. Counterpart: Helm's `pkg/chart/loader/archive`.
//!
//! Archives are untrusted: paths must stay inside the chart's folder, and the unpacked size is bounded.

use std::io::{ErrorKind, Read as _};

use flate2::read::MultiGzDecoder;

use super::File;

/// Maximum unpacked size of a chart, including its subcharts, in bytes: Helm's own limit.
pub const MAX_CHART_BYTES: u64 = 100 * 1024 * 1024;

/// Maximum number of files in a chart. Helm has no such limit; the largest public charts have several hundred files.
pub const MAX_CHART_FILES: usize = 20_000;

/// The size of the header that precedes each file in an archive, in bytes.
const HEADER_BYTES: u64 = 512;

/// The reason why an archive cannot be unpacked. The texts are Helm's, except [`Malformed`](ArchiveError::Malformed) and
/// [`LongHeader`](ArchiveError::LongHeader).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum ArchiveError {
    #[error("gzip: invalid header")]
    NotGzip,
    #[error("unexpected EOF")]
    Truncated,
    /// The gzip or tar stream is malformed. Holds the decoder's text.
    #[error("cannot read the chart archive: {0}")]
    Malformed(String),
    /// It exceeds [`MAX_CHART_BYTES`] or [`MAX_CHART_FILES`].
    #[error("decompressed chart is larger than the maximum size {MAX_CHART_BYTES}")]
    TooLarge,
    /// A name or attribute exceeds 64 KiB.
    #[error("cannot read the chart archive: a name is longer than {MAX_HEADER_BYTES} bytes (limit MAX_HEADER_BYTES)")]
    LongHeader,
    #[error("no files in chart archive")]
    Empty,
    #[error("chart illegally contains absolute paths")]
    AbsolutePath,
    #[error("chart illegally contains content outside the base directory: {0:?}")]
    OutsideFolder(String),
    #[error("chart illegally references parent directory")]
    ParentFolder,
    /// A path starts with a drive letter.
    #[error("chart contains illegally named files")]
    DriveLetter,
    #[error("chart yaml not in base directory")]
    ChartYamlOutside,
}

/// Maximum length of a header with a file's name or attributes, in bytes. On Linux, paths have at most 4 KiB.
const MAX_HEADER_BYTES: u64 = 64 << 10;

/// Checks the headers with names and attributes, which the decoder otherwise reads into memory without a limit.
fn check_headers(bytes: &[u8]) -> Result<(), ArchiveError> {
    let mut archive = tar::Archive::new(MultiGzDecoder::new(bytes).take(MAX_CHART_BYTES * 2));
    for entry in archive.entries().map_err(|e| malformed(&e))?.raw(true) {
        let Ok(entry) = entry else { return Ok(()) };
        let kind = entry.header().entry_type();
        let is_extension = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        if is_extension && entry.size() > MAX_HEADER_BYTES {
            return Err(ArchiveError::LongHeader);
        }
    }
    Ok(())
}

/// Unpacks the archive. `left` is the number of bytes that may still be unpacked, which nested archives share.
pub(super) fn read(bytes: &[u8], left: &mut u64) -> Result<Vec<File>, ArchiveError> {
    check_headers(bytes)?;
    let mut archive = tar::Archive::new(MultiGzDecoder::new(bytes).take(MAX_CHART_BYTES * 2));
    let mut files = Vec::new();
    let before = *left;
    for entry in archive.entries().map_err(|e| malformed(&e))? {
        let mut entry = entry.map_err(|e| malformed(&e))?;
        let kind = entry.header().entry_type();
        if !(kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse()) {
            continue;
        }
        let raw = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = inner_path(&raw)?;
        if entry.size() > *left || files.len() >= MAX_CHART_FILES {
            return Err(ArchiveError::TooLarge);
        }
        let mut data = Vec::new();
        entry.by_ref().take(*left).read_to_end(&mut data).map_err(|e| malformed(&e))?;
        // Empty files count too.
        *left = left.saturating_sub(data.len() as u64 + HEADER_BYTES);
        let text = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&data);
        files.push(File { name, data: text.into() });
    }
    // Skipped entries count too.
    let unpacked = MAX_CHART_BYTES * 2 - archive.into_inner().limit();
    let files_alone = before - *left + 2 * HEADER_BYTES * files.len() as u64;
    *left = left.saturating_sub(unpacked.saturating_sub(files_alone));
    if files.is_empty() {
        return Err(ArchiveError::Empty);
    }
    Ok(files)
}

/// Returns the path below the archive's first folder. Rejects paths that leave that folder.
fn inner_path(raw: &str) -> Result<String, ArchiveError> {
    let delimiter = if raw.contains('\\') { '\\' } else { '/' };
    let (first, rest) = raw.split_once(delimiter).unwrap_or((raw, ""));
    let rest = rest.replace(delimiter, "/");
    if rest.starts_with('/') {
        return Err(ArchiveError::AbsolutePath);
    }
    let clean = clean(&rest);
    if clean == "." {
        return Err(ArchiveError::OutsideFolder(raw.to_owned()));
    }
    if clean.starts_with("..") {
        return Err(ArchiveError::ParentFolder);
    }
    let mut start = clean.chars();
    if start.next().is_some_and(|c| c.is_ascii_alphabetic()) && start.as_str().starts_with(":/") {
        return Err(ArchiveError::DriveLetter);
    }
    if first == "Chart.yaml" {
        return Err(ArchiveError::ChartYamlOutside);
    }
    Ok(clean)
}

/// Normalizes a relative path like Go's `path.Clean`.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

fn malformed(error: &std::io::Error) -> ArchiveError {
    match error.kind() {
        ErrorKind::UnexpectedEof => ArchiveError::Truncated,
        // flate2 identifies an invalid header only by its text.
        _ if error.to_string() == "invalid gzip header" => ArchiveError::NotGzip,
        _ => ArchiveError::Malformed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = Vec::new();
        for (name, data) in entries {
            let mut header = tar::Header::new_ustar();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_cksum();
            tar.extend_from_slice(header.as_bytes());
            tar.extend_from_slice(data);
            tar.resize(tar.len().next_multiple_of(512), 0);
        }
        tar.resize(tar.len() + 1024, 0);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&tar).unwrap();
        gz.finish().unwrap()
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<File>, ArchiveError> {
        read(bytes, &mut { MAX_CHART_BYTES })
    }

    #[test]
    fn paths_that_leave_the_chart_are_rejected() {
        for (name, wanted) in [
            ("c/../../x", "chart illegally references parent directory"),
            ("c//etc/passwd", "chart illegally contains absolute paths"),
            ("c/..", "chart illegally references parent directory"),
            ("c", "chart illegally contains content outside the base directory: \"c\""),
            ("c/c:/x", "chart contains illegally named files"),
            ("c\\..\\..\\x", "chart illegally references parent directory"),
        ] {
            assert_eq!(read_all(&archive(&[(name, b"x")])).unwrap_err().to_string(), wanted, "{name}");
        }
    }

    #[test]
    fn bombs_are_rejected_before_they_are_unpacked() {
        let zeros = vec![0; 101 * 1024 * 1024];
        let error = read_all(&archive(&[("c/a", &zeros)])).unwrap_err().to_string();
        assert_eq!(error, "decompressed chart is larger than the maximum size 104857600");
    }

    #[test]
    fn paths_are_relative_to_the_first_folder() {
        let files =
            read_all(&archive(&[("c/Chart.yaml", b"name: c"), ("c/templates/x.yaml", b"\xef\xbb\xbfa")])).unwrap();
        assert_eq!(files[0].name, "Chart.yaml");
        assert_eq!((files[1].name.as_str(), &*files[1].data), ("templates/x.yaml", &b"a"[..]));
    }

    #[test]
    fn other_files_and_truncated_archives_are_rejected() {
        let whole = archive(&[("c/Chart.yaml", b"name: c")]);
        for (bytes, wanted) in [
            (&b""[..], "unexpected EOF"),
            (b"no archive at all", "gzip: invalid header"),
            (&whole[..whole.len() / 2], "unexpected EOF"),
            (&archive(&[]), "no files in chart archive"),
        ] {
            assert_eq!(read_all(bytes).unwrap_err().to_string(), wanted);
        }
    }

    #[test]
    fn nested_archives_share_one_budget() {
        let zeros = vec![0; 60 << 20];
        let inner = archive(&[("s/Chart.yaml", b"name: s\nversion: 1.0.0"), ("s/zeros", &zeros)]);
        let outer = archive(&[
            ("c/Chart.yaml", b"name: c\nversion: 1.0.0"),
            ("c/charts/s.tgz", &inner),
            ("c/charts/t.tgz", &inner),
        ]);
        let error = crate::chart::Chart::load_archive(&outer).unwrap_err().to_string();
        assert!(error.ends_with("in c: decompressed chart is larger than the maximum size 104857600"), "{error}");
    }

    #[test]
    fn links_in_archives_are_ignored() {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, "c/templates/x.yaml", "/etc/passwd").unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        tar.append_data(&mut header, "c/a", &b"a"[..]).unwrap();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&tar.into_inner().unwrap()).unwrap();
        let names: Vec<_> = read_all(&gz.finish().unwrap()).unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["a"]);
    }
}
