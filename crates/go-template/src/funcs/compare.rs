//! `eq`, `ne`, `lt`, `le`, `gt` and `ge`, and which kinds can be compared. Counterpart: the comparisons in Go's `text/template/funcs.go`.

use std::sync::Arc;

use super::{BuiltinError, underlying};
use crate::fmt;
use crate::reflect::Reflected;
use crate::value::{Kind, Object, Value};

type Compared = Result<bool, BuiltinError>;

/// Go's classes of comparable kinds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BasicKind {
    Bool,
    Complex,
    Int,
    Float,
    String,
    Uint,
}

fn basic_kind(value: &Value) -> Option<BasicKind> {
    Some(match value {
        Value::Bool(_) => BasicKind::Bool,
        Value::Complex(..) => BasicKind::Complex,
        Value::Int(..) => BasicKind::Int,
        Value::Float(_) => BasicKind::Float,
        Value::String(_) => BasicKind::String,
        Value::Uint(..) => BasicKind::Uint,
        _ => return None,
    })
}

fn incompatible(a: &Value, b: &Value) -> BuiltinError {
    BuiltinError::Incompatible(a.type_name().to_owned(), b.type_name().to_owned())
}

/// Returns whether the first argument equals any of the others.
pub(crate) fn eq(args: &[Reflected]) -> Compared {
    let Some((first, others)) = args.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err(BuiltinError::MissingOperand);
    };
    for other in others {
        if equal(first.value(), other.value())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal(a: &Value, b: &Value) -> Compared {
    if let (Value::String(a), Value::String(b)) = (a, b) {
        return Ok(a == b);
    }
    let (x, y) = (underlying(a), underlying(b));
    match (&x, &y) {
        (Value::Bool(x), Value::Bool(y)) => Ok(x == y),
        (Value::Complex(xr, xi), Value::Complex(yr, yi)) => Ok(xr == yr && xi == yi),
        (Value::Float(x), Value::Float(y)) => Ok(x == y),
        (Value::Int(x, _), Value::Int(y, _)) => Ok(x == y),
        (Value::Uint(x, _), Value::Uint(y, _)) => Ok(x == y),
        (Value::String(x), Value::String(y)) => Ok(x == y),
        (Value::Int(x, _), Value::Uint(y, _)) | (Value::Uint(y, _), Value::Int(x, _)) => {
            Ok(u64::try_from(*x) == Ok(*y))
        }
        (Value::Nil, Value::Nil) => Ok(true),
        (Value::Nil, other) | (other, Value::Nil) => Ok(other.is_nil()),
        _ if basic_kind(&x) != basic_kind(&y) => Err(incompatible(a, b)),
        _ => equal_other(a, b),
    }
}

/// Maximum length of a comparison's error, in bytes. The error prints the compared values.
const MAX_MESSAGE: usize = 64 << 10;

/// Compares two values that are neither nil nor of a basic kind.
fn equal_other(a: &Value, b: &Value) -> Compared {
    let type_of = |v: &Value| Value::from(v.type_name());
    if a.kind() != b.kind() {
        let args = [a.clone(), type_of(a), type_of(b), b.clone()];
        return Err(not_comparable(b"non-comparable types %s: %v, %s: %v", &args));
    }
    if a.is_nil() || b.is_nil() {
        return Ok(a.is_nil() == b.is_nil());
    }
    match (a, b) {
        (Value::Object(x), Value::Object(y)) if matches!(y.kind(), Kind::Ptr | Kind::Struct) => Ok(same_object(x, y)),
        _ => Err(not_comparable(b"non-comparable type %s: %v", &[b.clone(), type_of(b)])),
    }
}

/// Compares two pointers, or two structs field by field, like Go's `==`.
fn same_object(a: &Arc<dyn Object>, b: &Arc<dyn Object>) -> bool {
    if Arc::ptr_eq(a, b) {
        return true;
    }
    if a.kind() != Kind::Struct || a.type_name() != b.type_name() {
        return a.is_pointer_to(b.as_ref());
    }
    let (x, y) = (a.fields(), b.fields());
    x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| same_field(&x.value, &y.value))
}

fn same_field(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Nil, Value::Nil) => true,
        (Value::Object(a), Value::Object(b)) => same_object(a, b),
        _ => equal(a, b).unwrap_or(false),
    }
}

fn not_comparable(format: &[u8], args: &[Value]) -> BuiltinError {
    let mut text = fmt::sprintf(format, args);
    text.truncate(MAX_MESSAGE);
    BuiltinError::NotComparable(String::from_utf8_lossy(&text).into_owned())
}

/// Returns whether the first value is less than the second.
pub(crate) fn lt(a: &Reflected, b: &Reflected) -> Compared {
    let (x, y) = (underlying(a.value()), underlying(b.value()));
    if basic_kind(&x).is_none() || basic_kind(&y).is_none() {
        return Err(BuiltinError::NotOrdered);
    }
    match (&x, &y) {
        (Value::Float(x), Value::Float(y)) => Ok(x < y),
        (Value::Int(x, _), Value::Int(y, _)) => Ok(x < y),
        (Value::Uint(x, _), Value::Uint(y, _)) => Ok(x < y),
        (Value::String(x), Value::String(y)) => Ok(x < y),
        (Value::Int(x, _), Value::Uint(y, _)) => Ok(u64::try_from(*x).is_ok_and(|x| x < *y) || *x < 0),
        (Value::Uint(x, _), Value::Int(y, _)) => Ok(u64::try_from(*y).is_ok_and(|y| *x < y)),
        (Value::Bool(_), Value::Bool(_)) | (Value::Complex(..), Value::Complex(..)) => Err(BuiltinError::NotOrdered),
        _ => Err(incompatible(a.value(), b.value())),
    }
}

/// Returns whether the first argument is less than or equal to the second.
pub(crate) fn le(args: &[Reflected]) -> Compared {
    Ok(lt(&args[0], &args[1])? || eq(args)?)
}
