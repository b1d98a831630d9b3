//! Makes functions available as Handlebars helpers.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use go_template::Value;
use handlebars::{
    Context, Handlebars as Registry, Helper, HelperDef, Output, PathAndJson, RenderContext, RenderError,
    RenderErrorReason, ScopedJson,
};
use serde_json::Value as Json;

use super::bound::{ENTER, LEAVE, MAX_PARTIALS, TICK};
use super::convert::whole;
use super::state::State;
use crate::engine::calls;

/// The cost of entering a block, in steps of a Go template.
const STEPS_PER_BLOCK: u64 = 10;

/// The helpers of a run.
#[derive(Clone)]
pub(super) struct Functions(Arc<Mutex<State>>);

impl Functions {
    /// Registers all functions. Data takes precedence over a function of the same name that is called without arguments.
    pub(super) fn register(registry: &mut Registry<'static>, state: &Arc<Mutex<State>>) {
        let functions = Functions(Arc::clone(state));
        for name in [TICK, ENTER, LEAVE] {
            registry.register_helper(name, Box::new(Hidden(functions.clone())));
        }
        registry.register_helper("helperMissing", Box::new(functions.clone()));
        registry.register_escape_fn(move |text| functions.count(text));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges for printed data, all of which Handlebars passes to this function.
    fn count(&self, text: &str) -> String {
        let mut state = self.state();
        match state.charge(1, text.len()) {
            Ok(()) => text.to_owned(),
            Err(limit) => {
                state.failed = Some(limit);
                String::new()
            }
        }
    }

    fn value(&self, helper: &Helper<'_>, context: &Context) -> Result<Value, RenderError> {
        if let Some(name) = helper.hash().keys().next() {
            return Err(other(format!("function {:?} takes no named argument {name:?}", helper.name())));
        }
        let mut state = self.state();
        let args = helper.params().iter().map(|param| argument(&state, param, context.data())).collect();
        state.call(helper.name(), args).map_err(other)
    }
}

impl HelperDef for Functions {
    /// Evaluates a call in a subexpression: returns the result as data.
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        _: &'reg Registry<'reg>,
        context: &'rc Context,
        render: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, RenderError> {
        if helper.params().is_empty() && !takes_nothing(helper.name()) {
            return render.evaluate(context, helper.name());
        }
        let value = self.value(helper, context)?;
        self.state().memory.keep(value).map(ScopedJson::Derived).map_err(other)
    }

    /// Evaluates a call in the text: prints the result.
    fn call<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        registry: &'reg Registry<'reg>,
        context: &'rc Context,
        render: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> Result<(), RenderError> {
        if helper.params().is_empty() && helper.hash().is_empty() && !takes_nothing(helper.name()) {
            return Ok(());
        }
        Printed(print(self.value(helper, context)?)).call(helper, registry, context, render, out)
    }
}

/// Returns whether the function exists and can be called without arguments.
fn takes_nothing(name: &str) -> bool {
    calls::all().get(name).is_some_and(|function| function.params().is_empty())
}

/// Converts an argument to a Go value. For a path, returns the value in the top-level object.
fn argument(state: &State, param: &PathAndJson<'_>, context: &Json) -> Value {
    // The crate resolves `@root.x` but not `@root`.
    if param.relative_path().is_some_and(|path| path == "@root") {
        return state.top.clone();
    }
    let found = param.context_path().and_then(|path| follow(&state.top, path));
    found.map_or_else(|| state.memory.to_value(param.value(), (context, &state.top)), whole)
}

fn follow(top: &Value, path: &[String]) -> Option<Value> {
    path.iter().try_fold(top.clone(), |value, part| match value {
        Value::Map(map) => map.get(part.as_str()),
        Value::List(list) => list.get(part.parse::<usize>().ok()?).cloned(),
        Value::Object(object) => object.field(part),
        _ => None,
    })
}

fn print(value: Value) -> String {
    match whole(value) {
        Value::Nil => String::new(),
        Value::String(text) => text.to_text().into_owned(),
        other => String::from_utf8_lossy(&go_template::fmt::sprintf(b"%v", &[other])).into_owned(),
    }
}

/// A helper that prints a text as the crate prints values, with the indentation of partials.
struct Printed(String);

impl HelperDef for Printed {
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        _: &Helper<'rc>,
        _: &'reg Registry<'reg>,
        _: &'rc Context,
        _: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, RenderError> {
        Ok(ScopedJson::Derived(Json::String(self.0.clone())))
    }
}

/// The hidden calls, which charge for blocks and count partials.
struct Hidden(Functions);

impl HelperDef for Hidden {
    fn call<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        _: &'reg Registry<'reg>,
        _: &'rc Context,
        _: &mut RenderContext<'reg, 'rc>,
        _: &mut dyn Output,
    ) -> Result<(), RenderError> {
        let mut state = self.0.state();
        match helper.name() {
            ENTER if state.partials >= MAX_PARTIALS => {
                return Err(other(format!("limit partials exceeded: {MAX_PARTIALS} nested partials")));
            }
            ENTER => state.partials += 1,
            LEAVE => state.partials = state.partials.saturating_sub(1),
            _ => {}
        }
        let bytes = helper.param(0).and_then(|param| param.value().as_u64()).unwrap_or(0);
        state.charge(STEPS_PER_BLOCK, usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(other)
    }
}

fn other(error: impl Display) -> RenderError {
    RenderErrorReason::Other(error.to_string()).into()
}
