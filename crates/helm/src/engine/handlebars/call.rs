//! Functions as Handlebars helpers: each call runs as a small Go template, so that arguments are checked and errors worded as there.

use std::mem;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use go_template::{Cause, FuncError, FuncMap, Function, Options, Param, Parsed, Scope, Spent, Templates, Value};
use handlebars::{
    Context, Handlebars as Registry, Helper, HelperDef, Output, PathAndJson, RenderContext, RenderError,
    RenderErrorReason, ScopedJson,
};
use serde_json::Value as Json;

use super::bound::{ENTER, LEAVE, MAX_PARTIALS, TICK};
use super::convert::{Memory, whole};
use crate::engine::cache::Cache;
use crate::engine::calls::{self, Render};

/// Calls a method: `(invoke Files "Get" "x")`.
const INVOKE: &str = "invoke";

/// Gives a Go template's result as a value.
const RESULT: &str = "__result";

/// What entering a block counts beside the steps of a Go template: it is as much work as some of them.
const STEPS_PER_BLOCK: u64 = 10;

/// The run of one file.
pub(super) struct State {
    host: Render,
    templates: Arc<Templates>,
    options: Options,
    spent: Spent,
    top: Value,
    memory: Memory,
    partials: usize,
    failed: Option<String>,
}

impl State {
    /// Takes the Go templates' run over, until [`end`](State::end); gives what the template sees.
    pub(super) fn begin(scope: &mut Scope<'_>, top: &Value) -> Result<(State, Json), String> {
        let mut memory = Memory::default();
        let context = memory.json_of(top)?;
        let state = State {
            host: scope.host::<Render>().map(mem::take).unwrap_or_default(),
            templates: Arc::clone(scope.templates()),
            options: scope.options(),
            spent: scope.take_spent(),
            top: top.clone(),
            memory,
            partials: 0,
            failed: None,
        };
        Ok((state, context))
    }

    /// Hands the run back.
    pub(super) fn end(&mut self, scope: &mut Scope<'_>) {
        scope.set_spent(mem::take(&mut self.spent));
        if let Some(host) = scope.host::<Render>() {
            *host = mem::take(&mut self.host);
        }
    }

    /// The limit that was exceeded where no error could be given.
    pub(super) fn failed(&mut self) -> Option<String> {
        self.failed.take()
    }

    fn with_scope<T>(&mut self, f: impl FnOnce(&mut Scope<'_>) -> T) -> T {
        let mut scope = Scope::new(Arc::clone(&self.templates), self.options.clone()).with_host(&mut self.host);
        scope.set_spent(mem::take(&mut self.spent));
        let result = f(&mut scope);
        self.spent = scope.take_spent();
        result
    }

    fn charge(&mut self, steps: u64, bytes: usize) -> Result<(), String> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let charged = self.with_scope(|scope| scope.charge(steps).and_then(|()| scope.keep(bytes)));
        charged.map_err(|limit| limit.to_string())
    }

    fn call(&mut self, name: &str, args: Vec<Value>) -> Result<Value, String> {
        let expression = expression(name, &args)?;
        let key = (expression, args.len());
        let parsed = match PARSED.get(&key) {
            Some(parsed) => parsed,
            None => {
                let parsed = go_template::parse("handlebars", text(&key.0, key.1), &FUNCTIONS)
                    .map_err(|error| error.kind.to_string())?;
                let parsed = Arc::new(parsed);
                PARSED.put(key, Arc::clone(&parsed), name.len());
                parsed
            }
        };
        let args = Value::list(fit(name, args));
        let done = self.with_scope(|scope| scope.execute_tree(parsed.main(), &args));
        done.map_err(|error| message(&error))?;
        Ok(mem::take(&mut self.host.result))
    }
}

type Key = (String, usize);

/// The small templates, by the call's text and number of arguments.
static PARSED: LazyLock<Cache<Key, Parsed>> = LazyLock::new(Cache::default);

static FUNCTIONS: LazyLock<FuncMap> = LazyLock::new(|| {
    let mut map = calls::all().clone();
    let keep = |scope: &mut Scope<'_>, args: &[Value]| {
        if let Some(render) = scope.host::<Render>() {
            render.result = args.first().cloned().unwrap_or_default();
        }
        Ok(Value::from(""))
    };
    map.insert(RESULT, Function::new(vec![Param::Any], None, keep));
    map
});

/// What is called, as Go writes it; for a method its name is in the arguments.
fn expression(name: &str, args: &[Value]) -> Result<String, String> {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if name == INVOKE {
        let method = args.get(1).and_then(Value::as_str).map(|name| name.to_text().into_owned()).unwrap_or_default();
        return if is_name(&method) {
            Ok(format!(".{method}"))
        } else {
            Err("invoke wants a value and a method's name".to_owned())
        };
    }
    // The names that Go's grammar keeps for itself are no functions.
    const KEYWORDS: [&str; 13] = [
        "block", "break", "continue", "define", "else", "end", "if", "nil", "range", "template", "true", "with",
        "false",
    ];
    if !is_name(name) || KEYWORDS.contains(&name) {
        return Err(format!("function {name:?} not defined"));
    }
    Ok(name.to_owned())
}

fn text(expression: &str, args: usize) -> String {
    let (call, first) = match expression.strip_prefix('.') {
        Some(method) => (format!("(index . 0).{method}"), 2),
        None => (expression.to_owned(), 0),
    };
    let args: String = (first..args).map(|index| format!(" (index . {index})")).collect();
    format!("{{{{{RESULT} ({call}{args})}}}}")
}

/// The arguments with the kinds of number that the parameters want: Handlebars has one kind, where Go's constants take the one that fits.
fn fit(name: &str, args: Vec<Value>) -> Vec<Value> {
    let Some(function) = calls::all().get(name) else { return args };
    let param = |index: usize| function.params().get(index).copied().or(function.variadic());
    let fitted = args.into_iter().enumerate().map(|(index, value)| match (param(index), whole(value.clone())) {
        (Some(Param::Int), Value::Int(number, _)) => Value::int(number),
        (Some(Param::Int64), Value::Int(number, _)) => Value::int64(number),
        (Some(Param::Float), Value::Int(number, _)) => Value::Float(number as f64),
        _ => value,
    });
    fitted.collect()
}

/// What was wrong with the call itself, without the place in the small template.
fn message(error: &FuncError) -> String {
    match error {
        FuncError::Template(error) => match (error.limit(), &error.cause) {
            (Some(limit), _) => limit.to_string(),
            (None, Cause::Call { .. } | Cause::Eval(_) | Cause::Limit(_)) => error.cause.to_string(),
        },
        other => other.to_string(),
    }
}

/// The helpers of one run.
#[derive(Clone)]
pub(super) struct Functions(Arc<Mutex<State>>);

impl Functions {
    /// Gives the registry every function. Data of a function's name goes before a call without arguments.
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

    /// Everything that a template prints of its data comes by here.
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
    /// In a subexpression: the result as data.
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

    /// In the text: the result as it prints.
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

/// Whether the name is that of a function that can be called without arguments.
fn takes_nothing(name: &str) -> bool {
    calls::all().get(name).is_some_and(|function| function.params().is_empty())
}

/// An argument as Go's value: for a path that very value of the top-level object.
fn argument(state: &State, param: &PathAndJson<'_>, context: &Json) -> Value {
    // The crate knows `@root.x` but not `@root`.
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

/// Prints its text as the crate prints values, indentation of partials included.
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

/// The calls that count.
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
                return Err(other(format!("limit partials exceeded: {MAX_PARTIALS} partials inside each other")));
            }
            ENTER => state.partials += 1,
            LEAVE => state.partials = state.partials.saturating_sub(1),
            _ => {}
        }
        let bytes = helper.param(0).and_then(|param| param.value().as_u64()).unwrap_or(0);
        state.charge(STEPS_PER_BLOCK, usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(other)
    }
}

fn other(message: String) -> RenderError {
    RenderErrorReason::Other(message).into()
}
