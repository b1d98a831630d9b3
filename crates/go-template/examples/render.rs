//! Renders a template file with values from JSON: `cargo run -p hybrid-go-template --example render -- TEMPLATE [JSON]`.
//!
//! The template may call `upper`, `default` and `include`. Numbers become `float64`, as in Go's `encoding/json`.

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::{env, fs, io};

use go_template::{FuncMap, Function, Limits, Map, MissingKey, Options, Param, Scope, Str, Templates, Value, parse};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let name = args.next().ok_or("usage: render TEMPLATE [JSON]")?;
    let data = match args.next() {
        Some(file) => from_json(serde_json::from_slice(&fs::read(file)?)?),
        None => Value::Nil,
    };
    let output = render(&name, fs::read(&name)?, &data)?;
    Ok(io::stdout().write_all(&output)?)
}

fn render(name: &str, text: Vec<u8>, data: &Value) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut templates = Templates::new("render");
    templates.add(&parse(name, text, &functions())?);
    // The template is untrusted: allow a hundredth of the default, about ten milliseconds.
    let limits = Limits { steps: Limits::STEPS / 100, ..Limits::default() };
    let options = Options { missing_key: MissingKey::Error, limits, ..Options::default() };
    Ok(Scope::new(Arc::new(templates), options).execute(name, data)?)
}

fn functions() -> FuncMap {
    let mut funcs = FuncMap::default();
    funcs.add("upper", |text: Str| text.to_text().to_uppercase());
    funcs.add("default", |default: Value, value: Value| if value.is_true() { value } else { default });
    funcs.insert("include", Function::new(vec![Param::String, Param::Any], None, include));
    funcs
}

/// Returns the output of another template, as a value that functions can process.
fn include(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, go_template::FuncError> {
    let name = args[0].as_str().cloned().unwrap_or_default();
    Ok(Value::String(scope.execute(name, &args[1])?.into()))
}

fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(b) => Value::Bool(b),
        serde_json::Value::Number(n) => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(s) => s.into(),
        serde_json::Value::Array(items) => Value::list(items.into_iter().map(from_json).collect()),
        serde_json::Value::Object(entries) => {
            Value::Map(entries.into_iter().map(|(key, value)| (key, from_json(value))).collect::<Map>())
        }
    }
}
