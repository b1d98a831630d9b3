//! Builds a chart from its files. Counterpart: Helm's `pkg/chart/v2/loader/load.go`.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use go_encoding::yaml;
use go_template::{Map, Str, Value};

use super::archive::{self, MAX_CHART_BYTES};
use super::metadata::{MAX_DEPENDENCIES, Metadata};
use super::{ArchiveError, Chart, DependsOn, File, LoadError, chart_yaml, digest, schemas};
use crate::schema::Documents;
use crate::values;

/// Maximum nesting of charts. Helm has no such limit.
pub(super) const MAX_DEPTH: usize = 64;

/// Whether charts keep the text of `values.yaml`, whose comments nothing else needs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ValuesText {
    Keep,
    Drop,
}

/// Builds the chart. Paths are relative to its folder. `read` returns the documents of schemas that are not among the files.
pub(crate) fn from_files(
    files: Vec<File>,
    read: &schemas::Read<'_>,
    values_text: ValuesText,
) -> Result<Arc<Chart>, LoadError> {
    let chart = match format_of(&files)? {
        Format::Unknown => return Err(LoadError::UnsupportedVersion),
        Format::V2 | Format::V3 => at_depth(files, 0, &mut Loading { left: MAX_CHART_BYTES, read, values_text })?,
    };
    if chart.metadata.api_version == V3 { Err(LoadError::InvalidVersion) } else { Ok(chart) }
}

/// The chart format that Helm can load but not yet install.
const V3: &str = "v3";

/// The format that determines how Helm reads a chart.
enum Format {
    /// `v1`, `v2`, or no version.
    V2,
    /// `v3`, which Helm loads by separate rules and every action rejects.
    V3,
    Unknown,
}

/// Returns the format of the chart itself; subcharts may have any format. Counterpart: Helm's `pkg/chart/loader`, which looks only at the first
/// `Chart.yaml`.
fn format_of(files: &[File]) -> Result<Format, LoadError> {
    let Some(file) = files.iter().find(|file| file.name == "Chart.yaml") else { return Ok(Format::V2) };
    let version = chart_yaml::api_version(&parse(file)?).map_err(|e| LoadError::file(&file.name, e))?;
    Ok(match version.as_str() {
        "v1" | "v2" | "" => Format::V2,
        V3 => Format::V3,
        _ => Format::Unknown,
    })
}

/// The state that all charts of a tree share while they are built.
struct Loading<'a> {
    /// The number of bytes that all archives among the files may still unpack to.
    left: u64,
    read: &'a schemas::Read<'a>,
    values_text: ValuesText,
}

fn at_depth(files: Vec<File>, depth: usize, loading: &mut Loading<'_>) -> Result<Arc<Chart>, LoadError> {
    if depth > MAX_DEPTH {
        return Err(LoadError::TooDeep);
    }
    let mut parts =
        Parts { metadata: read_metadata(&files)?, depends_on: read_depends_on(&files)?, ..Parts::default() };
    for file in files {
        parts.take(file)?;
    }
    parts.finish(depth, loading)
}

fn read_metadata(files: &[File]) -> Result<Option<Metadata>, LoadError> {
    let mut metadata = None;
    for file in files.iter().filter(|file| file.name == "Chart.yaml") {
        let value = parse(file)?;
        let into = metadata.get_or_insert_with(Metadata::default);
        chart_yaml::read_into(into, &value).map_err(|e| LoadError::file(&file.name, e))?;
        if into.api_version.is_empty() {
            into.api_version = "v1".to_owned();
        }
    }
    Ok(metadata)
}

fn read_depends_on(files: &[File]) -> Result<Vec<DependsOn>, LoadError> {
    // Chart authors may repeat a file; as for the metadata, the last one counts.
    let file = files.iter().rfind(|file| file.name == "Chart.yaml");
    file.map_or(Ok(Vec::new()), |file| Ok(chart_yaml::depends_on(&parse(file)?)))
}

#[derive(Default)]
struct Parts {
    metadata: Option<Metadata>,
    depends_on: Vec<DependsOn>,
    lock: Option<Value>,
    templates: Vec<File>,
    values: Option<Map>,
    raw_values: Option<File>,
    schema: Option<Str>,
    files: Vec<File>,
    subcharts: BTreeMap<String, Vec<File>>,
}

impl Parts {
    fn take(&mut self, file: File) -> Result<(), LoadError> {
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => self.lock = Some(lock(&file)?),
            "values.yaml" => {
                self.values = Some(values::read(&file.data).map_err(|e| LoadError::file(&file.name, e))?);
                self.raw_values = Some(file);
            }
            "values.schema.json" => self.schema = Some(file.data),
            "requirements.yaml" => {
                let value = parse(&file)?;
                let into = self.metadata.get_or_insert_with(Metadata::default);
                chart_yaml::read_into(into, &value).map_err(|e| LoadError::file(&file.name, e))?;
                self.keep_for_v1(file);
            }
            "requirements.lock" => {
                self.lock = Some(lock(&file)?);
                self.keep_for_v1(file);
            }
            name if name.starts_with("templates/") => self.templates.push(file),
            name if name.starts_with("charts/") => self.take_subchart_file(file),
            _ => self.files.push(file),
        }
        Ok(())
    }

    fn keep_for_v1(&mut self, file: File) {
        if self.metadata.as_ref().is_some_and(|metadata| metadata.api_version == "v1") {
            self.files.push(file);
        }
    }

    fn take_subchart_file(&mut self, file: File) {
        if file.name.ends_with(".prov") {
            self.files.push(file);
            return;
        }
        let below = file.name["charts/".len()..].to_owned();
        let name = below.split('/').next().unwrap_or_default().to_owned();
        self.subcharts.entry(name).or_default().push(File { name: below, data: file.data });
    }

    fn finish(self, depth: usize, loading: &mut Loading<'_>) -> Result<Arc<Chart>, LoadError> {
        let Some(mut metadata) = self.metadata else { return Err(LoadError::NoChartYaml) };
        metadata.validate().map_err(LoadError::Metadata)?;
        if self.subcharts.len() > MAX_DEPENDENCIES {
            return Err(LoadError::TooManySubcharts);
        }
        let mut dependencies = Vec::new();
        for (name, files) in self.subcharts {
            if name.starts_with(['_', '.']) {
                continue;
            }
            if name.ends_with(".tgz")
                && let Some(file) = files.first().filter(|file| file.name != name)
            {
                let found = file.name.clone();
                return Err(LoadError::SubchartName { parent: metadata.name, expected: name, found });
            }
            match subchart(&name, files, depth, loading) {
                Ok(chart) => dependencies.push(chart),
                Err(cause) => {
                    return Err(LoadError::Subchart { name, parent: metadata.name, cause: Box::new(cause) });
                }
            }
        }
        let schema: Vec<File> =
            self.schema.iter().map(|data| File { name: "values.schema.json".to_owned(), data: data.clone() }).collect();
        let chart_yaml = [File { name: "Chart.yaml".to_owned(), data: format!("{metadata:?}").into() }];
        let raw_values: Vec<File> = self.raw_values.into_iter().collect();
        let find = &mut |url: &_| schemas::in_chart(url, &metadata.name, &self.files).or_else(|| (loading.read)(url));
        let documents = self.schema.as_ref().map(|schema| Documents::collect(schema, find)).unwrap_or_default();
        let others: Vec<File> = documents.iter().map(|(url, text)| File::from((url, text.clone()))).collect();
        let parts: [&[File]; 6] = [&chart_yaml, &self.templates, &raw_values, &schema, &self.files, &others];
        let digest = digest(&parts, &dependencies);
        Ok(Arc::new(Chart {
            metadata,
            lock: self.lock,
            templates: self.templates,
            values: self.values.unwrap_or_default().frozen(),
            schema: self.schema,
            documents,
            files: self.files,
            dependencies,
            depends_on: self.depends_on,
            values_text: raw_values
                .into_iter()
                .next()
                .filter(|_| loading.values_text == ValuesText::Keep)
                .map(|f| f.data),
            digest,
            compiled_schema: OnceLock::new(),
        }))
    }
}

fn parse(file: &File) -> Result<Value, LoadError> {
    yaml::parse(&file.data).map_err(|e| LoadError::file(&file.name, e))
}

fn lock(file: &File) -> Result<Value, LoadError> {
    let value = parse(file)?;
    chart_yaml::check_lock(&value).map_err(|e| LoadError::file(&file.name, e))?;
    Ok(value)
}

fn subchart(name: &str, files: Vec<File>, depth: usize, loading: &mut Loading<'_>) -> Result<Arc<Chart>, LoadError> {
    if !name.ends_with(".tgz") {
        let below = |file: File| {
            let (_, rest) = file.name.split_once('/')?;
            Some(File { name: rest.to_owned(), data: file.data })
        };
        return at_depth(files.into_iter().filter_map(below).collect(), depth + 1, loading);
    }
    match files.into_iter().next() {
        Some(file) => at_depth(archive::read(&file.data, &mut loading.left)?, depth + 1, loading),
        None => Err(ArchiveError::Empty.into()),
    }
}
