//! Converts between Go values and the JSON that Handlebars uses: within limits, and without loss for values that JSON cannot represent.

use std::collections::VecDeque;

use go_template::{LimitError, Map, Str, Value};
use serde_json::{Map as Fields, Number, Value as Json};

use go_encoding::json;

/// Maximum number of values in the data of a template, which are copied into JSON.
pub(super) const MAX_VALUES: usize = 1_000_000;

/// Maximum size of the texts in the data, in bytes.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// The key under which a JSON object holds the number of the Go object that it represents.
const OBJECT: &str = "\u{0}object";

/// Number of results to remember: the enclosing call uses the result of a subexpression immediately.
const RECENT: usize = 32;

/// The Go values that JSON values represent.
#[derive(Default)]
pub(super) struct Memory {
    objects: Vec<Value>,
    recent: VecDeque<(Json, Value)>,
}

impl Memory {
    /// Converts a value to JSON: integral numbers without a decimal point, objects with their fields.
    pub(super) fn json_of(&mut self, value: &Value) -> Result<Json, LimitError> {
        let mut budget = Budget { values: MAX_VALUES, bytes: MAX_BYTES };
        self.convert(value, 0, &mut budget)
    }

    /// Converts the result of a call to JSON and remembers it for [`to_value`](Memory::to_value). Numbers keep their type.
    pub(super) fn keep(&mut self, value: Value) -> Result<Json, LimitError> {
        let json = match &value {
            Value::Float(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
            other => self.json_of(other)?,
        };
        if matches!(value, Value::Map(_) | Value::List(_) | Value::Bytes(_)) {
            self.recent.truncate(RECENT - 1);
            self.recent.push_front((json.clone(), value));
        }
        Ok(json)
    }

    /// Converts JSON to a value; integral numbers become ints. JSON that was converted from a value yields that value.
    pub(super) fn to_value(&self, json: &Json, top: (&Json, &Value)) -> Value {
        if let Some((_, value)) = self.recent.iter().find(|(known, _)| known == json) {
            return value.clone();
        }
        match json {
            Json::Object(fields) => self.object(fields, top).unwrap_or_else(|| self.fields(fields, top)),
            Json::Array(items) => Value::list(items.iter().map(|item| self.to_value(item, top)).collect()),
            Json::Number(number) => number.as_i64().map_or_else(|| json::from_serde(json), Value::int),
            other => json::from_serde(other),
        }
    }

    fn object(&self, fields: &Fields<String, Json>, (json, value): (&Json, &Value)) -> Option<Value> {
        if let Some(number) = fields.get(OBJECT).and_then(Json::as_u64) {
            return self.objects.get(usize::try_from(number).ok()?).cloned();
        }
        (json.as_object() == Some(fields)).then(|| value.clone())
    }

    /// Converts the entries. A partial with arguments sees the top-level object, extended by them.
    fn fields(&self, fields: &Fields<String, Json>, top: (&Json, &Value)) -> Value {
        let whole = fields.contains_key("Values") && fields.contains_key("Release");
        let of_top = |key: &str, field: &Json| {
            let same = whole && top.0.get(key) == Some(field);
            same.then(|| top.1.as_map()?.get(key)).flatten()
        };
        let entries = fields.iter().map(|(key, field)| {
            let value = of_top(key, field).unwrap_or_else(|| self.to_value(field, top));
            (Str::from(key.as_str()), value)
        });
        Value::Map(entries.collect::<Map>())
    }

    fn convert(&mut self, value: &Value, depth: usize, budget: &mut Budget) -> Result<Json, LimitError> {
        if depth > json::MAX_DEPTH {
            let message = format!("values are nested more than {} deep", json::MAX_DEPTH);
            return Err(LimitError { name: "depth", message });
        }
        budget.take(value)?;
        match value {
            Value::List(list) => {
                let items = list.iter().map(|item| self.convert(item, depth + 1, budget));
                Ok(Json::Array(items.collect::<Result<_, _>>()?))
            }
            Value::Map(map) => self.convert_map(map, depth, budget).map(Json::Object),
            Value::Object(object) => {
                let mut fields = Fields::new();
                for field in object.fields().iter().filter(|field| field.is_exported()) {
                    fields.insert(field.name.to_owned(), self.convert(&field.value, depth + 1, budget)?);
                }
                fields.insert(OBJECT.to_owned(), Json::from(self.objects.len()));
                self.objects.push(value.clone());
                Ok(Json::Object(fields))
            }
            other => Ok(json::to_serde(other)),
        }
    }

    fn convert_map(
        &mut self,
        map: &Map,
        depth: usize,
        budget: &mut Budget,
    ) -> Result<Fields<String, Json>, LimitError> {
        let entries: Vec<(Str, Value)> =
            map.entries().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let pairs = entries
            .iter()
            .map(|(key, value)| Ok((key.to_text().into_owned(), self.convert(value, depth + 1, budget)?)));
        pairs.collect()
    }
}

struct Budget {
    values: usize,
    bytes: usize,
}

impl Budget {
    fn take(&mut self, value: &Value) -> Result<(), LimitError> {
        let bytes = value.as_str().map_or(0, |text| text.len());
        let left = (self.values.checked_sub(1), self.bytes.checked_sub(bytes));
        let (Some(values), Some(bytes)) = left else {
            let message = format!("{MAX_VALUES} values, {MAX_BYTES} bytes");
            return Err(LimitError { name: "values", message });
        };
        (self.values, self.bytes) = (values, bytes);
        Ok(())
    }
}

/// Converts an integral float to an int: the numbers of charts are floats, and Handlebars has a single number type.
pub(super) fn whole(value: Value) -> Value {
    match value {
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 => {
            Value::int(number as i64)
        }
        other => other,
    }
}
