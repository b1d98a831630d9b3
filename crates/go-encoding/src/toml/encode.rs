//! Encodes values as TOML: plain keys before tables, each sorted and indented by depth. Counterpart: BurntSushi/toml's `Encoder`.

use go_template::{Field, Kind, List, Object, Value};

use super::{MAX_DEPTH, key_text, path_text, quoted};
use crate::json::{number, to_utf8};

/// Maximum length of the output, in bytes.
pub const MAX_OUTPUT: usize = 64 << 20;

/// The reason why a value could not be encoded, in BurntSushi/toml's words except for our own limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// An array contains nil.
    #[error("toml: cannot encode array with nil element")]
    NilElement,
    /// The top level is a list of maps.
    #[error("toml: top-level values must be Go maps or structs")]
    NoKey,
    /// The top level is nil, for which BurntSushi/toml panics.
    #[error("reflect: call of reflect.Value.Type on zero Value")]
    Nil,
    /// TOML cannot represent the kind of the value at the top level: see [`UnsupportedType`](Self::UnsupportedType).
    #[error("unsupported type for key '': {0}")]
    UnsupportedDocument(&'static str),
    /// TOML cannot represent values of this kind, such as functions.
    #[error("unsupported type: {0}")]
    UnsupportedType(&'static str),
    /// The value nests deeper than [`MAX_DEPTH`].
    #[error("toml: exceeded max depth of {0}")]
    TooDeep(usize),
    /// The output is longer than [`MAX_OUTPUT`].
    #[error("toml: output is longer than {0} bytes")]
    TooLong(usize),
}

/// Encodes a value: a map as a document, any other value as its text alone.
///
/// # Errors
/// TOML cannot represent the value, or it exceeds [`MAX_DEPTH`] or [`MAX_OUTPUT`].
///
/// ```
/// use go_encoding::toml::encode;
/// use go_template::{Map, Value};
///
/// let map: Map = [("name", Value::from("web")), ("replicas", Value::int64(2))].into_iter().collect();
/// assert_eq!(encode(&Value::Map(map))?, b"name = \"web\"\nreplicas = 2\n");
/// # Ok::<(), go_encoding::toml::EncodeError>(())
/// ```
pub fn encode(value: &Value) -> Result<Vec<u8>, EncodeError> {
    if matches!(value, Value::Nil) {
        return Err(EncodeError::Nil);
    }
    if matches!(value, Value::Complex(..) | Value::Func(_)) {
        return Err(EncodeError::UnsupportedDocument(value.kind().name()));
    }
    let mut encoder = Encoder { out: String::new(), depth: 0 };
    encoder.entry(&[], value)?;
    Ok(encoder.out.into_bytes())
}

type Result<T, E = EncodeError> = std::result::Result<T, E>;

/// The form of a value in TOML.
enum Form {
    Scalar,
    Array,
    Table,
    Tables,
}

/// The style in which a table is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// On several lines.
    Block,
    /// In braces on one line.
    Inline,
}

struct Encoder {
    out: String,
    depth: usize,
}

impl Encoder {
    /// Encodes the value of a full key.
    fn entry(&mut self, key: &[String], value: &Value) -> Result<()> {
        match (form(value, 0)?, value) {
            (Form::Tables, Value::List(list)) => self.tables(key, list),
            (Form::Table, _) => self.table(key, fields(value)),
            _ => self.key_value(key, value, Style::Block),
        }
    }

    fn table(&mut self, key: &[String], fields: Vec<(String, Value)>) -> Result<()> {
        if key.len() == 1 {
            self.new_line();
        }
        if !key.is_empty() {
            let header = format!("{}[{}]", indent(key), path_text(key));
            self.out.push_str(&header);
            self.new_line();
        }
        self.fields(key, fields, Style::Block)
    }

    fn tables(&mut self, key: &[String], list: &List) -> Result<()> {
        if key.is_empty() {
            return Err(EncodeError::NoKey);
        }
        for item in list.iter() {
            self.new_line();
            let header = format!("{}[[{}]]", indent(key), path_text(key));
            self.out.push_str(&header);
            self.new_line();
            self.fields(key, fields(item), Style::Block)?;
        }
        Ok(())
    }

    fn fields(&mut self, key: &[String], fields: Vec<(String, Value)>, style: Style) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(EncodeError::TooDeep(MAX_DEPTH));
        }
        let (mut direct, mut tables) = (Vec::new(), Vec::new());
        for (name, value) in fields {
            let is_table = matches!(form(&value, 0)?, Form::Table | Form::Tables);
            if is_table { tables.push((name, value)) } else { direct.push((name, value)) }
        }
        if style == Style::Inline {
            self.out.push('{');
        }
        let count = direct.len() + tables.len();
        for (i, (name, value)) in direct.iter().chain(&tables).enumerate() {
            self.field(key, (name, value), style)?;
            if style == Style::Inline && !value.is_nil() && i + 1 < count {
                self.out.push_str(", ");
            }
        }
        if style == Style::Inline {
            self.out.push('}');
        }
        self.depth -= 1;
        Ok(())
    }

    fn field(&mut self, key: &[String], (name, value): (&String, &Value), style: Style) -> Result<()> {
        // TOML has no null.
        if value.is_nil() {
            return Ok(());
        }
        match style {
            Style::Inline => self.key_value(std::slice::from_ref(name), value, Style::Inline),
            Style::Block => self.entry(&key.iter().chain([name]).cloned().collect::<Vec<String>>(), value),
        }
    }

    fn key_value(&mut self, key: &[String], value: &Value, style: Style) -> Result<()> {
        let Some(name) = key.last() else { return self.element(value) };
        self.out.push_str(&indent(key));
        self.out.push_str(&key_text(name));
        self.out.push_str(" = ");
        self.element(value)?;
        if style == Style::Block {
            self.new_line();
        }
        if self.out.len() > MAX_OUTPUT {
            return Err(EncodeError::TooLong(MAX_OUTPUT));
        }
        Ok(())
    }

    fn element(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Bool(yes) => self.out.push_str(if *yes { "true" } else { "false" }),
            Value::Int(number, _) => self.out.push_str(&number.to_string()),
            Value::Uint(number, _) => self.out.push_str(&number.to_string()),
            Value::Float(number) => self.out.push_str(&float(*number)),
            Value::String(text) => self.out.push_str(&quoted(&to_utf8(text))),
            Value::Bytes(bytes) => {
                let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
                self.out.push_str(&format!("[{}]", bytes.join(", ")));
            }
            Value::List(list) => self.array(list)?,
            Value::Map(_) => self.fields(&[], fields(value), Style::Inline)?,
            Value::Object(object) => self.object(value, &**object)?,
            Value::Nil | Value::Complex(..) | Value::Func(_) => {
                return Err(EncodeError::UnsupportedType(value.kind().name()));
            }
        }
        Ok(())
    }

    fn array(&mut self, list: &List) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(EncodeError::TooDeep(MAX_DEPTH));
        }
        self.out.push('[');
        for (i, item) in list.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.element(item)?;
        }
        self.out.push(']');
        self.depth -= 1;
        if self.out.len() > MAX_OUTPUT {
            return Err(EncodeError::TooLong(MAX_OUTPUT));
        }
        Ok(())
    }

    fn object(&mut self, value: &Value, object: &dyn Object) -> Result<()> {
        match (object.type_name().trim_start_matches('*'), object.data()) {
            ("time.Time", Value::String(text)) => self.out.push_str(local_part(&text.to_text(), object)),
            ("time.Duration", data) => {
                let text = object.display().map_or(data, Value::String);
                self.element(&text)?;
            }
            (_, Value::Map(_)) => self.fields(&[], fields(value), Style::Inline)?,
            (_, data) => self.element(&data)?,
        }
        Ok(())
    }

    fn new_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }
}

/// Reduces the text of a time to the parts that it was parsed from.
fn local_part<'t>(text: &'t str, object: &dyn Object) -> &'t str {
    let shown = object.display().unwrap_or_default();
    let whole = text.find(['Z', '+']).or(text.rfind('-')).and_then(|end| text.get(..end)).unwrap_or(text);
    match shown.rsplit(|b| *b == b' ').next() {
        Some(b"datetime-local") => whole,
        Some(b"date-local") => whole.get(..10).unwrap_or(whole),
        Some(b"time-local") => whole.get(11..).unwrap_or(whole),
        _ => text,
    }
}

fn indent(key: &[String]) -> String {
    "  ".repeat(key.len().saturating_sub(1))
}

/// Chooses the form of a value; fails for an array that contains nil.
fn form(value: &Value, depth: usize) -> Result<Form> {
    if depth > MAX_DEPTH {
        return Err(EncodeError::TooDeep(MAX_DEPTH));
    }
    match value {
        Value::Map(_) => Ok(Form::Table),
        Value::Object(object) if matches!(object.kind(), Kind::Struct | Kind::Ptr | Kind::Map) => {
            Ok(if matches!(object.data(), Value::Map(_)) { Form::Table } else { Form::Scalar })
        }
        Value::List(list) => {
            let mut tables = !list.is_empty();
            for item in list.iter() {
                if item.is_nil() {
                    return Err(EncodeError::NilElement);
                }
                tables &= matches!(form(item, depth + 1)?, Form::Table);
            }
            Ok(if tables { Form::Tables } else { Form::Array })
        }
        Value::Complex(..) | Value::Func(_) => Err(EncodeError::UnsupportedType(value.kind().name())),
        _ => Ok(Form::Scalar),
    }
}

/// Returns the entries of a table: a struct's fields with Go's names and in Go's order, or a map's entries.
fn fields(value: &Value) -> Vec<(String, Value)> {
    let map = match value {
        Value::Map(map) => map.clone(),
        Value::Object(object) => match object.fields() {
            fields if fields.is_empty() => object.data().as_map().cloned().unwrap_or_default(),
            fields => {
                let seen = fields.into_iter().filter(Field::is_exported);
                return seen.map(|field| (field.name.to_owned(), field.value)).collect();
            }
        },
        _ => return Vec::new(),
    };
    map.snapshot().into_iter().map(|(key, value)| (to_utf8(&key).into_owned(), value)).collect()
}

fn float(value: f64) -> String {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    let text = number::shortest(value);
    if text.contains(['e', '.']) { text } else { format!("{text}.0") }
}
