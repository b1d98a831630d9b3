//! Which lists of built-in kinds are merged by which keys. `assets/merge-keys.txt` has one line per kind and one per
//! structure that has such lists or leads to them, taken from the API server's OpenAPI documents by `tools/patches`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

static TABLE: LazyLock<Table> = LazyLock::new(|| read(include_str!("../../../assets/merge-keys.txt")));

#[derive(Default)]
struct Table {
    /// The structure of each kind, by API version and kind.
    kinds: HashMap<(&'static str, &'static str), &'static str>,
    structures: HashMap<&'static str, Structure>,
}

/// A structure's fields that are lists with keys, or lead to some.
#[derive(Debug, Default)]
pub(super) struct Structure(HashMap<&'static str, Field>);

#[derive(Debug)]
pub(super) struct Field {
    of: &'static str,
    /// The keys of a list; `None` for a structure.
    pub(super) keys: Option<Keys>,
}

/// What identifies the elements of a list.
#[derive(Debug)]
pub(super) enum Keys {
    /// The whole element.
    Value,
    /// The first of these fields, and those of the others that both elements have.
    Fields(Vec<&'static str>),
}

impl Structure {
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.0.get(name)
    }
}

impl Field {
    /// Returns the structure of the field, or of its elements.
    pub(super) fn structure(&self) -> Option<&'static Structure> {
        TABLE.structures.get(self.of)
    }
}

impl Keys {
    /// Returns whether two elements are the same one.
    pub(super) fn is_same(&self, one: &Value, other: &Value) -> bool {
        let Keys::Fields(keys) = self else { return one == other };
        let text = |value: &Value, key: &str| match &value[key] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        keys.iter().enumerate().all(|(at, key)| match (text(one, key), text(other, key)) {
            (Some(one), Some(other)) => one == other,
            _ => at > 0,
        })
    }
}

/// Returns the structure of a built-in kind; `None` if no list of it has keys, or it is someone else's.
pub(super) fn structure_of(api_version: &str, kind: &str) -> Option<&'static Structure> {
    TABLE.structures.get(TABLE.kinds.get(&(api_version, kind))?)
}

fn read(text: &'static str) -> Table {
    let mut table = Table::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        match words.next().unwrap_or_default() {
            "kind" => {
                let mut next = || words.next().unwrap_or_default();
                table.kinds.insert((next(), next()), next());
            }
            name => _ = table.structures.insert(name, Structure(words.filter_map(field).collect())),
        }
    }
    table
}

/// Reads `env:core.v1.EnvVar:name`.
fn field(word: &'static str) -> Option<(&'static str, Field)> {
    let mut parts = word.split(':');
    let (name, of) = (parts.next()?, parts.next()?);
    let keys = parts.next().map(|keys| match keys {
        "=" => Keys::Value,
        keys => Keys::Fields(keys.split(',').collect()),
    });
    Some((name, Field { of, keys }))
}
