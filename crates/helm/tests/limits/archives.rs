//! Archives and folders: their sizes, and where their paths lead.

use std::io::Write as _;
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use helm::chart::Chart;

use super::{Cases, is_error};

const HEAD: (&str, &[u8]) = ("c/Chart.yaml", b"apiVersion: v2\nname: c\nversion: 0.1.0\n");
const TOO_LARGE: &str = "larger than the maximum size";

fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, *data).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// Returns an archive with a file whose name consists of this byte, repeated.
fn long_name(byte: &[u8; 1], length: usize) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(length as u64);
    header.set_cksum();
    archive.append(&header, std::io::Read::take(std::io::repeat(byte[0]), length as u64)).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_cksum();
    archive.append(&header, &b"x"[..]).unwrap();
    archive.into_inner().unwrap().finish().unwrap()
}

impl Cases {
    /// Adds an archive that is rejected. Its creation is not measured.
    fn rejects(&mut self, name: &'static str, make: impl FnOnce() -> Vec<u8> + 'static, expected: &'static str) {
        self.add_prepared(name, make, move |bytes| {
            is_error(Chart::load_archive(&bytes).map_err(|error| error.to_string()), expected);
        });
    }
}

#[test]
fn oversized_archives_are_rejected() {
    let mut cases = Cases::of(module_path!(), "oversized_archives_are_rejected");
    cases.rejects(
        "a gigabyte of zeros",
        || {
            let mut zeros = GzEncoder::new(Vec::new(), Compression::fast());
            let block = vec![0; 1 << 20];
            (0..1024).for_each(|_| zeros.write_all(&block).unwrap());
            zeros.finish().unwrap()
        },
        "no files in chart archive",
    );
    let large = || vec![b'a'; 60 << 20];
    cases.rejects("two large files", move || packed(&[HEAD, ("c/a", &large()), ("c/b", &large())]), TOO_LARGE);
    cases.rejects(
        "three subcharts with a large file each",
        move || {
            let inner = packed(&[HEAD, ("c/a", &large())]);
            packed(&[HEAD, ("c/charts/a.tgz", &inner), ("c/charts/b.tgz", &inner), ("c/charts/d.tgz", &inner)])
        },
        TOO_LARGE,
    );
    cases.rejects(
        "30,000 files",
        || {
            let many: Vec<String> = (0..30_000).map(|i| format!("c/f{i}")).collect();
            packed(&many.iter().map(|name| (name.as_str(), &b""[..])).collect::<Vec<_>>())
        },
        TOO_LARGE,
    );
    cases.rejects(
        "70 archives in each other",
        || (0..70).fold(packed(&[HEAD]), |inner, _| packed(&[HEAD, ("c/charts/c.tgz", &inner)])),
        "limit MAX_DEPTH",
    );
    for slashes in [false, true] {
        cases.rejects(
            if slashes { "a path of 90 million slashes" } else { "a name of 90 MB" },
            move || long_name(if slashes { b"/" } else { b"n" }, 90 << 20),
            "limit MAX_HEADER_BYTES",
        );
    }
    cases.run();
}

#[test]
fn archive_paths_stay_inside_their_folder() {
    let mut cases = Cases::of(module_path!(), "archive_paths_stay_inside_their_folder");
    for (name, expected) in [
        ("c/../../etc/passwd", "references parent directory"),
        ("c//etc/passwd", "absolute paths"),
        ("c\\..\\..\\x", "references parent directory"),
        ("c/c:/x", "illegally named files"),
    ] {
        cases.rejects(name, move || packed(&[HEAD, (name, b"")]), expected);
    }
    cases.add("links in an archive", || {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        for (kind, name) in [(tar::EntryType::Symlink, "c/link"), (tar::EntryType::Link, "c/hard")] {
            header.set_entry_type(kind);
            header.set_size(0);
            archive.append_link(&mut header, name, "/etc/passwd").unwrap();
        }
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(HEAD.1.len() as u64);
        archive.append_data(&mut header, HEAD.0, HEAD.1).unwrap();
        let loaded = Chart::load_archive(&archive.into_inner().unwrap().finish().unwrap()).unwrap();
        assert!(loaded.files.is_empty());
    });
    cases.run();
}

/// Loads a folder with a `Chart.yaml` and the prepared files.
fn load(prepare: impl FnOnce(&Path)) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Chart.yaml"), HEAD.1).unwrap();
    prepare(folder.path());
    Chart::load(folder.path()).map(|_| ()).map_err(|error| error.to_string())
}

#[test]
#[cfg(unix)]
fn cycles_of_links_are_errors() {
    use std::os::unix::fs::symlink;
    let mut cases = Cases::of(module_path!(), "cycles_of_links_are_errors");
    cases.add("a folder that links to itself", || {
        is_error(load(|folder| symlink(".", folder.join("own")).unwrap()), "Too many levels of symbolic links");
    });
    cases.add("two links to each other", || {
        let circle = load(|folder| {
            symlink("b", folder.join("a")).unwrap();
            symlink("a", folder.join("b")).unwrap();
        });
        is_error(circle, "Too many levels of symbolic links");
    });
    cases.add("links that double at each level", || {
        let doubling = load(|folder| {
            for level in 0..30 {
                let inner = folder.join(format!("charts/_{level}"));
                std::fs::create_dir_all(&inner).unwrap();
                for name in ["a", "b"] {
                    symlink(format!("../_{}", level + 1), inner.join(name)).unwrap();
                }
            }
            std::fs::create_dir_all(folder.join("charts/_30")).unwrap();
        });
        is_error(doubling, "limit MAX_LINKS");
    });
    cases.run();
}

#[test]
#[cfg(unix)]
fn pipes_are_refused_without_waiting_for_a_writer() {
    let mut cases = Cases::of(module_path!(), "pipes_are_refused_without_waiting_for_a_writer");
    for name in [".helmignore", "values.yaml", "templates"] {
        cases.add(name, move || {
            let pipe = |folder: &Path| {
                let made = std::process::Command::new("mkfifo").arg(folder.join(name)).status().unwrap();
                assert!(made.success());
            };
            is_error(load(pipe), "cannot load irregular file");
        });
    }
    cases.add("a chart that is a pipe", || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.tgz");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        is_error(Chart::load(&path).map_err(|error| error.to_string()), "cannot load irregular file");
    });
    cases.run();
}

#[test]
fn subcharts_under_many_aliases_are_bounded() {
    let mut cases = Cases::of(module_path!(), "subcharts_under_many_aliases_are_bounded");
    let with_aliases = |name: &str, inner: Option<&str>| {
        let head = format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n");
        let entries = inner.map(|inner| {
            let entries = (0..100).map(|i| format!("- {{name: {inner}, version: 0.1.0, alias: {inner}{i}}}\n"));
            format!("dependencies:\n{}", entries.collect::<String>())
        });
        head + &entries.unwrap_or_default()
    };
    for levels in [2, 3] {
        cases.add(format!("100 aliases at each of {levels} levels"), move || {
            let names = ["a", "b", "d", "e"];
            let mut files = Vec::new();
            for level in 0..=levels {
                let folder: String = names[1..=level].iter().map(|name| format!("charts/{name}/")).collect();
                let inner = (level < levels).then(|| names[level + 1]);
                files.push(super::file(&format!("{folder}Chart.yaml"), with_aliases(names[level], inner)));
            }
            let loaded = Chart::from_files(files).unwrap();
            is_error(super::render_chart(loaded, &go_template::Map::default()), "limit MAX_SUBCHARTS");
        });
    }
    cases.run();
}

#[test]
fn oversized_folders_are_rejected() {
    let mut cases = Cases::of(module_path!(), "oversized_folders_are_rejected");
    cases.add("a file of 10 GB without content", || {
        let sparse = |folder: &Path| std::fs::File::create(folder.join("x")).unwrap().set_len(10_000_000_000).unwrap();
        is_error(load(sparse), "chart exceeds maximum decompressed size");
    });
    cases.add("folders in each other", || {
        let deep = |folder: &Path| std::fs::create_dir_all(folder.join("a/".repeat(70))).unwrap();
        is_error(load(deep), "limit MAX_FOLDER_DEPTH");
    });
    cases.add("a .helmignore of a megabyte", || {
        let rules = |folder: &Path| std::fs::write(folder.join(".helmignore"), "*a*b*c\n".repeat(150_000)).unwrap();
        is_error(load(rules), "limit MAX_IGNORE_BYTES");
    });
    cases.add_prepared("a .helmignore of 8 KiB and 2,000 files", tempfile::TempDir::new, |folder| {
        let folder = folder.unwrap();
        std::fs::write(folder.path().join("Chart.yaml"), HEAD.1).unwrap();
        std::fs::write(folder.path().join(".helmignore"), "*a*a*a*b\n".repeat(900)).unwrap();
        for i in 0..2_000 {
            std::fs::write(folder.path().join(format!("{}{i}", "a".repeat(30))), "").unwrap();
        }
        assert_eq!(Chart::load(folder.path()).unwrap().files.len(), 2_001);
        std::fs::write(folder.path().join(".helmignore"), "*a*a*a*b\n".repeat(6_000)).unwrap();
        is_error(Chart::load(folder.path()).map_err(|error| error.to_string()), "limit MAX_IGNORE_WORK");
    });
    cases.run();
}
