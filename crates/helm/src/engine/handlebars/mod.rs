//! Templates named `*.hbs`: Handlebars' syntax, with the same top-level object and the same functions as the Go templates beside them.
//!
//! Crate `handlebars` parses and renders; functions, limits and values are ours. How to write such templates is in `docs/handlebars.md`. Helm has no
//! counterpart.

mod bound;
mod call;
mod convert;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use go_template::{Scope, Value};
use handlebars::Handlebars as Registry;

use super::RenderError;
use bound::Writer;
use call::{Functions, State};

/// How a template's name ends.
pub(super) const EXTENSION: &str = ".hbs";

/// Room for templates that nest as deep as they may, each through as many partials as it may.
const STACK: usize = 64 << 20;

/// The Handlebars templates of a chart and its subcharts, parsed.
#[derive(Debug, Default)]
pub(super) struct Templates(Registry<'static>);

impl Templates {
    /// No templates.
    pub(super) fn new() -> Templates {
        let mut registry = Registry::new();
        registry.register_escape_fn(handlebars::no_escape);
        // Where Handlebars and Go or Sprig have a function of the same name, charts get the latter.
        for name in ["lookup", "log", "eq", "ne", "gt", "lt", "and", "or", "not", "len"] {
            registry.unregister_helper(name);
        }
        Templates(registry)
    }

    /// Adds a template: a partial of its whole name and of its path below `templates/` without the extension. The last one of a name wins.
    pub(super) fn add(&mut self, name: &str, text: &str) -> Result<(), RenderError> {
        let template = on_large_stack(|| bound::parse(name, text))?;
        if let Some((_, below)) = name.rsplit_once("/templates/") {
            let short = below.strip_suffix(EXTENSION).unwrap_or(below);
            self.0.register_template(short, template.clone());
        }
        self.0.register_template(name, template);
        Ok(())
    }

    /// Runs the template on the top-level object, as a part of the Go templates' run.
    pub(super) fn execute(&self, name: &str, top: &Value, scope: &mut Scope<'_>) -> Result<Vec<u8>, RenderError> {
        let (state, context) = State::begin(scope, top).map_err(|limit| RenderError::plain(name, limit))?;
        let state = Arc::new(Mutex::new(state));
        let mut registry = self.0.clone();
        Functions::register(&mut registry, &state);
        let mut writer = Writer::default();
        let rendered = on_large_stack(|| {
            handlebars_panics(|| registry.render_with_context_to_write(name, &context.into(), &mut writer))
        });
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.end(scope);
        match (rendered, state.failed()) {
            (_, Some(limit)) => Err(RenderError::plain(name, limit)),
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

/// The crate asserts in some places that its parser keeps to its grammar; a chart must not end the process should it be wrong.
fn handlebars_panics<T>(f: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).ok()
}
