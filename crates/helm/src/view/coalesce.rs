//! Merges the user's values with the charts' defaults. Counterpart: Helm's `pkg/chart/common/util/coalesce.go`.

use std::{fmt, mem};

use go_template::{Map, Str, Value};
use golibs::shorten::{MAX_MESSAGE, shorten};

use super::ChartView;

/// A subchart's values are not a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("type mismatch on {subchart}: {value}")]
pub struct TypeMismatch {
    subchart: String,
    /// The value formatted with Go's `%t`, which is for booleans: `%!t(string=x)`.
    value: String,
}

impl TypeMismatch {
    /// Returns the text without the value, which may be secret.
    pub(crate) fn without_value(&self) -> String {
        format!("type mismatch on {}: expected a table", self.subchart)
    }

    fn new(subchart: &str, value: Value) -> TypeMismatch {
        let value = go_template::fmt::sprintf(b"%t", &[value]);
        let value = shorten(&String::from_utf8_lossy(&value), MAX_MESSAGE).into_owned();
        TypeMismatch { subchart: subchart.to_owned(), value }
    }
}

/// The treatment of nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// A null removes its key, as renders need (`CoalesceValues`).
    Remove,
    /// Nulls are kept, so that they can remove keys later (`MergeValues`).
    Keep,
}

const GLOBAL: &str = "global";

/// The path to a table, for warnings.
#[derive(Clone, Copy)]
struct TablePath<'a> {
    outer: Option<&'a TablePath<'a>>,
    name: &'a [u8],
}

impl fmt::Display for TablePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(outer) = self.outer {
            write!(f, "{outer}.")?;
        }
        f.write_str(&String::from_utf8_lossy(self.name))
    }
}

/// Merges the user's values with the defaults of the chart and its subcharts, and passes globals to subcharts.
///
/// A subchart's values are in the table with its name. The result shares no map with the values or the charts. Appends warnings, which contain keys
/// but never values.
///
/// # Errors
/// A subchart's values are not a table.
pub fn coalesce(view: &ChartView, values: &Map, nulls: Nulls, warnings: &mut Vec<String>) -> Result<Map, TypeMismatch> {
    let merged = values.deep_copy();
    Coalesce { nulls, warnings }.chart(view, &merged, None)?;
    Ok(merged)
}

/// Merges `from` into `into`, whose values take precedence, including nulls. May change `from`.
pub(super) fn merge_tables(into: &Map, from: &Map, warnings: &mut Vec<String>) {
    Coalesce { nulls: Nulls::Keep, warnings }.tables(into, from, None, Nulls::Keep);
}

struct Coalesce<'a> {
    nulls: Nulls,
    warnings: &'a mut Vec<String>,
}

impl Coalesce<'_> {
    fn chart(&mut self, view: &ChartView, into: &Map, outer: Option<&TablePath<'_>>) -> Result<(), TypeMismatch> {
        let place = TablePath { outer, name: view.name().as_bytes() };
        self.defaults(view, into, &place);
        for subchart in &view.dependencies {
            let inner = match into.get(subchart.name()) {
                Some(Value::Map(inner)) => inner,
                None => {
                    let inner = Map::default();
                    into.insert(subchart.name(), inner.clone());
                    inner
                }
                Some(other) => return Err(TypeMismatch::new(subchart.name(), other)),
            };
            self.globals(&inner, into, &place);
            self.chart(subchart, &inner, Some(&place))?;
        }
        Ok(())
    }

    /// Merges the globals of `from` into `into`. Counterpart: `coalesceGlobals`.
    fn globals(&mut self, into: &Map, from: &Map, place: &TablePath<'_>) {
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
                    self.tables(&table, &own, Some(&TablePath { outer: Some(place), name: &key }), Nulls::Keep);
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

    /// Merges a chart's defaults into `into`. Counterpart: `coalesceValues`.
    fn defaults(&mut self, view: &ChartView, into: &Map, place: &TablePath<'_>) {
        let own = mem::take(&mut *into.entries_mut());
        let defaults = if self.nulls == Nulls::Remove { view.values_without_nulls() } else { &view.values };
        let mut merged = defaults.copied_entries();
        for (key, value) in own {
            match &value {
                Value::Nil if self.nulls == Nulls::Remove && view.values.peek().contains_key(&key) => {
                    merged.remove(&key);
                    continue;
                }
                Value::Map(table) => self.default_for_table(view, table, &key, merged.get(&key), place),
                _ => {}
            }
            merged.insert(key, value);
        }
        *into.entries_mut() = merged;
    }

    /// Merges the `default` of `key` into the user's table. Only the caller holds `default`.
    fn default_for_table(
        &mut self,
        view: &ChartView,
        table: &Map,
        key: &Str,
        default: Option<&Value>,
        place: &TablePath<'_>,
    ) {
        let place = TablePath { outer: Some(place), name: key };
        match default {
            // Nulls in a subchart's defaults are kept.
            Some(Value::Map(_)) if view.dependencies.iter().any(|subchart| *key == subchart.name()) => {
                if let Some(Value::Map(from)) = view.values.deep_copy().get(key) {
                    self.tables(table, &from, Some(&place), Nulls::Keep);
                }
            }
            Some(Value::Map(from)) => self.tables(table, from, Some(&place), self.nulls),
            None | Some(Value::Nil) => {}
            Some(_) => self.warn(format!("warning: skipped value for {place}: Not a table.")),
        }
    }

    /// Merges `from` into `into`. Counterpart: `coalesceTablesFullKey`.
    fn tables(&mut self, into: &Map, from: &Map, outer: Option<&TablePath<'_>>, nulls: Nulls) {
        if into.same(from) {
            return;
        }
        // Keys that are null in `into`, and whether `from` has a value for them.
        let nulled: Vec<(Str, bool)> = null_keys(into)
            .into_iter()
            .map(|key| {
                let overwritten = from.insert(key.clone(), Value::Nil);
                (key, overwritten.is_some_and(|value| !matches!(value, Value::Nil)))
            })
            .collect();
        for (key, value) in from.snapshot() {
            let place = TablePath { outer, name: &key };
            match (into.get(&key), value) {
                (Some(Value::Nil), _) => {
                    let found = nulled.binary_search_by(|(nulled, _)| nulled.cmp(&key));
                    if nulls == Nulls::Remove && found.is_ok_and(|at| nulled[at].1) {
                        into.entries_mut().remove(&key);
                    }
                }
                (None, value) => {
                    into.insert(key, value);
                }
                (Some(Value::Map(own)), Value::Map(table)) => self.tables(&own, &table, Some(&place), nulls),
                (Some(_), Value::Map(_)) => {
                    self.warn(format!("warning: cannot overwrite table with non table for {place}"));
                }
                (Some(Value::Map(_)), Value::Nil) => {}
                (Some(Value::Map(_)), _) => {
                    self.warn(format!("warning: destination for {place} is a table. Ignoring non-table value"));
                }
                _ => {}
            }
        }
    }

    /// Appends a warning. Warnings contain keys but never values, which may be secret.
    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }
}

fn null_keys(map: &Map) -> Vec<Str> {
    map.peek().iter().filter(|(_, value)| matches!(value, Value::Nil)).map(|(key, _)| key.clone()).collect()
}

fn shallow_copy(map: &Map) -> Map {
    map.snapshot().into_iter().collect()
}
