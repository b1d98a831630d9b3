//! Finds the documents that a chart's schemas refer to: files of the chart, and documents that the loader of the chart can read.
//!
//! Helm reads a `file:` reference as an absolute path on the machine, whatever host it names: `file://./helm-charts/web/a.json` and
//! `/helm-charts/web/a.json` are the same file. Here, the chart's own files take precedence, so that a packaged chart needs nothing else.

use go_template::Str;
use golibs::strconv::quote;
use url::Url;

use super::{Chart, File};
use crate::schema::InvalidSchema;

/// Reads a document that is not a file of the chart.
pub(crate) type Read<'a> = dyn Fn(&Url) -> Option<Str> + 'a;

/// A schema that refers to a document which was not read. The chart cannot render.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("values.schema.json of chart {} refers to {}, which is not a file of the chart", quote(chart), quote(url))]
pub struct UnreadSchema {
    /// The chart's path from the root chart, such as `web/charts/cache`.
    pub chart: String,
    /// The document's URL, without the fragment.
    pub url: String,
}

/// Returns the path that Helm reads for a `file:` URL, without its leading slash, or `None` for other URLs.
pub(crate) fn path_of(url: &Url) -> Option<String> {
    let path = crate::schema::percent_decoded(url.path());
    (url.scheme() == "file").then(|| path.trim_start_matches('/').to_owned()).filter(|path| !path.is_empty())
}

/// Finds the document among the chart's files, by its path from the chart's folder or from a folder that contains the chart's folder.
pub(super) fn in_chart(url: &Url, chart: &str, files: &[File]) -> Option<Str> {
    let path = path_of(url)?;
    let below = path.rsplit_once(&format!("{chart}/")).filter(|(before, _)| before.is_empty() || before.ends_with('/'));
    let names = [Some(path.as_str()), below.map(|(_, name)| name)];
    let file = names.into_iter().flatten().find_map(|name| files.iter().find(|file| file.name == name))?;
    Some(file.data.clone())
}

impl Chart {
    /// Returns the schemas of this chart and its subcharts that refer to a document which was not read. A subchart with such a schema fails only
    /// where it is enabled.
    pub fn unread_schemas(&self) -> Vec<UnreadSchema> {
        let mut found = Vec::new();
        self.add_unread(&self.metadata.name, &mut found);
        found
    }

    fn add_unread(&self, chart: &str, found: &mut Vec<UnreadSchema>) {
        if self.documents.lacks_some
            && let Some(Err(InvalidSchema::NotRead(url))) = self.compiled_schema()
        {
            found.push(UnreadSchema { chart: chart.to_owned(), url: url.clone() });
        }
        for dependency in &self.dependencies {
            dependency.add_unread(&format!("{chart}/charts/{}", dependency.metadata.name), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charts_own_files_are_found_by_the_paths_that_helm_reads() {
        let files = [File::from(("v1/_definitions.json", "own"))];
        for (url, found) in [
            ("file:///v1/_definitions.json", true),
            ("file://./v1/_definitions.json", true),
            ("file://./helm-charts/web/v1/_definitions.json", true),
            ("file:///web/v1/_definitions.json", true),
            ("file:///v1/%5Fdefinitions.json", true),
            ("file:///other/v1/_definitions.json", false),
            ("file:///myweb/v1/_definitions.json", false),
            ("file:///_definitions.json", false),
            ("https://e.x/v1/_definitions.json", false),
            ("file:///", false),
        ] {
            assert_eq!(in_chart(&Url::parse(url).unwrap(), "web", &files).is_some(), found, "{url}");
        }
    }
}
