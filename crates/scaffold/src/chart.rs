//! Charts in a project: new ones and existing ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use helm::chart::{Chart, File};
use helm::disk::without_ignored;

use crate::kustomize::joined;
use crate::{Error, Project, dockerfile};

/// The folder of a project's charts.
pub(crate) const FOLDER: &str = "helm-charts";

/// The version of an entry that names none.
const NEWEST: &str = "*";

/// The files of a chart to add to a project.
#[derive(Clone, Debug)]
pub struct ChartFiles {
    /// The chart's name.
    pub(crate) name: String,
    files: Vec<(String, Vec<u8>)>,
}

impl ChartFiles {
    /// Loads a chart from files with paths relative to its folder. `given` names it in errors.
    ///
    /// # Errors
    /// Fails if the files are not a chart, or its subcharts are missing.
    pub fn new(given: &str, files: Vec<(String, Vec<u8>)>) -> Result<ChartFiles, Error> {
        let chart = load(given, files.iter().map(|(name, data)| (name.as_str(), data.as_slice())))?;
        if let Some(reason) = chart.not_installable() {
            return Err(Error::chart(given, reason));
        }
        let missing = chart.missing_dependencies();
        if !missing.is_empty() {
            let reason = format!("subcharts are missing: {}; run 'helm dependency build {given}'", missing.join(", "));
            return Err(Error::chart(given, reason));
        }
        Ok(ChartFiles { name: chart.metadata.name.clone(), files })
    }

    /// Returns the paths and contents of the chart's files.
    #[cfg(test)]
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, content)| (name.as_str(), content.as_slice()))
    }

    /// Copies the chart into the project, unless the project has a chart of this name. Returns its path, and whether it
    /// was copied.
    pub(crate) fn copy(&self, project: &mut Project) -> (String, bool) {
        let path = format!("{FOLDER}/{}", self.name);
        let missing = project.below(&path).next().is_none();
        if missing {
            for (name, content) in &self.files {
                project.create(format!("{path}/{name}"), content.as_slice());
            }
        }
        (path, missing)
    }

    /// Returns whether the project's chart at the path has the same files.
    pub(crate) fn is_same(&self, project: &Project, path: &str) -> bool {
        let found: Vec<_> = project.below(path).collect();
        let mut own: Vec<_> = self.files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
        own.sort_unstable();
        found == own
    }
}

/// Returns the path in the project of a chart in watches.yaml. That may be a path in the image, which Dockerfiles map
/// to the project. Returns the given path for a chart that the project does not have.
pub(crate) fn path(project: &Project, given: &str) -> String {
    // A chart that is fetched has its URL as its path.
    if is_fetched(given) {
        return given.to_owned();
    }
    let plain = if given.starts_with('/') { given.trim_end_matches('/').to_owned() } else { joined("", given) };
    let exists = |path: &str| project.contains(path) || project.below(path).next().is_some();
    if exists(&plain) {
        return plain;
    }
    let in_image = dockerfile::source(project, given);
    let by_name = given.strip_prefix("/opt/helm/").map(|path| joined("", path)).filter(|path| exists(path));
    in_image.or(by_name).unwrap_or(plain)
}

/// Returns whether a chart in watches.yaml is a URL.
pub(crate) fn is_fetched(given: &str) -> bool {
    given.contains("://")
}

/// Returns where a project has the chart that was fetched from a URL. `wanted` is its version or digest: entries of
/// watches.yaml may name one URL with several.
pub fn fetched_place(url: &str, wanted: Option<&str>) -> String {
    match wanted.filter(|wanted| *wanted != NEWEST) {
        Some(digest) if digest.starts_with("sha256:") => format!("{url}@{digest}"),
        Some(version) => format!("{url}:{version}"),
        None => url.to_owned(),
    }
}

/// Loads a project's chart, which is a folder or an archive.
pub(crate) fn of(project: &Project, path: &str) -> Result<Arc<Chart>, Error> {
    match project.bytes(path) {
        Some(archive) => Chart::load_archive(archive).map_err(|error| Error::chart(path, error)),
        None if project.below(path).next().is_none() => Err(Error::chart(path, missing(path))),
        None => load(path, project.below(path)),
    }
}

fn missing(path: &str) -> &'static str {
    match path.starts_with('/') {
        _ if path.contains("://") => "it is fetched, and only the command line of an operator fetches charts",
        true => "it is a path of the image, and the project has no chart that a COPY of a Dockerfile brings there",
        false => "the project has no such folder or archive",
    }
}

/// The texts of `values.yaml`, comments included, of a chart and its subcharts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    pub(crate) name: String,
    /// The text; empty if the file is missing.
    pub(crate) values: String,
    pub(crate) below: Vec<Text>,
}

/// Reads the texts of the values of a project's chart.
pub(crate) fn text(project: &Project, path: &str) -> Text {
    match project.bytes(path) {
        Some(archive) => archived(archive),
        None => Text::of(&project.below(path).collect::<Vec<_>>()),
    }
}

fn archived(archive: &[u8]) -> Text {
    let files = Chart::unpack(archive).unwrap_or_default();
    Text::of(&files.iter().map(|file| (file.name.as_str(), &*file.data)).collect::<Vec<_>>())
}

impl Text {
    /// Reads the texts from `files`, whose paths are relative to the chart's folder.
    fn of(files: &[(&str, &[u8])]) -> Text {
        let file = |name: &str| files.iter().find(|(path, _)| *path == name).map(|(_, content)| *content);
        let text = |name: &str| file(name).map(|content| String::from_utf8_lossy(content).into_owned());
        let about = crate::yaml::parse(&text("Chart.yaml").unwrap_or_default()).unwrap_or_default();
        let mut below = Vec::new();
        let mut folders: BTreeMap<&str, Vec<(&str, &[u8])>> = BTreeMap::new();
        for (path, content) in files {
            match path.strip_prefix("charts/").map(|path| path.split_once('/').ok_or(path)) {
                Some(Ok((folder, path))) => folders.entry(folder).or_default().push((path, content)),
                Some(Err(file)) if file.ends_with(".tgz") => below.push(archived(content)),
                _ => {}
            }
        }
        below.extend(folders.values().map(|files| Text::of(files)));
        let name = about["name"].as_str().unwrap_or_default().to_owned();
        Text { name, values: text("values.yaml").unwrap_or_default(), below }
    }
}

fn load<'a>(given: &str, files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<Arc<Chart>, Error> {
    let files = files.map(|(name, data)| File::from((name, data.to_vec()))).collect();
    let files = without_ignored(files).map_err(|error| Error::chart(given, error))?;
    Chart::from_files(files).map_err(|error| Error::chart(given, error))
}
