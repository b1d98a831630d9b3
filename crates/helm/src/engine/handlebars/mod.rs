//! Templates named `*.hbs`: Handlebars syntax, with the functions and the top-level object of Go templates.
//!
//! The crate `handlebars` parses and renders; functions, limits and values are our own. `docs/handlebars.md` is the manual. Helm has no counterpart.

mod bound;
mod call;
mod convert;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use go_template::{Scope, Value};
use handlebars::Handlebars as Registry;

use super::RenderError;
use bound::Writer;
use call::Functions;
use state::State;

pub(super) const EXTENSION: &str = ".hbs";

/// Stack size that suffices for the deepest allowed nesting in the maximum number of nested partials, in bytes.
const STACK: usize = 64 << 20;

/// The Handlebars templates of a chart and its subcharts, parsed.
#[derive(Debug, Default)]
pub(super) struct Templates(Registry<'static>);

impl Templates {
    pub(super) fn new() -> Templates {
        let mut registry = Registry::new();
        registry.register_escape_fn(handlebars::no_escape);
        // Go's and Sprig's functions replace Handlebars helpers of the same name.
        for name in ["lookup", "log", "eq", "ne", "gt", "lt", "and", "or", "not", "len"] {
            registry.unregister_helper(name);
        }
        Templates(registry)
    }

    /// Adds a template, which is also a partial: under its name, and under its path below `templates/` without the extension. The last template with
    /// a name wins.
    pub(super) fn add(&mut self, name: &str, text: &str) -> Result<(), RenderError> {
        let template = on_large_stack(|| bound::parse(name, text))?;
        if let Some((_, below)) = name.rsplit_once("/templates/") {
            let short = below.strip_suffix(EXTENSION).unwrap_or(below);
            self.0.register_template(short, template.clone());
        }
        self.0.register_template(name, template);
        Ok(())
    }

    /// Executes the template on the top-level object, within the limits of the Go templates' run.
    pub(super) fn execute(&self, name: &str, top: &Value, scope: &mut Scope<'_>) -> Result<Vec<u8>, RenderError> {
        let (state, context) = State::begin(scope, top).map_err(|limit| RenderError::plain(name, limit.to_string()))?;
        let state = Arc::new(Mutex::new(state));
        let mut registry = self.0.clone();
        Functions::register(&mut registry, &state);
        let mut writer = Writer::default();
        let rendered = on_large_stack(|| {
            handlebars_panics(|| registry.render_with_context_to_write(name, &context.into(), &mut writer))
        });
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.end(scope);
        match (rendered, state.failed.take()) {
            (_, Some(limit)) => Err(RenderError::plain(name, limit.to_string())),
            (None, None) => Err(RenderError::plain(name, "the handlebars engine failed")),
            (Some(Err(error)), None) => Err(failure(name, &error)),
            (Some(Ok(())), None) => Ok(writer.into_bytes()),
        }
    }
}

fn failure(file: &str, error: &handlebars::RenderError) -> RenderError {
    let template = error.template_name.as_deref().unwrap_or(file);
    let column = error.column_no.unwrap_or(1).saturating_sub(1);
    RenderError::handlebars(template, error.line_no.unwrap_or(0), column, &error.reason().to_string())
}

fn on_large_stack<T>(f: impl FnOnce() -> T) -> T {
    stacker::grow(STACK, f)
}

/// Catches panics: the crate asserts that its parser follows its grammar, and if that is wrong, a chart must not crash the process.
fn handlebars_panics<T>(f: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).ok()
}
