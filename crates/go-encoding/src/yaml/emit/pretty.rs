//! Emits values that yaml.v3 writes directly and that yaml.v2 receives as JSON: numbers, bytes, and structs with lower-case field names.

use go_template::{Field, Object, Value};

use super::scalar::{self, Context, Fold};
use super::writer::Level;
use super::{Emitter, Result};
use crate::json::{base64, number};
use crate::yaml::EmitError;

impl Emitter {
    pub(super) fn pretty_leaf(&mut self, value: &Value, context: Context) -> Result {
        match value {
            Value::Float(number) => self.writer.word(&float(*number)),
            Value::String(bytes) => self.pretty_string(bytes, context),
            Value::Bytes(bytes) => {
                let items = bytes.iter().map(|byte| Value::int(i64::from(*byte))).collect();
                return self.node(&Value::list(items), context);
            }
            _ => return Err(EmitError::CannotMarshal(value.type_name().to_owned())),
        }
        Ok(())
    }

    fn pretty_string(&mut self, bytes: &[u8], context: Context) {
        match std::str::from_utf8(bytes) {
            Ok(text) => scalar::write(&mut self.writer, text, context, self.dialect),
            Err(_) => {
                self.writer.word("!!binary");
                scalar::write_plain(&mut self.writer, &base64(bytes), Fold::Never);
            }
        }
    }

    pub(super) fn pretty_object(&mut self, object: &dyn Object, context: Context) -> Result {
        match (object.type_name().trim_start_matches('*'), object.display()) {
            ("time.Time", _) => {
                if let Value::String(text) = object.data() {
                    self.writer.word(&text.to_text());
                    return Ok(());
                }
            }
            ("time.Duration" | "semver.Version", Some(text)) => {
                self.pretty_string(&text, context);
                return Ok(());
            }
            _ => {}
        }
        let fields = object.fields();
        if fields.is_empty() { self.node(&object.data(), context) } else { self.structure(&fields) }
    }

    fn structure(&mut self, fields: &[Field]) -> Result {
        let seen: Vec<_> = fields.iter().filter(|field| field.is_exported()).collect();
        if seen.is_empty() {
            self.writer.indicator("{}");
            return Ok(());
        }
        let outer = self.writer.increase_indent(Level::Collection);
        for field in seen {
            self.key(&field.name.to_lowercase());
            self.node(&field.value, Context { mapping: true, simple_key: false })?;
        }
        self.writer.restore_indent(outer);
        Ok(())
    }
}

fn float(value: f64) -> String {
    match number::shortest(value).as_str() {
        "+Inf" => ".inf".to_owned(),
        "-Inf" => "-.inf".to_owned(),
        "NaN" => ".nan".to_owned(),
        text => text.to_owned(),
    }
}
