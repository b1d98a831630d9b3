//! Renders a chart: its templates are parsed once and run for each set of values. Counterpart: Helm's `pkg/engine`.
//!
//! What is around the templates (values, schema, hooks, notes) is in `render.rs`.

mod cache;
mod calls;
mod capabilities;
mod error;
mod files;
pub mod funcs;
mod handlebars;
mod lookup;
mod program;
mod render;
#[cfg(test)]
mod tests;
mod values_type;

pub use calls::MAX_INCLUDES;
pub use capabilities::{Capabilities, DEFAULT_API_VERSIONS, DEFAULT_KUBE_VERSION, HELM_VERSION, KubeVersion};
pub use error::{Place, RenderError};
pub use files::Files;
pub use lookup::Lookup;
pub use render::{Error, ReleaseOptions, Rendered, Request};

use std::sync::Arc;
use std::time::{Duration, Instant};

use go_template::{Map, MapType, MissingKey, Options, Scope, Str, Value};

use crate::chart::{Chart, ChartView};
use cache::Cache;
use calls::Render;
use program::Program;

/// How long one render may take.
pub const MAX_RENDER_TIME: Duration = Duration::from_secs(30);

/// A chart, ready to be rendered many times, by many threads at once.
#[derive(Debug)]
pub struct Engine {
    chart: Arc<Chart>,
    programs: Cache<Vec<String>, Program>,
    parsed: Arc<Cache<Str, go_template::Parsed>>,
}

/// What a template's file printed.
pub type File = (Str, Vec<u8>);

impl Engine {
    /// An engine for the chart. Templates are parsed when they are first rendered, and kept.
    pub fn new(chart: Arc<Chart>) -> Engine {
        Engine { chart, programs: Cache::default(), parsed: Arc::default() }
    }

    /// The chart.
    pub fn chart(&self) -> &Arc<Chart> {
        &self.chart
    }

    /// Whether rendering again with the same input may give something else: the chart reads the cluster, the clock or random numbers.
    pub fn is_impure(&self) -> bool {
        program::is_impure(&self.chart)
    }

    /// Runs every template of the view that is no partial, in Helm's order.
    ///
    /// `values` is the view's coalesced values, which templates may change: it must be this render's own.
    ///
    /// # Errors
    /// The first template that cannot be parsed, or that fails.
    pub fn execute(
        &self,
        view: &ChartView,
        values: &Map,
        release: &ReleaseOptions,
        capabilities: &Capabilities,
        lookup: Option<Arc<dyn Lookup>>,
    ) -> Result<Vec<File>, RenderError> {
        let program = self.program(view)?;
        let tops = Tops::new(view, values, release, capabilities);
        let mut host = Render { lookup, parsed: Arc::clone(&self.parsed), ..Render::default() };
        let mut options =
            Options { missing_key: MissingKey::Zero, values_methods: values_type::methods(), ..Options::default() };
        options.limits.deadline = Some(Instant::now() + MAX_RENDER_TIME);
        let scope = Scope::new(Arc::clone(program.templates()), options).with_host(&mut host);
        let files = run(&program, &tops, scope);
        host.release();
        files
    }

    fn program(&self, view: &ChartView) -> Result<Arc<Program>, RenderError> {
        let mut key = Vec::new();
        program::paths(view, &mut key);
        if let Some(program) = self.programs.get(&key) {
            return Ok(program);
        }
        let program = Arc::new(Program::parse(view)?);
        self.programs.put(key, Arc::clone(&program), program.weight());
        Ok(program)
    }
}

/// Every file of the program, in its order.
fn run(program: &Program, tops: &Tops, mut scope: Scope<'_>) -> Result<Vec<File>, RenderError> {
    let mut files = Vec::with_capacity(program.files().len());
    for file in program.files() {
        let top = tops.of(file.chart());
        let about: Map =
            [("Name", Value::String(file.name().clone())), ("BasePath", file.base_path().into())].into_iter().collect();
        top.insert("Template", about.with_type(MapType::Values));
        let top = Value::Map(top.clone());
        let clean = |output: &[u8]| calls::without_no_value(output).into_owned();
        let output = match file.tree() {
            Some(tree) => scope
                .execute_tree_into(tree, &top, clean)
                .map_err(|error| RenderError::exec(&file.name().to_text(), &error))?,
            None => clean(&program.handlebars().execute(&file.name().to_text(), &top, &mut scope)?),
        };
        files.push((file.name().clone(), output));
    }
    Ok(files)
}

/// The top-level object of each chart of the view: what its templates see as `.`.
struct Tops(Vec<Map>);

impl Tops {
    fn new(view: &ChartView, values: &Map, release: &ReleaseOptions, capabilities: &Capabilities) -> Tops {
        let mut tops = Tops(Vec::new());
        let shared = [("Release", Value::Map(release.to_map())), ("Capabilities", capabilities.to_value())];
        tops.add(view, values, true, &shared);
        tops
    }

    /// Adds the chart and then its subcharts, in the order in which [`program`] numbers them; gives the chart's object.
    fn add(&mut self, view: &ChartView, values: &Map, is_root: bool, shared: &[(&'static str, Value); 2]) -> Map {
        let chart = view.metadata.to_map();
        chart.insert("IsRoot", is_root);
        let files = view.chart.files.iter().map(|file| (Str::from(file.name.as_str()), file.data.clone()));
        let subcharts = Map::default();
        let top: Map = shared.iter().map(|(key, value)| (*key, value.clone())).collect();
        let top = top.with_type(MapType::Values);
        top.insert("Chart", chart);
        top.insert("Files", Files::new(files).to_value());
        top.insert("Values", values.with_type(MapType::Values));
        top.insert("Subcharts", subcharts.clone());
        self.0.push(top.clone());
        for dependency in &view.dependencies {
            let own = match values.get(dependency.name()) {
                Some(Value::Map(own)) => own,
                _ => Map::default(),
            };
            let inner = self.add(dependency, &own, false, shared);
            subcharts.insert(dependency.name(), inner.with_type(MapType::Interface));
        }
        top
    }

    fn of(&self, chart: usize) -> &Map {
        &self.0[chart]
    }
}
