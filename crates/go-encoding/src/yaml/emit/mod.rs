//! Emits values like sigs.k8s.io/yaml's `Marshal` (JSON, then yaml.v2's emitter, but without creating the JSON), and like yaml.v3's encoder.
//!
//! `scalar.rs` chooses and writes the style of strings, `order.rs` orders keys, `pretty.rs` is for yaml.v3 only. Counterpart: libyaml's emitter in
//! block style.

mod order;
mod pretty;
mod scalar;
mod writer;

use std::borrow::Cow;
use std::collections::BTreeMap;

use go_template::{List, Map, Str, Value};

use golibs::strconv::json_float;

use super::error::EmitError;
use super::read::FORBIDDEN;
use super::scan::MAX_SIMPLE_KEY;
use crate::json::{self, EncodeError, number};
use scalar::Context;
use writer::{Level, Writer};

/// Maximum length of the output, in bytes: a template can double a value repeatedly by adding it to a map twice.
pub const MAX_OUTPUT: usize = 64 << 20;

/// Length of a key above which it is written with a `?`.
const MAX_PLAIN_KEY: usize = 128;

type Result<T = (), E = EmitError> = std::result::Result<T, E>;

/// The upstream emitter to follow.
#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    /// yaml.v2, after JSON.
    V2,
    /// yaml.v3, indented by two spaces.
    V3,
}

/// Emits the value as YAML with a final line break. Counterpart: sigs.k8s.io/yaml's `Marshal`.
pub fn emit(value: &Value) -> Result<Vec<u8>> {
    run(value, Dialect::V2).map_err(|error| with_line(value, error))
}

/// Emits the value as YAML with a final line break, indented by two spaces. Counterpart: yaml.v3's encoder.
pub fn emit_pretty(value: &Value) -> Result<Vec<u8>> {
    run(value, Dialect::V3)
}

fn run(value: &Value, dialect: Dialect) -> Result<Vec<u8>> {
    let mut emitter = Emitter { writer: Writer::new(dialect), dialect, path: Vec::new() };
    emitter.node(value, Context::default())?;
    emitter.writer.indent_line();
    Ok(emitter.writer.into_bytes())
}

/// Returns Go's error for a value whose JSON is not valid YAML.
fn with_line(value: &Value, error: EmitError) -> EmitError {
    let EmitError::Yaml(_) = error else { return error };
    let text = match json::encode(value, json::EscapeHtml::Yes, json::Layout::Compact) {
        Ok(text) => text,
        Err(error) => return error.into(),
    };
    match super::compose::first_document(&text, super::MAX_VALUES) {
        Err(syntax) => EmitError::Yaml(syntax.to_string()),
        Ok(_) => error,
    }
}

struct Emitter {
    writer: Writer,
    dialect: Dialect,
    /// The maps around the current value, to distinguish a cycle from mere depth.
    path: Vec<Map>,
}

impl Emitter {
    fn node(&mut self, value: &Value, context: Context) -> Result {
        match value {
            // A nil slice or map becomes null in JSON; yaml.v3 writes an empty collection.
            Value::List(list) if list.is_nil() && self.dialect != Dialect::V3 => self.writer.word("null"),
            Value::List(list) => self.list(list, context)?,
            Value::Map(map) if map.is_nil() && self.dialect != Dialect::V3 => self.writer.word("null"),
            Value::Map(map) => self.map(map)?,
            Value::Object(object) if self.dialect == Dialect::V3 => self.pretty_object(&**object, context)?,
            Value::Object(object) => self.node(&object.data(), context)?,
            _ => self.leaf(value, context)?,
        }
        if self.writer.len() > MAX_OUTPUT {
            return Err(EmitError::TooLong(MAX_OUTPUT));
        }
        Ok(())
    }

    fn leaf(&mut self, value: &Value, context: Context) -> Result {
        match value {
            Value::Nil => self.writer.word("null"),
            Value::Bool(yes) => self.writer.word(if *yes { "true" } else { "false" }),
            Value::Int(number, _) => self.writer.word(&number.to_string()),
            Value::Uint(number, _) => self.writer.word(&number.to_string()),
            _ if self.dialect == Dialect::V3 => return self.pretty_leaf(value, context),
            Value::Float(number) => self.float(*number)?,
            Value::String(bytes) => self.string(bytes, context)?,
            Value::Bytes(bytes) => self.string(json::base64(bytes).as_bytes(), context)?,
            _ => return Err(EncodeError::UnsupportedType(value.type_name().to_owned()).into()),
        }
        Ok(())
    }

    fn float(&mut self, value: f64) -> Result {
        if value.fract() == 0.0 && value.abs() < number::MAX_EXACT {
            self.writer.word(&(value as i64).to_string());
            return Ok(());
        }
        let text = json_float(value).ok_or_else(|| EncodeError::unsupported(value))?;
        let whole = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
        self.writer.word(&if whole { text } else { number::shortest(value) });
        Ok(())
    }

    fn string(&mut self, bytes: &[u8], context: Context) -> Result {
        let text = readable(bytes)?;
        scalar::write(&mut self.writer, &text, context, self.dialect);
        Ok(())
    }

    fn list(&mut self, list: &List, context: Context) -> Result {
        if list.is_empty() {
            self.writer.indicator("[]");
            return Ok(());
        }
        json::check_depth(self.writer.depth, &self.path)?;
        let indentless = self.dialect == Dialect::V2 && context.mapping && !self.writer.indention;
        let outer = self.writer.increase_indent(if indentless { Level::SameColumn } else { Level::Collection });
        for item in list.iter() {
            self.writer.indent_line();
            self.writer.block_indicator("-");
            self.node(item, Context::default())?;
        }
        self.writer.restore_indent(outer);
        Ok(())
    }

    fn map(&mut self, map: &Map) -> Result {
        let entries = map.peek();
        if entries.is_empty() {
            self.writer.indicator("{}");
            return Ok(());
        }
        self.path.push(map.clone());
        json::check_depth(self.writer.depth, &self.path)?;
        let outer = self.writer.increase_indent(Level::Collection);
        for (key, value) in self.sorted(&entries)? {
            self.key(&key);
            self.node(value, Context { mapping: true, simple_key: false })?;
        }
        self.writer.restore_indent(outer);
        self.path.pop();
        Ok(())
    }

    /// Returns the entries in the dialect's order.
    fn sorted<'v>(&self, entries: &'v BTreeMap<Str, Value>) -> Result<Vec<(Cow<'v, str>, &'v Value)>> {
        let mut sorted = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = if self.dialect == Dialect::V2 { readable_key(key)? } else { json::to_utf8(key) };
            sorted.push((key, value));
        }
        order::sort(&mut sorted, self.dialect);
        Ok(sorted)
    }

    fn key(&mut self, key: &str) {
        self.writer.indent_line();
        if key.len() <= MAX_PLAIN_KEY && scalar::find_break(key).is_none() {
            scalar::write(&mut self.writer, key, Context { mapping: true, simple_key: true }, self.dialect);
            self.writer.attached_indicator(":");
        } else {
            self.writer.block_indicator("?");
            scalar::write(&mut self.writer, key, Context { mapping: true, simple_key: false }, self.dialect);
            self.writer.indent_line();
            self.writer.block_indicator(":");
        }
    }
}

/// Returns the result of parsing the string's JSON as YAML.
fn readable(bytes: &[u8]) -> Result<Cow<'_, str>> {
    let text = json::to_utf8(bytes);
    if memchr::memchr3(0x7F, 0xC2, 0xEF, text.as_bytes()).is_none() {
        return Ok(text);
    }
    if text.chars().any(is_refused) {
        return Err(EmitError::Yaml(FORBIDDEN.to_owned()));
    }
    // NEL is the only line break that JSON does not escape, so YAML folds it.
    if text.contains('\u{85}') {
        return super::unquote_json(&text).map(Cow::Owned).map_err(|syntax| EmitError::Yaml(syntax.to_string()));
    }
    Ok(text)
}

fn readable_key(bytes: &[u8]) -> Result<Cow<'_, str>> {
    // An escape has at most six characters per byte.
    if bytes.len() * 6 + 2 > MAX_SIMPLE_KEY && json::quoted(bytes).chars().count() > MAX_SIMPLE_KEY {
        return Err(EmitError::Yaml("did not find expected ',' or '}'".to_owned()));
    }
    let key = readable(bytes)?;
    if json::to_utf8(bytes).contains('\u{85}') {
        return Err(EmitError::Yaml("did not find expected ',' or '}'".to_owned()));
    }
    Ok(key)
}

fn is_refused(c: char) -> bool {
    matches!(c, '\u{7F}'..='\u{84}' | '\u{86}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}')
}
