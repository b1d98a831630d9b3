//! The parsed templates of a view, and the order in which they are executed.

use std::sync::Arc;

use go_template::{Map, MapType, Parsed, Str, Templates, Tree};

use super::top::ChartObject;
use super::{RenderError, calls, handlebars};
use crate::view::ChartView;

/// The templates of a chart and its enabled subcharts.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) templates: Arc<Templates>,
    pub(super) handlebars: handlebars::Templates,
    files: Vec<ProgramFile>,
    /// The root chart's part of the top-level object.
    pub(super) root: ChartObject,
    /// The total size of the sources, in bytes.
    pub(super) weight: usize,
}

/// A template that renders to a file.
#[derive(Debug)]
pub(crate) struct ProgramFile {
    name: Str,
    about: Map,
    chart: usize,
    tree: Option<Arc<Tree>>,
}

impl ProgramFile {
    /// Returns the template's name: its path, which starts with the root chart's name.
    pub(crate) fn name(&self) -> &Str {
        &self.name
    }

    /// Returns a copy of `.Template`: the template's name, and the folder of its chart's templates.
    pub(super) fn about(&self) -> Map {
        self.about.deep_copy()
    }

    /// Returns the number of its chart, counted depth first; the root is 0.
    pub(crate) fn chart(&self) -> usize {
        self.chart
    }

    /// Returns the syntax tree, or `None` for a Handlebars template.
    pub(crate) fn tree(&self) -> Option<&Tree> {
        self.tree.as_deref()
    }
}

struct Source {
    name: String,
    base_path: String,
    chart: usize,
    text: Str,
}

impl Source {
    fn is_handlebars(&self) -> bool {
        self.name.ends_with(handlebars::EXTENSION)
    }

    fn file(self, templates: &Templates) -> Option<ProgramFile> {
        let tree = match self.is_handlebars() {
            true => None,
            false => Some(Arc::clone(templates.lookup(self.name.as_bytes())?)),
        };
        let name = Str::from(self.name);
        let about: Map = [("Name", name.clone()), ("BasePath", self.base_path.into())].into_iter().collect();
        Some(ProgramFile { name, about: about.with_type(MapType::Values).frozen(), chart: self.chart, tree })
    }
}

impl Program {
    pub(crate) fn parse(view: &ChartView) -> Result<Program, RenderError> {
        let mut sources = Vec::new();
        collect(view, &mut 0, &mut sources);
        // Deeper paths come first, so that parent charts override the definitions of subcharts.
        sources.sort_by(|a, b| {
            let depth = |source: &Source| source.name.matches('/').count();
            depth(b).cmp(&depth(a)).then_with(|| b.name.cmp(&a.name))
        });
        let weight = sources.iter().map(|source| source.text.len()).sum();
        let mut templates = Templates::new("gotpl");
        let mut bytes = 0;
        let mut handlebars = handlebars::Templates::new();
        for source in &sources {
            match source.is_handlebars() {
                true => handlebars.add(&source.name, &source.text.to_text())?,
                false => {
                    let parsed = parse(source)?;
                    bytes += parsed.bytes();
                    if bytes > MAX_PROGRAM_BYTES {
                        return Err(too_large(source));
                    }
                    templates.add(&parsed);
                }
            }
        }
        let files = sources
            .into_iter()
            .filter(|source| !source.name.rsplit('/').next().unwrap_or_default().starts_with('_'))
            .filter_map(|source| source.file(&templates))
            .collect();
        Ok(Program { templates: Arc::new(templates), handlebars, files, root: ChartObject::of(view), weight })
    }

    pub(crate) fn files(&self) -> &[ProgramFile] {
        &self.files
    }
}

/// Maximum memory of the parsed templates of a chart and its subcharts, in bytes.
const MAX_PROGRAM_BYTES: usize = 128 << 20;

fn too_large(source: &Source) -> RenderError {
    let limit = format!(
        "limit MAX_PROGRAM_BYTES exceeded: the chart's templates have too many actions, the last in {}",
        source.name
    );
    RenderError::plain(&source.name, limit)
}

fn parse(source: &Source) -> Result<Parsed, RenderError> {
    go_template::parse(source.name.as_str(), source.text.clone(), calls::all())
        .map_err(|error| RenderError::parse(&error))
}

fn collect(view: &ChartView, next: &mut usize, sources: &mut Vec<Source>) {
    let chart = *next;
    *next += 1;
    for file in &view.chart.templates {
        let is_partial = file.name.rsplit('/').next().unwrap_or_default().starts_with('_');
        if view.metadata.is_library() && !is_partial {
            continue;
        }
        sources.push(Source {
            name: format!("{}/{}", view.path, file.name),
            base_path: format!("{}/templates", view.path),
            chart,
            text: file.data.clone(),
        });
    }
    for dependency in &view.dependencies {
        collect(dependency, next, sources);
    }
}
