//! The methods of `.Values`, a named map type in Go. Counterpart: Helm's `pkg/chart/common/values.go`.

use std::sync::{Arc, LazyLock};

use go_template::{FuncError, Function, IntoFunction as _, Map, MapType, Str, Value, ValuesMethods};

use crate::values;
use go_encoding::yaml;

pub(super) fn methods() -> ValuesMethods {
    static METHODS: LazyLock<ValuesMethods> = LazyLock::new(|| {
        let methods: [(&'static str, Function); 5] = [
            (
                "AsMap",
                (|map: Value| map.as_map().map(|map| map.with_type(MapType::Interface)).unwrap_or_default())
                    .into_function(),
            ),
            // Templates have no writers, so every call fails.
            (
                "Encode",
                (|_: Value, _: Value| -> Result<Value, FuncError> { Err("no io.Writer".into()) }).into_function(),
            ),
            ("PathValue", path_value.into_function()),
            ("Table", table.into_function()),
            ("YAML", to_yaml.into_function()),
        ];
        methods.into_iter().map(|(name, function)| (name, Arc::new(function))).collect()
    });
    Arc::clone(&METHODS)
}

fn table(map: Value, path: Str) -> Result<Map, FuncError> {
    let map = map.as_map().cloned().unwrap_or_default();
    let missing =
        || FuncError::new(format!("{:?} is not a table", path.to_text().rsplit('.').next().unwrap_or_default()));
    let found = values::table_at(&map, &path.to_text()).ok_or_else(missing)?;
    Ok(found.with_type(MapType::Values))
}

fn path_value(map: Value, path: Str) -> Result<Value, FuncError> {
    if path.is_empty() {
        return Err(FuncError::new("YAML path cannot be empty"));
    }
    let map = map.as_map().cloned().unwrap_or_default();
    let missing =
        || FuncError::new(format!("{:?} is not a value", path.to_text().rsplit('.').next().unwrap_or_default()));
    values::scalar_at(&map, &path.to_text()).ok_or_else(missing)
}

fn to_yaml(map: Value) -> Result<Str, FuncError> {
    yaml::emit(&map).map(Str::from).map_err(|error| FuncError::new(error.to_string()))
}
