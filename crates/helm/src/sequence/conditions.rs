//! Conditions on an object's status, such as `{.succeeded} >= 1`.

use std::cmp::Ordering;

use serde_json::Value;

use super::path::Path;

/// The longest condition, in bytes.
const MAX_TEXT: usize = 1024;

/// The operators, longer ones first.
const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    AtMost,
    AtLeast,
    Less,
    Greater,
}

/// Compares what a path finds in a status with a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    path: Path,
    comparison: Comparison,
}

/// An operator and the scalar on its right.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    operator: Operator,
    scalar: Value,
}

impl Condition {
    /// Reads a path into the status in braces, an operator, and a scalar.
    pub(super) fn parse(text: &str) -> Option<Condition> {
        let (path, rest) = text.trim().strip_prefix('{').filter(|_| text.len() <= MAX_TEXT)?.split_once('}')?;
        Some(Condition { path: Path::parse(path)?, comparison: Comparison::parse(rest)? })
    }

    /// Returns whether it holds for something that the path finds. An object that does not exist satisfies no
    /// condition.
    pub(super) fn holds(&self, status: &Value) -> bool {
        self.path.find(status).into_iter().any(|found| self.comparison.holds(found))
    }
}

impl Comparison {
    /// Reads an operator and a scalar: a number, `true`, `false`, or a text with or without quotes.
    pub(super) fn parse(text: &str) -> Option<Comparison> {
        let text = text.trim_start();
        let (sign, operator) = OPERATORS.into_iter().find(|(sign, _)| text.starts_with(sign))?;
        let scalar = scalar(text[sign.len()..].trim())?;
        Some(Comparison { operator, scalar })
    }

    /// Returns whether a value compares in this way. Only numbers and texts have an order.
    pub(super) fn holds(&self, found: &Value) -> bool {
        let order = compare(found, &self.scalar);
        match self.operator {
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::Unequal => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

fn scalar(text: &str) -> Option<Value> {
    let quoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    if let Some(quoted) = quoted {
        return Some(quoted.into());
    }
    match serde_json::from_str(text) {
        Ok(Value::Array(_) | Value::Object(_) | Value::Null) => None,
        Ok(scalar) => Some(scalar),
        Err(_) => (!text.is_empty() && !text.starts_with(['[', '{', '"', '\''])).then(|| text.into()),
    }
}

fn compare(found: &Value, scalar: &Value) -> Option<Ordering> {
    match (found, scalar) {
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => (a == b).then_some(Ordering::Equal),
        _ => None,
    }
}
