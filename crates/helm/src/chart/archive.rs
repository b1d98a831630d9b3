//! A chart's `.tgz` archive as files. Counterpart: Helm's `pkg/chart/loader/archive`.
//!
//! Archives are untrusted: nothing is written to disk, paths must stay inside, and what unpacks is bounded.

use std::io::Read as _;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{File, LoadError};

/// How many bytes a chart may have unpacked, subcharts too: Helm's own limit.
pub const MAX_CHART_BYTES: u64 = 100 * 1024 * 1024;

/// How many files a chart may have. Helm has no such limit; the largest public charts have some hundreds.
pub const MAX_CHART_FILES: usize = 20_000;

/// Reads the archive file.
pub(super) fn read_file(path: &Path) -> Result<Vec<File>, LoadError> {
    let about = std::fs::metadata(path).map_err(|e| LoadError::io(path, &e))?;
    if about.len() > MAX_CHART_BYTES {
        return Err(too_large());
    }
    let bytes = std::fs::read(path).map_err(|e| LoadError::io(path, &e))?;
    let name = path.display();
    if !bytes.starts_with(b"\x1f\x8b\x08") {
        let is_yaml = path.extension().is_some_and(|ext| ext == "yml" || ext == "yaml");
        return Err(LoadError::new(if is_yaml {
            format!("file '{name}' seems to be a YAML file, but expected a gzipped archive")
        } else {
            format!("file '{name}' does not appear to be a gzipped archive")
        }));
    }
    read(&bytes)
}

/// Reads the archive's bytes.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<File>, LoadError> {
    let mut archive = tar::Archive::new(MultiGzDecoder::new(bytes).take(MAX_CHART_BYTES * 2));
    let mut files = Vec::new();
    let mut left = MAX_CHART_BYTES;
    for entry in archive.entries().map_err(|e| malformed(&e))? {
        let mut entry = entry.map_err(|e| malformed(&e))?;
        let kind = entry.header().entry_type();
        if !(kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse()) {
            continue;
        }
        let raw = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = inner_path(&raw)?;
        if entry.size() > left || files.len() >= MAX_CHART_FILES {
            return Err(too_large());
        }
        let mut data = Vec::new();
        entry.by_ref().take(left).read_to_end(&mut data).map_err(|e| malformed(&e))?;
        left -= data.len() as u64;
        let text = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&data);
        files.push(File { name, data: text.into() });
    }
    if files.is_empty() {
        return Err(LoadError::new("no files in chart archive"));
    }
    Ok(files)
}

/// The path below the archive's first folder, checked to stay inside.
fn inner_path(raw: &str) -> Result<String, LoadError> {
    let delimiter = if raw.contains('\\') { '\\' } else { '/' };
    let (first, rest) = raw.split_once(delimiter).unwrap_or((raw, ""));
    let rest = rest.replace(delimiter, "/");
    if rest.starts_with('/') {
        return Err(LoadError::new("chart illegally contains absolute paths"));
    }
    let clean = clean(&rest);
    if clean == "." {
        return Err(LoadError::new(format!("chart illegally contains content outside the base directory: {raw:?}")));
    }
    if clean.starts_with("..") {
        return Err(LoadError::new("chart illegally references parent directory"));
    }
    let mut start = clean.chars();
    if start.next().is_some_and(|c| c.is_ascii_alphabetic()) && start.as_str().starts_with(":/") {
        return Err(LoadError::new("chart contains illegally named files"));
    }
    if first == "Chart.yaml" {
        return Err(LoadError::new("chart yaml not in base directory"));
    }
    Ok(clean)
}

/// Go's `path.Clean` for a relative path.
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

fn malformed(error: &std::io::Error) -> LoadError {
    LoadError::new(format!("cannot read the chart archive: {error}"))
}

fn too_large() -> LoadError {
    LoadError::new(format!("decompressed chart is larger than the maximum size {MAX_CHART_BYTES}"))
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

    #[test]
    fn paths_that_leave_the_chart_are_refused() {
        for (name, wanted) in [
            ("c/../../x", "chart illegally references parent directory"),
            ("c//etc/passwd", "chart illegally contains absolute paths"),
            ("c/..", "chart illegally references parent directory"),
            ("c", "chart illegally contains content outside the base directory: \"c\""),
            ("c/c:/x", "chart contains illegally named files"),
            ("c\\..\\..\\x", "chart illegally references parent directory"),
        ] {
            assert_eq!(read(&archive(&[(name, b"x")])).unwrap_err().to_string(), wanted, "{name}");
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_unpacked() {
        let zeros = vec![0; 101 * 1024 * 1024];
        let error = read(&archive(&[("c/a", &zeros)])).unwrap_err().to_string();
        assert_eq!(error, "decompressed chart is larger than the maximum size 104857600");
    }

    #[test]
    fn the_first_folder_is_left_out_of_paths() {
        let files = read(&archive(&[("c/Chart.yaml", b"name: c"), ("c/templates/x.yaml", b"\xef\xbb\xbfa")])).unwrap();
        assert_eq!(files[0].name, "Chart.yaml");
        assert_eq!((files[1].name.as_str(), &*files[1].data), ("templates/x.yaml", &b"a"[..]));
    }
}
