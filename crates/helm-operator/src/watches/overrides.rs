//! The override values of one watch: checked once, where watches.yaml is read, and laid over the `spec` of each resource.
//!
//! Counterparts: `strvals.ParseIntoString` as operator-sdk calls it, and helm-operator-plugins' `pkg/values`.

use std::collections::BTreeMap;
use std::fmt;

use go_template::Map;
use helm::{strvals, values};
use serde::{Deserialize, Serialize};

/// How the text of override values becomes values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverrideValuesType {
    /// As `--set`: `true`, `null` and integers have their type (helm-operator-plugins).
    #[default]
    Typed,
    /// As `--set-string`: every value is a string (operator-sdk).
    String,
}

/// Override values that `--set` or `--set-string` accepts. `Debug` shows their keys only: a value may be secret.
#[derive(Clone, Default)]
pub struct Overrides {
    kind: OverrideValuesType,
    texts: BTreeMap<String, String>,
    /// The values of the texts, on their own.
    strings: Map,
}

/// An override value that cannot be set. Names its key, never its value, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid override value {key:?}: {cause}")]
pub struct OverrideError {
    /// The path, as in `--set`.
    pub key: String,
    /// What is wrong. Where only the value could tell, what to do about it.
    pub cause: String,
}

impl Overrides {
    /// Reads override values: paths as in `--set`, each with its text, environment and templates already expanded.
    ///
    /// # Errors
    /// A path or value that `--set` rejects.
    pub fn parse(texts: BTreeMap<String, String>, kind: OverrideValuesType) -> Result<Overrides, OverrideError> {
        let strings = Map::default();
        texts.iter().try_for_each(|(key, text)| set(kind, key, text, &strings))?;
        Ok(Overrides { kind, texts, strings })
    }

    /// How the texts become values.
    pub fn kind(&self) -> OverrideValuesType {
        self.kind
    }

    /// Each path with its text, in the order of the paths.
    pub fn texts(&self) -> &BTreeMap<String, String> {
        &self.texts
    }

    /// The values of a resource with the override values on top. Consumes `spec`: typed values are set in it, so that an index replaces one
    /// item of the resource's own list; strings replace whole lists, as in operator-sdk.
    ///
    /// # Errors
    /// A typed path leads through a value of the resource that is not a table or a list.
    pub fn over(&self, spec: Map) -> Result<Map, OverrideError> {
        match self.kind {
            OverrideValuesType::Typed => {
                self.texts.iter().try_for_each(|(key, text)| set(self.kind, key, text, &spec))?;
                Ok(spec)
            }
            // A copy: templates may change the values that they are given.
            OverrideValuesType::String => Ok(values::merge_maps(&spec, &self.strings.deep_copy())),
        }
    }
}

impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overrides").field("kind", &self.kind).field("keys", &self.texts.keys()).finish_non_exhaustive()
    }
}

fn set(kind: OverrideValuesType, key: &str, text: &str, into: &Map) -> Result<(), OverrideError> {
    let parse = match kind {
        OverrideValuesType::Typed => strvals::parse_into,
        OverrideValuesType::String => strvals::parse_into_string,
    };
    parse(&format!("{key}={text}"), into)
        .map_err(|error| OverrideError { key: key.to_owned(), cause: cause(key, error) })
}

/// The parser's message if it concerns the key or types. Otherwise it may quote the value.
fn cause(key: &str, error: strvals::Error) -> String {
    match strvals::parse_into(&format!("{key}="), &Map::default()) {
        Err(of_key) => of_key.to_string(),
        Ok(()) if matches!(error, strvals::Error::WrongType { .. }) => error.to_string(),
        Ok(()) => "its value is not valid for --set; escape commas and a leading brace with a backslash".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use go_encoding::json;
    use go_template::Value;
    use serde_json::json as value;

    use super::*;
    use crate::values::Spec;

    fn overrides(texts: &[(&str, &str)], kind: OverrideValuesType) -> Result<Overrides, OverrideError> {
        Overrides::parse(texts.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect(), kind)
    }

    fn check(
        spec: &serde_json::Value,
        over: &[(&str, &str)],
        kind: OverrideValuesType,
        expected: Result<serde_json::Value, &str>,
    ) {
        let spec = Spec::new(&spec.to_string()).values().unwrap();
        let result = overrides(over, kind).unwrap().over(spec);
        let result = result.map(|values| json::to_serde(&Value::Map(values))).map_err(|error| error.to_string());
        assert_eq!(result, expected.map_err(str::to_owned), "{over:?}");
    }

    #[test]
    fn override_values_win_with_their_type_or_as_strings() {
        let spec = value!({"image": {"tag": "1", "name": "x"}, "count": 1});
        let over = [("count", "3"), ("image.tag", "true")];
        let typed = value!({"image": {"tag": true, "name": "x"}, "count": 3});
        check(&spec, &over, OverrideValuesType::Typed, Ok(typed));
        let text = value!({"image": {"tag": "true", "name": "x"}, "count": "3"});
        check(&spec, &over, OverrideValuesType::String, Ok(text));
        check(&serde_json::Value::Null, &[], OverrideValuesType::Typed, Ok(value!({})));
    }

    #[test]
    fn a_typed_index_changes_one_item_and_a_string_index_replaces_the_list() {
        let spec = value!({"l": ["a", "b"]});
        check(&spec, &[("l[1]", "c")], OverrideValuesType::Typed, Ok(value!({"l": ["a", "c"]})));
        check(&spec, &[("l[1]", "c")], OverrideValuesType::String, Ok(value!({"l": [null, "c"]})));
    }

    #[test]
    fn a_path_through_a_scalar_of_the_resource_is_an_error_for_typed_values_only() {
        let spec = value!({"a": "s3cret"});
        let wrong = "invalid override value \"a.b\": unable to parse key: interface conversion: interface {} is string, not map[string]interface {}";
        check(&spec, &[("a.b", "x")], OverrideValuesType::Typed, Err(wrong));
        check(&spec, &[("a.b", "x")], OverrideValuesType::String, Ok(value!({"a": {"b": "x"}})));
    }

    #[test]
    fn one_resource_never_sees_what_templates_did_to_anothers_override_values() {
        let over = overrides(&[("a.b", "x")], OverrideValuesType::String).unwrap();
        let Some(Value::Map(table)) = over.over(Map::default()).unwrap().get("a") else { panic!("a is a table") };
        table.insert("b", "changed");
        assert_eq!(json::to_serde(&Value::Map(over.over(Map::default()).unwrap())), value!({"a": {"b": "x"}}));
    }

    #[test]
    fn an_error_names_the_key_and_never_the_value() {
        for (key, text, expected) in [
            ("r[x]", "s3cret", "error parsing index: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("a", "1,s3cret", "its value is not valid for --set; escape commas and a leading brace with a backslash"),
            ("a", "{s3cret", "its value is not valid for --set; escape commas and a leading brace with a backslash"),
            (
                "a",
                "1,b[s3cret]=2",
                "its value is not valid for --set; escape commas and a leading brace with a backslash",
            ),
        ] {
            for kind in [OverrideValuesType::Typed, OverrideValuesType::String] {
                let error = overrides(&[(key, text)], kind).unwrap_err().to_string();
                assert_eq!(error, format!("invalid override value {key:?}: {expected}"), "{kind:?}");
            }
        }
    }

    #[test]
    fn debug_output_has_keys_and_no_values() {
        let over = overrides(&[("auth.password", "s3cret")], OverrideValuesType::Typed).unwrap();
        assert_eq!(format!("{over:?}"), "Overrides { kind: Typed, keys: [\"auth.password\"], .. }");
    }
}
