//! Reads the documents that a chart's schemas refer to and that are not files of the chart: files beside its folder, or local copies of documents at
//! a URL.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use go_template::Str;
use url::Url;

use super::{ReadError, folder};
use crate::chart::path_of;
use crate::schema::MAX_SCHEMA_BYTES;

/// Local copies of documents, by URL. A key that ends with a slash covers all URLs below it; its path is a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaCopies(pub BTreeMap<String, PathBuf>);

impl SchemaCopies {
    /// Reads the copy of a document.
    pub(super) fn read(&self, url: &Url) -> Option<Str> {
        self.0.iter().find_map(|(key, path)| match url.as_str().strip_prefix(key.as_str())? {
            "" => regular(path),
            below if key.ends_with('/') => within(&fs::canonicalize(path).ok()?, &path.join(below)),
            _ => None,
        })
    }
}

/// The folders around a chart's folder.
pub(super) struct Beside {
    chart: PathBuf,
    /// The folder that all files must be in.
    allowed: PathBuf,
}

impl Beside {
    /// Finds the folders around this one.
    pub(super) fn of(chart: &Path) -> Result<Beside, ReadError> {
        let allowed = folder::allowed(chart)?;
        let chart = fs::canonicalize(chart).map_err(|e| ReadError::stat(chart, e))?;
        Ok(Beside { chart, allowed })
    }

    /// Reads a document by the path that Helm would read, relative to the chart's folder or to any folder around it. The last one tried is the root,
    /// as in Helm.
    pub(super) fn read(&self, url: &Url) -> Option<Str> {
        let path = path_of(url)?;
        self.chart.ancestors().find_map(|folder| within(&self.allowed, &folder.join(&path)))
    }
}

/// Reads the file if it is in the folder after all links on its path are followed.
fn within(folder: &Path, path: &Path) -> Option<Str> {
    let path = fs::canonicalize(path).ok()?;
    if path.starts_with(folder) { regular(&path) } else { None }
}

/// Reads a regular file, up to one byte more than a schema may have.
fn regular(path: &Path) -> Option<Str> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut data = Vec::new();
    fs::File::open(path).ok()?.take(MAX_SCHEMA_BYTES as u64 + 1).read_to_end(&mut data).ok()?;
    Some(Str::from(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_document_lies_below_the_folder_that_holds_the_chart() {
        let image = tempfile::tempdir().unwrap();
        let root = image.path();
        for path in
            ["helm-charts/web/Chart.yaml", "helm-charts/web/v1/d.json", "helm-charts/shared.json", "secret.json"]
        {
            put(root, path, path);
        }
        std::os::unix::fs::symlink(root.join("secret.json"), root.join("helm-charts/web/link.json")).unwrap();
        let beside = Beside::of(&root.join("helm-charts/web")).unwrap();
        for (reference, found) in [
            ("file://./helm-charts/web/v1/d.json", Some("helm-charts/web/v1/d.json")),
            ("file:///helm-charts/shared.json", Some("helm-charts/shared.json")),
            ("file:///shared.json", Some("helm-charts/shared.json")),
            ("file:///v1/d.json", Some("helm-charts/web/v1/d.json")),
            ("file:///secret.json", None),
            ("file:///link.json", None),
            ("file:///v1%2F..%2F..%2F..%2Fsecret.json", None),
            ("file:///etc/hostname", None),
            ("file:///v1", None),
            ("https://e.x/shared.json", None),
        ] {
            let read = beside.read(&url(reference));
            assert_eq!(read.map(|text| text.to_text().into_owned()).as_deref(), found, "{reference}");
        }
        let absolute =
            url(&format!("file://{}", fs::canonicalize(root.join("helm-charts/shared.json")).unwrap().display()));
        assert!(beside.read(&absolute).is_some(), "Helm's own meaning of the URL");
    }

    #[test]
    fn a_copy_stands_for_a_url_or_for_all_below_it() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "copies/v1/d.json", "one");
        put(folder.path(), "secret.json", "token");
        let path = |below: &str| folder.path().join(below);
        let copies = SchemaCopies(
            [
                ("https://e.x/s/".to_owned(), path("copies")),
                ("https://e.x/t.json".to_owned(), path("copies/v1/d.json")),
            ]
            .into(),
        );
        for (reference, found) in [
            ("https://e.x/s/v1/d.json", true),
            ("https://e.x/t.json", true),
            ("https://e.x/t.json?x=1", false),
            ("https://e.x/s/", false),
            ("https://e.x/s/v1%2F..%2F..%2Fsecret.json", false),
            ("https://e.x/u.json", false),
        ] {
            assert_eq!(copies.read(&url(reference)).is_some(), found, "{reference}");
        }
    }
}
