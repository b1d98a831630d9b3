//! Decodes fields of a YAML document as Go decodes into a struct, with Go's error texts for wrong types.
//!
//! sigs.k8s.io/yaml first converts the document to JSON. During this conversion, numbers and booleans become strings if the struct requires a string.

use go_encoding::json;
use go_template::{List, Map, Value};

/// A value whose type does not fit the Go struct that Helm decodes into.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go {target} of type {wanted}"
)]
pub struct WrongType {
    found: &'static str,
    target: String,
    wanted: String,
}

impl WrongType {
    /// Creates the error for a field of the struct `owner` that holds `found` where Go requires the type `wanted`.
    pub(crate) fn field(owner: &str, key: &str, found: &Value, wanted: &str) -> WrongType {
        WrongType::new(found, format!("struct field {owner}.{key}"), wanted)
    }

    fn new(found: &Value, target: impl Into<String>, wanted: &str) -> WrongType {
        WrongType { found: json::kind(found), target: target.into(), wanted: wanted.to_owned() }
    }
}

/// Returns the document's map, or `None` for a null, which leaves a struct unchanged.
pub(crate) fn object<'a>(document: &'a Value, go_type: &str) -> Result<Option<&'a Map>, WrongType> {
    match document {
        Value::Nil => Ok(None),
        Value::Map(map) => Ok(Some(map)),
        other => Err(WrongType::new(other, "value", go_type)),
    }
}

/// The fields of one struct. Absent and null fields leave their targets unchanged.
pub(crate) struct Fields<'a> {
    pub(crate) map: &'a Map,
    /// The struct's name in Go's errors.
    pub(crate) owner: &'a str,
}

impl Fields<'_> {
    /// Returns the field unless it is null. Like Go's decoder, falls back to a key that differs only in case.
    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        let in_other_case = || {
            let entries = self.map.entries();
            entries.iter().find(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes())).map(|(_, value)| value.clone())
        };
        self.map.get(key).or_else(in_other_case).filter(|value| !matches!(value, Value::Nil))
    }

    fn wrong(&self, key: &str, found: &Value, wanted: &str) -> WrongType {
        WrongType::field(self.owner, key, found, wanted)
    }

    pub(crate) fn text(&self, key: &str, into: &mut String) -> Result<(), WrongType> {
        if let Some(value) = self.get(key) {
            *into = self.scalar(key, &value)?;
        }
        Ok(())
    }

    pub(crate) fn texts(&self, key: &str, into: &mut Vec<String>) -> Result<(), WrongType> {
        if let Some(items) = self.list(key, "[]string")? {
            *into = items.iter().map(|item| self.scalar(key, item)).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Decodes a `map[string]string`, in the order of its keys.
    pub(crate) fn text_map(&self, key: &str, into: &mut Vec<(String, String)>) -> Result<(), WrongType> {
        match self.get(key) {
            None => {}
            Some(Value::Map(entries)) => {
                let entries = entries.snapshot().into_iter();
                *into = entries
                    .map(|(name, value)| Ok((name.to_text().into_owned(), self.scalar(key, &value)?)))
                    .collect::<Result<_, WrongType>>()?;
            }
            Some(other) => return Err(self.wrong(key, &other, "map[string]string")),
        }
        Ok(())
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, WrongType> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(key, &other, "bool")),
        }
    }

    pub(crate) fn list(&self, key: &str, wanted: &str) -> Result<Option<List>, WrongType> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::List(list)) => Ok(Some(list)),
            Some(other) => Err(self.wrong(key, &other, wanted)),
        }
    }

    fn scalar(&self, key: &str, value: &Value) -> Result<String, WrongType> {
        match value {
            Value::Nil => Ok(String::new()),
            Value::String(text) => Ok(text.to_text().into_owned()),
            Value::Bool(flag) => Ok(flag.to_string()),
            Value::Float(number) => Ok(number_text(*number)),
            other => Err(self.wrong(key, other, "string")),
        }
    }
}

/// Formats a number like sigs.k8s.io/yaml where a string is required: whole numbers with all their digits.
fn number_text(number: f64) -> String {
    let is_whole = number.fract() == 0.0 && number.abs() < 9.2e18;
    golibs::strconv::format_float(number, if is_whole { b'f' } else { b'g' }, None)
}
