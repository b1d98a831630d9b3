//! The override values of one watch, which are checked once, when watches.yaml is read, and merged over the `spec` of
//! each resource.
//!
//! Counterparts: `strvals.ParseIntoString` as operator-sdk calls it, and helm-operator-plugins' `pkg/values`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use go_encoding::json;
use go_template::{Map, Value};
use helm::origins::Layer;
use helm::{strvals, values};
use serde::{Deserialize, Serialize};

use crate::mask::Mask;

/// How the text of an override value becomes a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverrideValuesType {
    /// Like `--set`: `true`, `null` and integers get their type (helm-operator-plugins).
    #[default]
    Typed,
    /// Like `--set-string`: every value is a string (operator-sdk).
    String,
}

/// Override values that `--set` or `--set-string` accepts. `Debug` shows only their keys, because a value may be
/// secret.
#[derive(Clone, Default)]
pub struct Overrides {
    kind: Option<OverrideValuesType>,
    texts: BTreeMap<String, String>,
    /// The values as strings, without a `spec`.
    strings: Map,
    /// The paths whose text is a number, a boolean or null.
    typed_keys: Vec<String>,
    /// The paths whose text depends on the operator's environment.
    from_environment: BTreeSet<String>,
    /// The paths whose text names environment variables that are not set, with these names.
    unset: BTreeMap<String, BTreeSet<String>>,
}

/// An override value that cannot be set. Names its key, but never its value, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid override value {key:?}: {cause}")]
pub struct OverrideError {
    /// The path, as in `--set`.
    pub key: String,
    /// What is wrong. If the cause would quote the value, what to do about it.
    pub cause: String,
}

impl Overrides {
    /// Parses override values: paths as in `--set`, each with its text, in which environment and templates are already
    /// expanded. `kind` is `None` if watches.yaml does not set it.
    ///
    /// # Errors
    /// `--set` rejects a path or a value.
    pub fn parse(
        texts: BTreeMap<String, String>,
        kind: impl Into<Option<OverrideValuesType>>,
    ) -> Result<Overrides, OverrideError> {
        let (strings, typed) = (Map::default(), Map::default());
        let mut typed_keys = Vec::new();
        for (key, text) in &texts {
            set(OverrideValuesType::String, key, text, &strings)?;
            set(OverrideValuesType::Typed, key, text, &typed)?;
            if !leaves_of(OverrideValuesType::Typed, key, text).iter().all(|(_, leaf)| leaf.is_string()) {
                typed_keys.push(key.clone());
            }
        }
        let (from_environment, unset) = (BTreeSet::new(), BTreeMap::new());
        Ok(Overrides { kind: kind.into(), texts, strings, typed_keys, from_environment, unset })
    }

    /// Sets the paths whose text depends on the operator's environment, and those whose variables are not set. Default: none.
    pub(super) fn with_environment(
        self,
        from_environment: BTreeSet<String>,
        unset: BTreeMap<String, BTreeSet<String>>,
    ) -> Overrides {
        Overrides { from_environment, unset, ..self }
    }

    /// Returns the paths whose text names environment variables that are not set, and which: `image.tag ($TAG)`. `None`
    /// if there are none. Leaves out names that are not in capitals: they may be part of a password with a dollar sign.
    pub(super) fn unset(&self) -> Option<String> {
        let of = |(key, names): (&String, &BTreeSet<String>)| {
            let names = names.iter().filter(|name| is_in_capitals(name)).map(|name| format!("${name}"));
            match names.collect::<Vec<_>>() {
                names if names.is_empty() => key.escape_debug().to_string(),
                names => format!("{} ({})", key.escape_debug(), names.join(", ")),
            }
        };
        let all: Vec<String> = self.unset.iter().map(of).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Returns whether a path's text depends on the operator's environment, which may be secret.
    pub(crate) fn is_from_environment(&self, key: &str) -> bool {
        self.from_environment.contains(key)
    }

    /// Returns how the texts become values. `None` means that watches.yaml does not set it: the values are typed,
    /// except for releases that were made with strings.
    pub fn kind(&self) -> Option<OverrideValuesType> {
        self.kind
    }

    /// Returns the paths whose value depends on the type: numbers, booleans and null.
    pub fn typed_keys(&self) -> &[String] {
        &self.typed_keys
    }

    /// Returns how the override values in a release's recorded values were made; `None` if the recorded values do not
    /// show it.
    pub(crate) fn recorded_as(&self, recorded: &serde_json::Value) -> Option<OverrideValuesType> {
        let pairs = self.texts.iter().filter(|(key, _)| self.typed_keys.contains(key));
        let leaves = pairs.flat_map(|(key, text)| leaves_of(OverrideValuesType::String, key, text));
        let found: Vec<bool> = leaves.filter_map(|(path, _)| Some(recorded.pointer(&path)?.is_string())).collect();
        match (found.contains(&true), found.contains(&false)) {
            (true, false) => Some(OverrideValuesType::String),
            (false, true) => Some(OverrideValuesType::Typed),
            _ => None,
        }
    }

    /// Returns each path with its text, ordered by path.
    pub fn texts(&self) -> &BTreeMap<String, String> {
        &self.texts
    }

    /// Returns the values that the texts set, as strings: without backslashes, and each item of a list by itself.
    pub(crate) fn strings(&self) -> serde_json::Value {
        json::to_serde(&Value::Map(self.strings.clone()))
    }

    /// Adds the values to what a mask redacts, because they may come from the operator's environment.
    pub(crate) fn add_to(&self, mask: &mut Mask) {
        mask.add_values(&serde_json::json!(self.texts));
        mask.add_values(&self.strings());
    }

    /// Returns a resource's values with the override values on top. Consumes `spec`: typed values are set in it, so
    /// that an index replaces one item of the resource's own list; strings replace whole lists, as in operator-sdk.
    ///
    /// # Errors
    /// A typed path leads through a value of the resource that is neither a map nor a list.
    pub fn over(&self, spec: Map) -> Result<Map, OverrideError> {
        self.over_as(self.kind.unwrap_or_default(), spec)
    }

    /// Does what [`over`](Overrides::over) does, with values of this type.
    pub(crate) fn over_as(&self, kind: OverrideValuesType, spec: Map) -> Result<Map, OverrideError> {
        match kind {
            OverrideValuesType::Typed => {
                self.texts.iter().try_for_each(|(key, text)| set(kind, key, text, &spec))?;
                Ok(spec)
            }
            // A copy, because templates may change the values that they get.
            OverrideValuesType::String => Ok(values::merge_maps(&spec, &self.strings.deep_copy())),
        }
    }

    /// Returns a layer for each override value over a `spec`, in the order in which they are set, with its path.
    pub(crate) fn layers(&self, kind: OverrideValuesType, spec: &Map) -> Result<Vec<(String, Layer)>, OverrideError> {
        let so_far = match kind {
            OverrideValuesType::Typed => spec.deep_copy(),
            OverrideValuesType::String => Map::default(),
        };
        let mut layers = Vec::with_capacity(self.texts.len());
        for (key, text) in &self.texts {
            let own = Map::default();
            set(kind, key, text, &own)?;
            set(kind, key, text, &so_far)?;
            let merged = match kind {
                OverrideValuesType::Typed => so_far.deep_copy(),
                OverrideValuesType::String => values::merge_maps(spec, &so_far.deep_copy()),
            };
            layers.push((key.clone(), Layer { own: Some(own), merged: Some(merged) }));
        }
        Ok(layers)
    }
}

impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overrides").field("kind", &self.kind).field("keys", &self.texts.keys()).finish_non_exhaustive()
    }
}

/// Returns whether a name is written as environment variables usually are.
fn is_in_capitals(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Returns the scalars that one override value sets, by JSON pointer. Its text has been parsed before, so it is valid.
fn leaves_of(kind: OverrideValuesType, key: &str, text: &str) -> Vec<(String, serde_json::Value)> {
    let values = Map::default();
    let mut leaves = Vec::new();
    if set(kind, key, text, &values).is_ok() {
        collect("", json::to_serde(&Value::Map(values)), &mut leaves);
    }
    leaves
}

fn collect(path: &str, value: serde_json::Value, leaves: &mut Vec<(String, serde_json::Value)>) {
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        serde_json::Value::Object(map) => {
            map.into_iter().for_each(|(name, inner)| collect(&format!("{path}/{}", escaped(&name)), inner, leaves));
        }
        serde_json::Value::Array(items) => {
            items.into_iter().enumerate().for_each(|(at, item)| collect(&format!("{path}/{at}"), item, leaves));
        }
        leaf => leaves.push((path.to_owned(), leaf)),
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

/// Returns the parser's message if it concerns the key or types. Any other message may quote the value.
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
    fn a_release_shows_how_its_override_values_were_made() {
        let open = |texts: &[(&str, &str)]| {
            let texts = texts.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
            Overrides::parse(texts, None).unwrap()
        };
        let over = open(&[
            ("crds", "false"),
            ("image.tag", "latest"),
            ("list", "{1,x}"),
            ("a\\.b.c/d", "3"),
            ("none", "null"),
        ]);
        assert_eq!(over.typed_keys(), ["a\\.b.c/d", "crds", "list", "none"]);
        for (recorded, expected) in [
            (value!({"crds": "false", "a.b": {"c/d": "3"}}), Some(OverrideValuesType::String)),
            (value!({"crds": false}), Some(OverrideValuesType::Typed)),
            (value!({"crds": "true"}), Some(OverrideValuesType::String)),
            (value!({"list": ["1", "x"]}), Some(OverrideValuesType::String)),
            (value!({"crds": false, "a.b": {"c/d": "3"}}), None),
            (value!({"image": {"tag": "latest"}}), None),
            (value!({}), None),
        ] {
            assert_eq!(over.recorded_as(&recorded), expected, "{recorded}");
        }
        assert_eq!(open(&[("a", "text")]).recorded_as(&value!({"a": "text"})), None);
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
        assert_eq!(format!("{over:?}"), "Overrides { kind: Some(Typed), keys: [\"auth.password\"], .. }");
    }
}
