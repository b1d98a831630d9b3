//! Paths of values: what is at one, and whether two values are the same.

use std::fmt;

use go_template::{Map, Str, Value};

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A key of a table.
    Name(Str),
    /// The index of a list's item.
    Index(usize),
}

/// Formats a key as `--set` takes it: dots in names are escaped.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Name(name) => f.write_str(&name.to_text().replace('.', "\\.")),
            Key::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Formats a path as `--set` takes it: `image.tag`, `hosts[0].name`.
pub fn dotted(path: &[Key]) -> String {
    let mut text = String::new();
    for key in path {
        if !text.is_empty() && matches!(key, Key::Name(_)) {
            text.push('.');
        }
        text.push_str(&key.to_string());
    }
    text
}

/// Returns the value at a path, which may be nil.
pub(super) fn at(values: &Map, path: &[Key]) -> Option<Value> {
    path.iter().try_fold(Value::Map(values.clone()), |value, key| match (&value, key) {
        (Value::Map(table), Key::Name(name)) => table.get(name),
        (Value::List(list), Key::Index(index)) => list.get(*index).cloned(),
        _ => None,
    })
}

/// Returns whether a template cannot tell two values apart, so their types must also be equal.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a, of_a), Value::Int(b, of_b)) => a == b && of_a == of_b,
        (Value::Uint(a, of_a), Value::Uint(b, of_b)) => a == b && of_a == of_b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b)),
        (Value::Map(a), Value::Map(b)) => {
            let (a, b) = (a.snapshot(), b.snapshot());
            a.len() == b.len() && a.iter().zip(&b).all(|((key, a), (other, b))| key == other && same(a, b))
        }
        _ => false,
    }
}
