//! `.Files`: the chart's files that are not templates.
//!
//! Counterpart: Helm's `pkg/engine/files.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use go_template::{FuncError, Kind, List, ListType, Map, MapType, Object, Param, Scope, Str, Value};

use go_encoding::yaml;
use golibs::glob::{self, Work};
use sprig::{check_list, exceeded};

/// Work per step when matching a pattern.
const WORK_PER_STEP: u64 = 16;

/// Squared pattern length per step: compiling a pattern can take quadratic time.
const LENGTH_PER_STEP: u64 = 64;

/// Files by path.
#[derive(Clone, Debug, Default)]
pub(super) struct Files(Arc<BTreeMap<Str, Str>>);

impl Files {
    /// Creates the object from files with paths relative to the chart's folder.
    pub(super) fn new(files: impl IntoIterator<Item = (Str, Str)>) -> Files {
        Files(Arc::new(files.into_iter().collect()))
    }

    /// Returns the value that templates see.
    pub(super) fn to_value(&self) -> Value {
        Value::Object(Arc::new(self.clone()))
    }

    fn get(&self, path: &Str) -> Str {
        self.0.get(&**path).cloned().unwrap_or_default()
    }

    /// Returns the files that match the pattern, or all files if it is malformed, as in Helm.
    fn glob(&self, scope: &mut Scope<'_>, pattern: &Str) -> Result<Value, FuncError> {
        let glob = match glob::cached(&pattern.to_text()) {
            Ok(glob) => glob,
            Err(error) if error.limit().is_some() => return Err(glob_failed(error)),
            Err(_) => return Ok(self.to_value()),
        };
        scope.charge((pattern.len() as u64).pow(2) / LENGTH_PER_STEP)?;
        let mut work = Work::default();
        let mut found = Vec::new();
        for (path, data) in self.0.iter() {
            if glob.is_match(path, &mut work).map_err(glob_failed)? {
                found.push((path.clone(), data.clone()));
            }
        }
        scope.charge(work.done() as u64 / WORK_PER_STEP)?;
        Ok(Files::new(found).to_value())
    }

    /// Formats a YAML map from each file's base name to the result of `value` on its content.
    fn flat(&self, value: impl Fn(&Str) -> Str) -> Str {
        let entries = self.0.iter().map(|(path, data)| (base(path), Value::String(value(data)))).collect();
        let map = Value::Map(Map::new(MapType::String, entries));
        let text = yaml::emit(&map).unwrap_or_default();
        text.strip_suffix(b"\n").unwrap_or(&text).into()
    }

    /// Splits the file into lines. Counts them first, because five million lines take hundreds of megabytes.
    fn lines(&self, scope: &mut Scope<'_>, path: &Str) -> Result<Value, FuncError> {
        let data = self.get(path);
        if data.is_empty() {
            return Ok(List::strings(Vec::<Str>::new()).into());
        }
        let text = data.strip_suffix(b"\n").unwrap_or(&data);
        let count = text.iter().filter(|byte| **byte == b'\n').count() + 1;
        check_list("Lines", count)?;
        scope.reserve(count * size_of::<Value>() + text.len())?;
        let mut lines = Vec::with_capacity(count);
        lines.extend(text.split(|byte| *byte == b'\n').map(|line| Value::String(line.into())));
        Ok(List::new(ListType::String, lines).into())
    }
}

fn glob_failed(error: glob::Error) -> FuncError {
    let message = error.to_string();
    match error.limit() {
        Some(name) => exceeded(name, message),
        None => message.into(),
    }
}

/// Returns the last element of the path, like Go's `path.Base`.
fn base(path: &Str) -> Str {
    path.rsplit(|b| *b == b'/').next().unwrap_or_default().into()
}

impl Object for Files {
    fn type_name(&self) -> &str {
        "engine.files"
    }

    fn kind(&self) -> Kind {
        Kind::Map
    }

    fn field(&self, name: &str) -> Option<Value> {
        // Missing files are empty, as in a Go map of byte slices.
        Some(Value::Bytes(self.get(&name.into())))
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        match method {
            "Get" | "GetBytes" | "Glob" | "Lines" => Some((&[Param::String], None)),
            "AsConfig" | "AsSecrets" => Some((&[], None)),
            _ => None,
        }
    }

    fn call(&self, scope: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        let path = args.first().and_then(Value::as_str).cloned().unwrap_or_default();
        let value = match method {
            "Get" => Value::String(self.get(&path)),
            "GetBytes" => Value::Bytes(self.get(&path)),
            "Glob" => return Some(self.glob(scope, &path)),
            "AsConfig" => self.flat(Str::clone).into(),
            "AsSecrets" => self.flat(|data| base64::engine::general_purpose::STANDARD.encode(data).into()).into(),
            "Lines" => return Some(self.lines(scope, &path)),
            _ => return None,
        };
        Some(Ok(value))
    }

    fn data(&self) -> Value {
        let entries = self.0.iter().map(|(path, data)| (path.clone(), Value::Bytes(data.clone()))).collect();
        Map::new(MapType::Bytes, entries).into()
    }

    fn is_true(&self) -> bool {
        !self.0.is_empty()
    }
}
