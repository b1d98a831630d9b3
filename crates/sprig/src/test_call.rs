//! Calls functions by name in tests, with arguments converted as the executor would convert them.

use std::sync::Arc;

use go_template::{FuncError, Options, Scope, Templates, Value, fmt};

pub(super) fn call(name: &str, args: &[Value]) -> Result<Value, FuncError> {
    let map = super::func_map();
    let function = map.get(name).unwrap_or_else(|| unreachable!("no function {name}"));
    function.call(&mut Scope::new(Arc::new(Templates::default()), Options::default()), &mut args.to_vec())
}

/// Returns the function's result as `%v` prints it.
pub(super) fn text_of(name: &str, args: &[Value]) -> String {
    match call(name, args) {
        Ok(value) => String::from_utf8_lossy(&fmt::sprint(&[value])).into_owned(),
        Err(error) => unreachable!("{name}: {error}"),
    }
}

/// Checks the function's printed result, or its error.
pub(super) fn check(name: &str, args: &[Value], expected: Result<&str, &str>) {
    let found =
        call(name, args).map(|v| String::from_utf8_lossy(&fmt::sprint(&[v])).into_owned()).map_err(|e| e.to_string());
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{name} {args:?}");
}
