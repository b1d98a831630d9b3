//! Renders charts: parses templates once and executes them for each set of values. Counterpart: Helm's `pkg/engine`.
//!
//! [`Engine::render`] does everything from values to manifests; [`Engine::execute`] only executes the templates.

pub(crate) mod calls;
mod capabilities;
mod check;
mod error;
mod files;
mod handlebars;
mod kube_version;
mod lookup;
mod lookups;
mod program;
mod render;
mod spelled;
#[cfg(test)]
mod tests;
mod top;
mod values_type;

pub use capabilities::{Capabilities, DEFAULT_API_VERSIONS};
pub use check::{Problem, problems};
pub use error::{Position, RenderError};
use files::Files;
pub use kube_version::{InvalidKubeVersion, KubeVersion};
pub use lookup::{Lookup, LookupError};
pub use lookups::{LookupCall, LookupGrant, LookupNamespace, lookups};
pub use render::{Error, ReleaseOptions, Rendered, Request};
pub use spelled::{Computed, Key, SpelledOut, spelled_out};

use std::sync::Arc;
use std::time::Duration;

use golibs::cache::Cache;
use golibs::clock::Instant;

use go_template::{FuncError, Limits, Map, MissingKey, Options, Scope, Str, Value};

use crate::chart::Chart;
use crate::view::{ChartView, ResolveError, Resolver};
use calls::Render;
pub(crate) use program::Program;
use top::Tops;

/// Maximum duration of a render.
pub const MAX_RENDER_TIME: Duration = Duration::from_secs(30);

/// A chart to be rendered many times, by many threads at once.
#[derive(Debug)]
pub struct Engine {
    resolver: Resolver,
    programs: Cache<[u8; 32], Arc<Program>>,
    parsed: Arc<Cache<Str, Arc<go_template::Parsed>>>,
    limits: Limits,
}

/// A template's name and output.
pub type File = (Str, Vec<u8>);

impl Engine {
    /// Creates an engine for the chart. It parses templates on first use and caches them.
    pub fn new(chart: Arc<Chart>) -> Engine {
        let (programs, parsed) = (Cache::default(), Arc::default());
        Engine { resolver: Resolver::new(chart), programs, parsed, limits: Limits::default() }
    }

    /// Sets the limits of each render. [`MAX_RENDER_TIME`] always applies.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Engine {
        Engine { limits, ..self }
    }

    /// Returns the chart.
    pub fn chart(&self) -> &Arc<Chart> {
        self.resolver.chart()
    }

    /// Resolves values like [`view::resolve`](crate::view::resolve), but caches views.
    ///
    /// # Errors
    /// A subchart's values are not a table, or there are too many subcharts.
    pub fn resolve(&self, values: &Map, warnings: &mut Vec<String>) -> Result<Arc<ChartView>, ResolveError> {
        self.resolver.resolve(values, warnings)
    }

    /// Executes all templates of the view except partials, in Helm's order.
    ///
    /// `values` are the view's coalesced values. Templates may change them, so renders must not share them.
    ///
    /// # Errors
    /// A template fails to parse or to execute. Returns the first failure.
    pub fn execute(
        &self,
        view: &ChartView,
        values: &Map,
        release: &ReleaseOptions,
        capabilities: &Capabilities,
        lookup: Option<Arc<dyn Lookup>>,
    ) -> Result<Vec<File>, RenderError> {
        let program = self.program(view)?;
        let tops = Tops::new(&program.root, values, release, capabilities);
        let mut host = Render { lookup, parsed: Arc::clone(&self.parsed), ..Render::default() };
        let latest = Instant::now() + MAX_RENDER_TIME;
        let deadline = self.limits.deadline.map_or(latest, |own| own.min(latest));
        let limits = Limits { deadline: Some(deadline), ..self.limits };
        let options = Options { missing_key: MissingKey::Zero, values_methods: values_type::methods(), limits };
        let mut scope = Scope::new(Arc::clone(&program.templates), options).with_host(&mut host);
        let files = run(&program, &tops, &mut scope);
        scope.take_spent().empty_changed_maps();
        let is_unanswered = scope.host::<Render>().is_some_and(|render| render.is_unanswered);
        files.map_err(|error| if is_unanswered { error.unanswered() } else { error })
    }

    fn program(&self, view: &ChartView) -> Result<Arc<Program>, RenderError> {
        let key = view.identity;
        if let Some(program) = self.programs.get(&key) {
            return Ok(program);
        }
        let program = Arc::new(Program::parse(view)?);
        self.programs.put(key, Arc::clone(&program), program.weight);
        Ok(program)
    }
}

/// Executes the program's files in order.
fn run(program: &Program, tops: &Tops, scope: &mut Scope<'_>) -> Result<Vec<File>, RenderError> {
    let mut files = Vec::with_capacity(program.files().len());
    for file in program.files() {
        let top = tops.of(file.chart());
        top.insert("Template", file.about());
        let top = Value::Map(top.clone());
        let clean = |output: &[u8]| calls::without_no_value(output).into_owned();
        let failed = |error: FuncError| RenderError::exec(&file.name().to_text(), &error);
        let output = match file.tree() {
            Some(tree) => {
                let output = scope.execute_tree_into(tree, &top, clean).map_err(failed)?;
                scope.keep_output(output.len()).map_err(|limit| failed(limit.into()))?;
                output
            }
            None => clean(&program.handlebars.execute(&file.name().to_text(), &top, scope)?),
        };
        files.push((file.name().clone(), output));
    }
    Ok(files)
}
