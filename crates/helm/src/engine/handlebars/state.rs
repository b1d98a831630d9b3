//! The run of one Handlebars file. Each function call runs as a small Go template, so that arguments are checked and errors are worded as in Go
//! templates.

use std::mem;
use std::sync::{Arc, LazyLock};

use go_template::{
    Cause, FuncError, FuncMap, Function, LimitError, Options, Param, ParseError, Parsed, Scope, Spent, Templates, Value,
};
use serde_json::Value as Json;

use super::convert::{Memory, whole};
use crate::engine::calls::{self, Render};
use golibs::cache::Cache;

/// The name of the helper that calls a method: `(invoke Files "Get" "x")`.
const INVOKE: &str = "invoke";

/// The name of the function that stores the result of the small Go template as a value.
const RESULT: &str = "__result";

/// The reason why a function call fails. The texts are Go's, without a location in the small template.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("invoke needs a value and a method name")]
    Invoke,
    #[error("function {0:?} not defined")]
    Undefined(String),
    #[error("{}", .0.kind)]
    Syntax(Box<ParseError>),
    #[error("{}", message(.0))]
    Failed(FuncError),
}

pub(super) struct State {
    host: Render,
    templates: Arc<Templates>,
    options: Options,
    spent: Spent,
    pub(super) top: Value,
    pub(super) memory: Memory,
    /// The number of running partials.
    pub(super) partials: usize,
    /// The exceeded limit that a helper could not return as an error.
    pub(super) failed: Option<LimitError>,
}

impl State {
    /// Takes over the run of the Go templates until [`end`](State::end). Also returns the template's data.
    pub(super) fn begin(scope: &mut Scope<'_>, top: &Value) -> Result<(State, Json), LimitError> {
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

    /// Returns the run to the Go templates.
    pub(super) fn end(&mut self, scope: &mut Scope<'_>) {
        scope.set_spent(mem::take(&mut self.spent));
        if let Some(host) = scope.host::<Render>() {
            *host = mem::take(&mut self.host);
        }
    }

    fn with_scope<T>(&mut self, f: impl FnOnce(&mut Scope<'_>) -> T) -> T {
        let mut scope = Scope::new(Arc::clone(&self.templates), self.options.clone()).with_host(&mut self.host);
        scope.set_spent(mem::take(&mut self.spent));
        let result = f(&mut scope);
        self.spent = scope.take_spent();
        result
    }

    pub(super) fn charge(&mut self, steps: u64, bytes: usize) -> Result<(), LimitError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.with_scope(|scope| scope.charge(steps).and_then(|()| scope.keep_output(bytes)))
    }

    pub(super) fn call(&mut self, name: &str, args: Vec<Value>) -> Result<Value, CallError> {
        let expression = expression(name, &args)?;
        let key = (expression, args.len());
        let parsed = match PARSED.get(&key) {
            Some(parsed) => parsed,
            None => {
                let parsed = go_template::parse("handlebars", text(&key.0, key.1), &FUNCTIONS)
                    .map_err(|error| CallError::Syntax(Box::new(error)))?;
                let parsed = Arc::new(parsed);
                PARSED.put(key, Arc::clone(&parsed), name.len());
                parsed
            }
        };
        let args = Value::list(fit(name, args));
        self.with_scope(|scope| scope.execute_tree(parsed.main(), &args)).map_err(CallError::Failed)?;
        Ok(mem::take(&mut self.host.result))
    }
}

type Key = (String, usize);

/// The small templates, by the text and the number of arguments of the call.
static PARSED: LazyLock<Cache<Key, Arc<Parsed>>> = LazyLock::new(Cache::default);

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

/// Formats the function in Go's syntax; for `invoke`, the arguments contain the method's name.
fn expression(name: &str, args: &[Value]) -> Result<String, CallError> {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if name == INVOKE {
        let method = args.get(1).and_then(Value::as_str).map(|name| name.to_text().into_owned()).unwrap_or_default();
        return if is_name(&method) { Ok(format!(".{method}")) } else { Err(CallError::Invoke) };
    }
    // Go's keywords are not functions.
    const KEYWORDS: [&str; 13] = [
        "block", "break", "continue", "define", "else", "end", "if", "nil", "range", "template", "true", "with",
        "false",
    ];
    if !is_name(name) || KEYWORDS.contains(&name) {
        return Err(CallError::Undefined(name.to_owned()));
    }
    Ok(name.to_owned())
}

/// Returns the source of the small template that calls the function.
fn text(expression: &str, args: usize) -> String {
    let (call, first) = match expression.strip_prefix('.') {
        Some(method) => (format!("(index . 0).{method}"), 2),
        None => (expression.to_owned(), 0),
    };
    let args: String = (first..args).map(|index| format!(" (index . {index})")).collect();
    format!("{{{{{RESULT} ({call}{args})}}}}")
}

/// Converts numbers to the types of the parameters: Handlebars has a single number type, and Go's constants adapt.
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

/// Returns the error's text without the location in the small template.
fn message(error: &FuncError) -> String {
    match error {
        FuncError::Template(error) => match (error.limit(), &error.cause) {
            (Some(limit), _) => limit.to_string(),
            (None, Cause::Call { .. } | Cause::Eval(_) | Cause::Limit(_)) => error.cause.to_string(),
        },
        other => other.to_string(),
    }
}
