//! The values that a custom resource's chart is rendered with: its `spec`, with the override values of watches.yaml on top.
//!
//! Counterparts: operator-sdk's `internal/helm/release/manager_factory.go` and helm-operator-plugins' `pkg/values`.

use std::collections::BTreeMap;

use go_template::{Map, Value};
use helm::{json, strvals, values};

use crate::watches::OverrideValuesType;

/// Why there are no values.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `spec` is a list or a scalar.
    #[error("spec must be a map")]
    NoMap,
    /// An override value that `--set` would not take.
    #[error("cannot parse override value {key:?}: {cause}")]
    Override {
        /// Its path.
        key: String,
        /// The parser's words; never the value, which may be secret.
        cause: String,
    },
}

/// The values for a `spec`.
pub fn of_spec(
    spec: &serde_json::Value,
    overrides: &BTreeMap<String, String>,
    kind: OverrideValuesType,
) -> Result<Map, Error> {
    let own = match json::from_serde(spec) {
        Value::Map(map) => map,
        Value::Nil => Map::default(),
        _ => return Err(Error::NoMap),
    };
    let over = Map::default();
    for (key, value) in overrides {
        let text = format!("{key}={value}");
        let parsed = match kind {
            // Straight into the values: an index changes one item of a list.
            OverrideValuesType::Typed => strvals::parse_into(&text, &own),
            OverrideValuesType::String => strvals::parse_into_string(&text, &over),
        };
        parsed.map_err(|cause| Error::Override { key: key.clone(), cause: cause.to_string() })?;
    }
    Ok(values::merge_maps(&own, &over))
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    fn check(spec: serde_json::Value, over: &[(&str, &str)], kind: OverrideValuesType, expected: serde_json::Value) {
        let over = over.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let values = of_spec(&spec, &over, kind).unwrap();
        assert_eq!(json::to_serde(&Value::Map(values)), expected);
    }

    #[test]
    fn override_values_win_with_their_type_or_as_strings() {
        let spec = value!({"image": {"tag": "1", "name": "x"}, "count": 1});
        let over = [("count", "3"), ("image.tag", "true")];
        let typed = value!({"image": {"tag": true, "name": "x"}, "count": 3});
        check(spec.clone(), &over, OverrideValuesType::Typed, typed);
        let text = value!({"image": {"tag": "true", "name": "x"}, "count": "3"});
        check(spec, &over, OverrideValuesType::String, text);
        check(serde_json::Value::Null, &[], OverrideValuesType::Typed, value!({}));
    }

    #[test]
    fn a_spec_that_is_no_map_and_a_broken_override_are_errors() {
        let none = BTreeMap::new();
        assert!(matches!(of_spec(&value!([1]), &none, OverrideValuesType::Typed), Err(Error::NoMap)));
        let broken = BTreeMap::from([("r[x]".to_owned(), "1".to_owned())]);
        assert!(of_spec(&value!({}), &broken, OverrideValuesType::Typed).is_err());
    }
}
