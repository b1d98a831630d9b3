//! Types, kinds and deep equality. Counterpart: Sprig's `reflect.go` and Go's `reflect.DeepEqual`.

use std::sync::Arc;

use go_template::{FuncError, FuncMap, Object, Str, Value};

use super::limits::{Walk, spend_bytes};

pub(super) fn register(map: &mut FuncMap) {
    map.add("typeOf", |v: Value| v.type_name().to_owned())
        .add("typeIs", |name: Str, v: Value| name == v.type_name())
        .add("typeIsLike", |name: Str, v: Value| {
            name == v.type_name() || v.type_name().strip_prefix('*').is_some_and(|t| name == t)
        })
        .add("kindOf", |v: Value| v.kind().name())
        .add("kindIs", |name: Str, v: Value| name == v.kind().name())
        .add("deepEqual", |a: Value, b: Value| deep_equal(&a, &b));
}

/// Returns Go's error for asking a nil interface for its type.
pub(super) fn nil_type() -> FuncError {
    FuncError::new("runtime error: invalid memory address or nil pointer dereference")
}

/// Compares types and values recursively. Counterpart: `reflect.DeepEqual`.
pub(super) fn deep_equal(a: &Value, b: &Value) -> Result<bool, FuncError> {
    equal(a, b, &mut Walk::new())
}

/// Compares like [`deep_equal`], as one of several comparisons in a call.
pub(super) fn equal(a: &Value, b: &Value, walk: &mut Walk) -> Result<bool, FuncError> {
    Ok(match (a, b) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a, s), Value::Int(b, t)) => s == t && a == b,
        (Value::Uint(a, s), Value::Uint(b, t)) => s == t && a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Complex(a, c), Value::Complex(b, d)) => a == b && c == d,
        (Value::String(a), Value::String(b)) | (Value::Bytes(a), Value::Bytes(b)) => {
            a.len() == b.len() && {
                spend_bytes(a.len())?;
                a == b
            }
        }
        (Value::List(a), Value::List(b)) => {
            let alike = a.ty() == b.ty() && a.is_nil() == b.is_nil() && a.len() == b.len();
            alike && walk.enter(a.len(), |walk| all(a.iter().zip(b.iter()), |(a, b)| equal(a, b, walk)))?
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.ty() != b.ty() || a.is_nil() != b.is_nil() || a.len() != b.len() {
                return Ok(false);
            }
            if a.same(b) {
                return Ok(true);
            }
            let (a, b) = (a.snapshot(), b.snapshot());
            walk.enter(a.len(), |walk| all(a.iter().zip(&b), |((k, a), (l, b))| Ok(k == l && equal(a, b, walk)?)))?
        }
        (Value::Object(a), Value::Object(b)) => {
            Arc::ptr_eq(a, b)
                || a.type_name() == b.type_name() && walk.enter(1, |walk| same_object(a.as_ref(), b.as_ref(), walk))?
        }
        _ => false,
    })
}

fn same_object(a: &dyn Object, b: &dyn Object, walk: &mut Walk) -> Result<bool, FuncError> {
    Ok(a.display() == b.display() && equal(&a.data(), &b.data(), walk)?)
}

fn all<T>(
    items: impl Iterator<Item = T>,
    mut test: impl FnMut(T) -> Result<bool, FuncError>,
) -> Result<bool, FuncError> {
    for item in items {
        if !test(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use go_template::{List, ListType, Map};

    use super::*;

    fn check(a: Value, b: Value, expected: bool) {
        assert_eq!(deep_equal(&a, &b).ok(), Some(expected), "{a:?} {b:?}");
    }

    #[test]
    fn deep_equality_compares_types_and_contents() {
        check(Value::int(1), Value::int(1), true);
        check(Value::int(1), Value::int64(1), false);
        check(Value::Float(f64::NAN), Value::Float(f64::NAN), false);
        check(Value::list(vec![]), Value::list(vec![]), true);
        check(Value::list(vec![]), List::nil(ListType::Interface).into(), false);
        check(Value::list(vec!["a".into()]), List::strings(["a"]).into(), false);
        let map = |v: i64| Value::Map([("a", Value::int(v))].into_iter().collect());
        check(map(1), map(1), true);
        check(map(1), map(2), false);
    }

    #[test]
    fn comparing_cyclic_maps_stops_at_the_depth_limit() {
        let cyclic = || {
            let map = Map::default();
            map.insert("self", Value::Map(map.clone()));
            map
        };
        let (a, b) = (cyclic(), cyclic());
        let error = deep_equal(&a.clone().into(), &b.clone().into()).map_err(|e| e.to_string());
        assert_eq!(error, Err("limit MAX_VALUE_DEPTH exceeded: values nest more than 500 deep".to_owned()));
        a.insert("self", Value::Nil);
        b.insert("self", Value::Nil);
    }
}
