//! Determines where each of a release's values comes from, what it replaced, and which ones no template reads.
//!
//! The merge itself is Helm's, as renders do it. Origins are found afterwards: for each merged value, every place that could have set it is asked in
//! the order of precedence, and the first one with the very same value is its origin. Helm has no counterpart.
//!
//! | file | question |
//! |---|---|
//! | `given` | Which of the user's layers set a value? |
//! | `defaults` | Which charts have a default for a value? |
//! | `path` | What is at a path? |

mod defaults;
mod given;
mod path;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use go_template::{Map, Value};

use crate::chart::Chart;
use crate::reads::{Reads, Unread};
use crate::view::{self, ChartView, Nulls, ResolveError, TypeMismatch};
use defaults::Defaults;
use given::Given;
use path::{at, same};

pub use path::{Key, dotted};

/// One of the sources that a user's values are merged from, lowest precedence first.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// What the source itself sets; `None` if only its effect is known, as with code that changes values.
    pub own: Option<Map>,
    /// The user's values once this source is merged. Required of the last layer, and of those around a layer whose own
    /// values are unknown. Without it, the next layer's decides whether a null in a list is only a gap before an item.
    pub merged: Option<Map>,
}

/// A value with its origin.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The keys that lead to it, outermost first.
    pub path: Vec<Key>,
    /// A scalar, a list, or an empty table. Nil if it was removed.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
    /// What else is set at this path but lost, highest precedence first.
    pub replaced: Vec<(Origin, Value)>,
    /// Whether a null removed the key, so that templates do not see it.
    pub is_removed: bool,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user's layer with this index.
    Given(usize),
    /// A chart's values.yaml.
    Default(Default),
    /// Helm itself, which creates empty tables for subcharts and globals.
    Helm,
}

/// A place in a chart's values.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Default {
    /// The file as `# Source:` comments name files: `shop/charts/cache/values.yaml`.
    pub file: String,
    /// The line, counted from 1, if the chart was loaded with lines and the key is written there.
    pub line: Option<usize>,
    /// Whose default it is.
    pub role: Role,
}

/// Formats `shop/values.yaml:12`, and whose default it is if it is neither chart's own.
impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(match self.role {
            Role::Chart | Role::Subchart => "",
            Role::Parent => " (parent)",
            Role::Import => " (import)",
        })
    }
}

/// The relation of a default's chart to the chart whose templates read the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The root chart's own default.
    Chart,
    /// A subchart's own default.
    Subchart,
    /// A parent chart's value for a subchart, globals included.
    Parent,
    /// A subchart's value that its parent imports.
    Import,
}

/// All values that a release is rendered with.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The merged values, exactly as renders get them.
    pub values: Map,
    /// Each of them with its origin, and each key that a null removed, ordered by path.
    pub leaves: Vec<Leaf>,
    /// The user's values that no template reads.
    pub unread: Vec<Unread>,
    /// Problems of the merge. They do not contain values.
    pub warnings: Vec<String>,
}

/// The reason why values cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The values do not determine which subcharts are enabled.
    #[error(transparent)]
    Dependencies(#[from] ResolveError),
    /// A subchart's values are not a table.
    #[error(transparent)]
    Values(#[from] TypeMismatch),
}

impl Error {
    /// Returns the text without values, which may be secret.
    pub fn without_values(&self) -> String {
        match self {
            Error::Dependencies(error) => error.without_value(),
            Error::Values(error) => error.without_value(),
        }
    }
}

/// Merges the user's layers with the chart's defaults, and traces every value to its origin.
///
/// Lines are known if the chart was loaded with [`Chart::load_with_lines`].
///
/// # Errors
/// The values do not fit the chart's subcharts.
pub fn trace(chart: &Arc<Chart>, layers: &[Layer]) -> Result<Traced, Error> {
    let given = layers.last().and_then(|layer| layer.merged.clone()).unwrap_or_default();
    let mut warnings = Vec::new();
    let view = view::resolve(chart, &given, &mut warnings)?;
    let values = view::coalesce(&view, &given, Nulls::Remove, &mut warnings)?;
    let mut tracer = Tracer::new(&view, layers);
    tracer.table(&values);
    tracer.removed(&given, &values);
    tracer.leaves.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Traced { values, leaves: tracer.leaves, unread: Reads::of(chart).unread(&given), warnings })
}

struct Tracer<'a> {
    given: Given<'a>,
    defaults: Defaults<'a>,
    path: Vec<Key>,
    leaves: Vec<Leaf>,
}

impl<'a> Tracer<'a> {
    fn new(view: &'a ChartView, layers: &'a [Layer]) -> Tracer<'a> {
        Tracer { given: Given(layers), defaults: Defaults::new(view), path: Vec::new(), leaves: Vec::new() }
    }

    /// Traces what is in a table.
    fn table(&mut self, table: &Map) {
        for (key, value) in table.snapshot() {
            self.path.push(Key::Name(key));
            self.value(value);
            self.path.pop();
        }
    }

    fn value(&mut self, value: Value) {
        match &value {
            Value::Map(table) if !table.is_empty() => self.table(table),
            Value::List(list) => match self.winner(&value) {
                Some(leaf) => self.leaves.push(leaf),
                // Several layers have set items of it.
                None => {
                    for (index, item) in list.iter().enumerate() {
                        self.path.push(Key::Index(index));
                        self.value(item.clone());
                        self.path.pop();
                    }
                }
            },
            _ => {
                let leaf = self.winner(&value).unwrap_or_else(|| Leaf {
                    path: self.path.clone(),
                    value,
                    origin: Origin::Helm,
                    replaced: Vec::new(),
                    is_removed: false,
                });
                self.leaves.push(leaf);
            }
        }
    }

    /// Returns the value with the first of its candidates that equals it, if one does.
    fn winner(&self, value: &Value) -> Option<Leaf> {
        let mut candidates = self.candidates();
        let (origin, value) = candidates.remove(candidates.iter().position(|(_, candidate)| same(candidate, value))?);
        Some(Leaf { path: self.path.clone(), value, origin, replaced: candidates, is_removed: false })
    }

    /// Returns everything that is set at the current path, highest precedence first.
    fn candidates(&self) -> Vec<(Origin, Value)> {
        let mut all = Vec::new();
        // A parent's globals override a subchart's.
        for path in self.defaults.passed_down(&self.path) {
            all.extend(self.given.at(&path).into_iter().map(|(layer, value)| (Origin::Given(layer), value)));
            // Lists are never merged with those of charts.
            if !path.iter().any(|key| matches!(key, Key::Index(_))) {
                self.defaults.add(&path, &self.path, &mut all);
            }
        }
        all
    }

    /// Adds the keys that the user's nulls removed.
    fn removed(&mut self, given: &Map, values: &Map) {
        for (key, value) in given.snapshot() {
            self.path.push(Key::Name(key));
            match &value {
                Value::Map(table) => self.removed(table, values),
                Value::Nil if at(values, &self.path).is_none() => {
                    let leaf = self.winner(&Value::Nil);
                    self.leaves.extend(leaf.map(|leaf| Leaf { is_removed: true, ..leaf }));
                }
                _ => {}
            }
            self.path.pop();
        }
    }
}
