//! The functions that depend on the current render: `include`, `tpl`, `lookup`. Counterpart: Helm's `pkg/engine/engine.go`.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hashbrown::HashMap;
use memchr::memmem::Finder;

use golibs::cache::Cache;
use golibs::clock::Instant;
use golibs::shorten::{MAX_MESSAGE, shorten};
use golibs::work::{SlowTime, note_time};

use go_template::{FuncError, FuncMap, Function, Param, Parsed, Scope, Str, Templates, Value};

use super::lookup::Lookup;

/// Maximum number of nested includes of the same template: Helm's own limit.
const MAX_INCLUDES: u32 = 1000;

/// Bytes of source text that are parsed per step.
const PARSED_PER_STEP: usize = 4;

/// The state of a render that its functions use.
#[derive(Default)]
pub(super) struct Render {
    /// The number of running includes of each template.
    pub(super) included: HashMap<Str, u32>,
    /// Access to the cluster, if there is one.
    pub(super) lookup: Option<Arc<dyn Lookup>>,
    /// The parsed texts of `tpl`.
    pub(super) parsed: Arc<Cache<Str, Arc<Parsed>>>,
    /// The result of a call from a Handlebars template.
    pub(super) result: Value,
    /// Whether a template has asked for what the cluster cannot tell now.
    pub(super) is_unanswered: bool,
}

/// Returns all functions of Helm's engine.
pub(crate) fn all() -> &'static FuncMap {
    static FUNCTIONS: LazyLock<FuncMap> = LazyLock::new(|| {
        let mut map = sprig::func_map();
        let string_and_data = || vec![Param::String, Param::Any];
        map.insert("include", Function::new(string_and_data(), None, include));
        map.insert("tpl", Function::new(string_and_data(), None, tpl));
        map.insert("lookup", Function::new(vec![Param::String; 4], None, lookup));
        map
    });
    &FUNCTIONS
}

fn include(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let [Value::String(name), data] = args else { return Ok(Value::Nil) };
    if let Some(render) = scope.host::<Render>() {
        let count = match render.included.get_mut(name) {
            Some(count) => count,
            None => render.included.entry(name.clone()).or_default(),
        };
        if *count > MAX_INCLUDES {
            return Err(FuncError::new(format!(
                "rendering template has a nested reference name: {name}: unable to execute template"
            )));
        }
        *count += 1;
    }
    let result = scope.execute_into(name, data, |output| Str::from(output));
    if let Some(count) = scope.host::<Render>().and_then(|render| render.included.get_mut(name)) {
        *count -= 1;
    }
    result.map(Value::String).map_err(limit_first)
}

/// Reduces an error to the limit that caused it, if one did: its context may be as long as the limit is high.
fn limit_first(error: FuncError) -> FuncError {
    match error.limit() {
        Some(limit) => FuncError::Limit(limit.clone()),
        None => error,
    }
}

fn tpl(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let [Value::String(template), data] = args else { return Ok(Value::Nil) };
    static ACTION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"{{"));
    if ACTION.find(template).is_none() {
        return plain(scope, template);
    }
    let parsed =
        parse(scope, template).map_err(|error| error.context(format!("cannot parse template {}", quoted(template))))?;
    let mut templates = Templates::overlay(scope.templates());
    templates.add(&parsed);
    let execute = |scope: &mut Scope<'_>| {
        scope.execute_tree_into(parsed.main(), data, |output| Str::from(&*without_no_value(output)))
    };
    let output = scope.with_templates(Arc::new(templates), execute).map_err(|error| match limit_first(error) {
        FuncError::Limit(limit) => FuncError::Limit(limit),
        error => error.context(format!("error during tpl function execution for {}", quoted(template))),
    })?;
    Ok(Value::String(output))
}

/// Returns the result of `tpl` for text without actions: the text itself, at the cost of one step.
fn plain(scope: &mut Scope<'_>, text: &Str) -> Result<Value, FuncError> {
    scope.charge(u64::from(!text.is_empty()))?;
    Ok(Value::String(match without_no_value(text) {
        Cow::Borrowed(_) => text.clone(),
        Cow::Owned(clean) => clean.into(),
    }))
}

fn parse(scope: &mut Scope<'_>, template: &Str) -> Result<Arc<Parsed>, FuncError> {
    let cache = scope.host::<Render>().map(|render| Arc::clone(&render.parsed));
    if let Some(parsed) = cache.as_ref().and_then(|cache| cache.get(template)) {
        return Ok(parsed);
    }
    scope.charge((template.len() / PARSED_PER_STEP) as u64)?;
    let name = scope.templates().name().to_owned();
    let parsed = Arc::new(go_template::parse(name, template.clone(), all())?);
    if let Some(cache) = cache {
        cache.put(template.clone(), Arc::clone(&parsed), template.len() + parsed.bytes());
    }
    Ok(parsed)
}

fn lookup(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let Some(cluster) = scope.host::<Render>().and_then(|render| render.lookup.clone()) else {
        return Ok(Value::Map(go_template::Map::default()));
    };
    let part = |index| text(args, index).to_text().into_owned();
    let began = Instant::now();
    let found = cluster.lookup(&part(0), &part(1), &part(2), &part(3));
    // The chart is not charged for the server's time, which the implementation of `Lookup` limits.
    note_time(SlowTime { processor: Duration::ZERO, elapsed: began.elapsed() });
    found.map_err(|error| FuncError::new(error.to_string()))
}

fn text(args: &[Value], index: usize) -> Str {
    args.get(index).and_then(Value::as_str).cloned().unwrap_or_default()
}

/// Quotes a text for an error, shortening a long one: errors nest, and each may contain another text.
fn quoted(text: &Str) -> String {
    let short = match text.len() > MAX_MESSAGE {
        true => Str::from(shorten(&text.to_text(), MAX_MESSAGE).as_ref()),
        false => text.clone(),
    };
    let quoted = go_template::fmt::sprintf(b"%q", &[Value::String(short)]);
    String::from_utf8_lossy(&quoted).into_owned()
}

/// Removes `<no value>`, which Go prints for missing values, as Helm does.
pub(super) fn without_no_value(output: &[u8]) -> Cow<'_, [u8]> {
    const NO_VALUE: &[u8] = b"<no value>";
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(NO_VALUE));
    let Some(first) = FINDER.find(output) else { return Cow::Borrowed(output) };
    let mut clean = output[..first].to_vec();
    let mut rest = &output[first + NO_VALUE.len()..];
    while let Some(next) = FINDER.find(rest) {
        clean.extend_from_slice(&rest[..next]);
        rest = &rest[next + NO_VALUE.len()..];
    }
    clean.extend_from_slice(rest);
    Cow::Owned(clean)
}
