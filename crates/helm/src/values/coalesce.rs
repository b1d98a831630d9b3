//! The charts' default values under the user's. Counterpart: Helm's `pkg/chart/common/util/coalesce.go`.

use std::collections::BTreeSet;

use go_template::{Map, Str, Value};

use crate::chart::ChartView;

/// A value that stands where a subchart's table must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("type mismatch on {subchart}: {value}")]
pub struct Error {
    subchart: String,
    /// As Go's `%t` prints it, which is for booleans alone.
    value: String,
}

impl Error {
    fn new(subchart: &str, value: Value) -> Error {
        let value = String::from_utf8_lossy(&go_template::fmt::sprintf(b"%t", &[value])).into_owned();
        Error { subchart: subchart.to_owned(), value }
    }
}

/// What becomes of nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// A null takes the key away: what a render wants (`CoalesceValues`).
    Remove,
    /// Nulls stay, to remove keys later (`MergeValues`).
    Keep,
}

const GLOBAL: &str = "global";

/// The user's values over the defaults of the chart and of its subcharts, each subchart's below its name, with globals passed down.
///
/// The result shares no map with the values or the charts.
///
/// # Errors
/// Where a subchart's values are not a table.
pub fn coalesce(view: &ChartView, values: &Map, nulls: Nulls, warnings: &mut Vec<String>) -> Result<Map, Error> {
    let merged = values.deep_copy();
    Coalesce { nulls, warnings }.chart(view, &merged, "")?;
    Ok(merged)
}

/// Merges `from` below `into`: what `into` has wins, nulls included. `from` may be changed.
pub fn merge_tables(into: &Map, from: &Map, warnings: &mut Vec<String>) {
    Coalesce { nulls: Nulls::Keep, warnings }.tables(into, from, "", Nulls::Keep);
}

struct Coalesce<'a> {
    nulls: Nulls,
    warnings: &'a mut Vec<String>,
}

impl Coalesce<'_> {
    fn chart(&mut self, view: &ChartView, into: &Map, prefix: &str) -> Result<(), Error> {
        self.defaults(view, into, prefix);
        for subchart in &view.dependencies {
            let inner = match into.get(subchart.name()) {
                Some(Value::Map(inner)) => inner,
                None => {
                    let inner = Map::default();
                    into.insert(subchart.name(), inner.clone());
                    inner
                }
                Some(other) => return Err(Error::new(subchart.name(), other)),
            };
            let prefix = joined(prefix, view.name());
            self.globals(&inner, into, &prefix);
            self.chart(subchart, &inner, &prefix)?;
        }
        Ok(())
    }

    /// Counterpart: `coalesceGlobals`.
    fn globals(&mut self, into: &Map, from: &Map, prefix: &str) {
        let globals = match into.get(GLOBAL) {
            None => Map::default(),
            Some(Value::Map(globals)) => globals,
            Some(_) => return self.warn(format!("skipping globals because destination {GLOBAL} is not a table.")),
        };
        let passed = match from.get(GLOBAL) {
            None => Map::default(),
            Some(Value::Map(passed)) => passed,
            Some(_) => return self.warn(format!("skipping globals because source {GLOBAL} is not a table.")),
        };
        for (key, value) in passed.snapshot() {
            match (value, globals.get(&key)) {
                (Value::Map(table), None) => {
                    globals.insert(key, shallow_copy(&table));
                }
                (Value::Map(table), Some(Value::Map(own))) => {
                    let table = shallow_copy(&table);
                    self.tables(&table, &own, &joined(prefix, &key.to_text()), Nulls::Keep);
                    globals.insert(key, table);
                }
                (Value::Map(_), Some(_)) => {
                    self.warn(format!("Conflict: cannot merge map onto non-map for {key:?}. Skipping."));
                }
                (_, Some(Value::Map(_))) => self.warn(format!("key {key} is table. Skipping")),
                (value, _) => {
                    globals.insert(key, value);
                }
            }
        }
        into.insert(GLOBAL, globals);
    }

    /// Counterpart: `coalesceValues`.
    fn defaults(&mut self, view: &ChartView, into: &Map, prefix: &str) {
        let prefix = joined(prefix, view.name());
        for (key, default) in view.values.deep_copy().snapshot() {
            match into.get(&key) {
                None => self.default_for_absent(into, key, default),
                Some(Value::Nil) if self.nulls == Nulls::Remove => {
                    into.entries_mut().remove(&key);
                }
                Some(Value::Map(table)) => self.default_for_table(view, &table, &key, &default, &prefix),
                Some(_) => {}
            }
        }
    }

    fn default_for_absent(&mut self, into: &Map, key: Str, default: Value) {
        if self.nulls == Nulls::Remove {
            match &default {
                Value::Nil => return,
                Value::Map(table) => remove_nulls(table),
                _ => {}
            }
        }
        into.insert(key, default);
    }

    fn default_for_table(&mut self, view: &ChartView, table: &Map, key: &Str, default: &Value, prefix: &str) {
        let from = match default {
            Value::Map(from) => from,
            Value::Nil => return,
            _ => return self.warn(format!("warning: skipped value for {prefix}.{key}: Not a table.")),
        };
        let for_subchart = view.dependencies.iter().any(|subchart| *key == subchart.name());
        let nulls = if for_subchart { Nulls::Keep } else { self.nulls };
        if nulls == Nulls::Remove {
            remove_nulls(from);
        }
        self.tables(table, from, &joined(prefix, &key.to_text()), nulls);
    }

    /// Counterpart: `coalesceTablesFullKey`.
    fn tables(&mut self, into: &Map, from: &Map, prefix: &str, nulls: Nulls) {
        if into.same(from) {
            return;
        }
        let set: BTreeSet<Str> = from
            .entries()
            .iter()
            .filter(|(_, value)| !matches!(value, Value::Nil))
            .map(|(key, _)| key.clone())
            .collect();
        for (key, value) in into.snapshot() {
            if matches!(value, Value::Nil) {
                from.insert(key, Value::Nil);
            }
        }
        for (key, value) in from.snapshot() {
            let name = || joined(prefix, &key.to_text());
            match (into.get(&key), value) {
                (Some(Value::Nil), _) if nulls == Nulls::Remove && set.contains(&key) => {
                    into.entries_mut().remove(&key);
                }
                (None, value) => {
                    into.insert(key, value);
                }
                (Some(Value::Map(own)), Value::Map(table)) => self.tables(&own, &table, &name(), nulls),
                (Some(_), Value::Map(_)) => {
                    self.warn(format!("warning: cannot overwrite table with non table for {}", name()));
                }
                (Some(Value::Map(_)), Value::Nil) => {}
                (Some(Value::Map(_)), _) => {
                    self.warn(format!("warning: destination for {} is a table. Ignoring non-table value", name()));
                }
                _ => {}
            }
        }
    }

    /// Warnings name keys and never values: a value may be a secret.
    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }
}

fn joined(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn shallow_copy(map: &Map) -> Map {
    map.snapshot().into_iter().collect()
}

fn remove_nulls(map: &Map) {
    for (key, value) in map.snapshot() {
        match value {
            Value::Nil => {
                map.entries_mut().remove(&key);
            }
            Value::Map(inner) => remove_nulls(&inner),
            _ => {}
        }
    }
}
