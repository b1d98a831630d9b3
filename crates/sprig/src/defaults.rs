//! Default values. Counterpart: Sprig's `defaults.go`. A value is empty if `if` treats it as false.

use go_template::{FuncMap, Rest, Value};

pub(super) fn register(map: &mut FuncMap) {
    map.add("default", |default: Value, Rest(given): Rest<Value>| {
        given.into_iter().next().filter(Value::is_true).unwrap_or(default)
    })
    .add("empty", |v: Value| !v.is_true())
    .add("coalesce", |Rest(values): Rest<Value>| values.into_iter().find(Value::is_true).unwrap_or_default())
    .add("all", |Rest(values): Rest<Value>| values.iter().all(Value::is_true))
    .add("any", |Rest(values): Rest<Value>| values.iter().any(Value::is_true))
    .add("ternary", |yes: Value, no: Value, test: bool| if test { yes } else { no });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_call::check;

    #[test]
    fn the_first_nonempty_value_wins() {
        check("default", &["d".into(), "".into()], Ok("d"));
        check("default", &["d".into(), "x".into()], Ok("x"));
        check("default", &["d".into()], Ok("d"));
        check("coalesce", &[Value::Nil, "".into(), "x".into()], Ok("x"));
        check("coalesce", &[], Ok("<nil>"));
        check("empty", &[Value::list(vec![])], Ok("true"));
        check("all", &["x".into(), "".into()], Ok("false"));
        check("any", &["x".into(), "".into()], Ok("true"));
        check("ternary", &["a".into(), "b".into(), true.into()], Ok("a"));
    }
}
