//! A chart's `.tgz` archive as files. Counterpart: Helm's `pkg/chart/loader/archive`.
//!
//! Archives are untrusted: nothing is written to disk, paths must stay inside, and what unpacks is bounded.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{File, LoadError};

/// How many bytes a chart may have unpacked, subcharts too: Helm's own limit.
pub const MAX_CHART_BYTES: u64 = 100 * 1024 * 1024;

/// How many files a chart may have. Helm has no such limit; the largest public charts have some hundreds.
pub const MAX_CHART_FILES: usize = 20_000;

/// What an archive spends on each file besides its content.
const HEADER_BYTES: u64 = 512;

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
            format!("file '{name}' does not appear to be a gzipped archive; got '{}'", content_type(&bytes))
        }));
    }
    read(&bytes, &mut { MAX_CHART_BYTES }).map_err(|error| match error.to_string() {
        text if text == BAD_HEADER => {
            LoadError::new(format!("file '{name}' does not appear to be a valid chart file (details: {text})"))
        }
        text => LoadError::new(format!("unable to load chart archive: {text}")),
    })
}

/// What Go's `http.DetectContentType` says, as far as it matters here.
fn content_type(bytes: &[u8]) -> &'static str {
    let start = &bytes[..bytes.len().min(512)];
    let is_binary = |b: &u8| matches!(b, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    match start {
        [b'P', b'K', 3, 4, ..] => "application/zip",
        // Helm looks at 512 bytes, with zeros behind a shorter file.
        _ if start.len() < 512 || start.iter().any(is_binary) => "application/octet-stream",
        _ => "text/plain; charset=utf-8",
    }
}

/// Reads the archive's bytes. `left` is how many bytes may still be unpacked; archives in archives share it.
pub(super) fn read(bytes: &[u8], left: &mut u64) -> Result<Vec<File>, LoadError> {
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
            return Err(too_large());
        }
        let mut data = Vec::new();
        entry.by_ref().take(*left).read_to_end(&mut data).map_err(|e| malformed(&e))?;
        // An empty file costs something, too.
        *left = left.saturating_sub(data.len() as u64 + HEADER_BYTES);
        let text = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&data);
        files.push(File { name, data: text.into() });
    }
    // What was unpacked only to be skipped counts too.
    let unpacked = MAX_CHART_BYTES * 2 - archive.into_inner().limit();
    let files_alone = before - *left + 2 * HEADER_BYTES * files.len() as u64;
    *left = left.saturating_sub(unpacked.saturating_sub(files_alone));
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

const BAD_HEADER: &str = "gzip: invalid header";

/// The error in Go's words, where it has some.
fn malformed(error: &std::io::Error) -> LoadError {
    match error.kind() {
        ErrorKind::UnexpectedEof => LoadError::new("unexpected EOF"),
        _ if error.to_string() == "invalid gzip header" => LoadError::new(BAD_HEADER),
        _ => LoadError::new(format!("cannot read the chart archive: {error}")),
    }
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

    fn read_all(bytes: &[u8]) -> Result<Vec<File>, LoadError> {
        read(bytes, &mut { MAX_CHART_BYTES })
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
            assert_eq!(read_all(&archive(&[(name, b"x")])).unwrap_err().to_string(), wanted, "{name}");
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_unpacked() {
        let zeros = vec![0; 101 * 1024 * 1024];
        let error = read_all(&archive(&[("c/a", &zeros)])).unwrap_err().to_string();
        assert_eq!(error, "decompressed chart is larger than the maximum size 104857600");
    }

    #[test]
    fn the_first_folder_is_left_out_of_paths() {
        let files =
            read_all(&archive(&[("c/Chart.yaml", b"name: c"), ("c/templates/x.yaml", b"\xef\xbb\xbfa")])).unwrap();
        assert_eq!(files[0].name, "Chart.yaml");
        assert_eq!((files[1].name.as_str(), &*files[1].data), ("templates/x.yaml", &b"a"[..]));
    }

    #[test]
    fn what_is_no_archive_or_cut_off_says_so() {
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
    fn archives_in_archives_share_one_budget() {
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
    fn links_in_an_archive_lead_nowhere() {
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
