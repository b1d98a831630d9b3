//! Finds the keys in given values that no template reads, and suggests which key was meant.

use std::collections::BTreeSet;
use std::fmt;

use go_template::{Map, Value};

use super::Reads;
use super::held::CellId;
use super::known::Known;

/// A key that no template reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The keys that lead to it, outermost first. The key of a list item is its index.
    pub path: Vec<String>,
    /// The dotted path that was probably meant, if there is a similar one.
    pub nearest: Option<String>,
    /// Whether the chart's own defaults or schema contain the key, in which case it is not the user's typing error.
    pub is_documented: bool,
}

/// Shows the key and the suggestion: `image.tga; did you mean "image.tag"?`
impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path.join("."))?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean {nearest:?}?"),
            None => Ok(()),
        }
    }
}

pub(super) fn find(reads: &Reads, values: &Map) -> Vec<Unread> {
    let mut search = Search { reads, path: Vec::new(), found: Vec::new() };
    search.table(&[reads.root], values, &reads.known);
    search.found
}

struct Search<'a> {
    reads: &'a Reads,
    path: Vec<String>,
    found: Vec<Unread>,
}

impl Search<'_> {
    /// Examines a value. `cells` are the cells that it may correspond to.
    fn value(&mut self, cells: &[CellId], value: &Value, known: &Known) {
        if cells.iter().any(|cell| self.reads.flow.cells.is_whole(*cell)) {
            return;
        }
        match value {
            Value::Map(table) => self.table(cells, table, known),
            Value::List(list) => self.list(cells, list, known),
            _ => {}
        }
    }

    fn table(&mut self, cells: &[CellId], table: &Map, known: &Known) {
        let flow = &self.reads.flow.cells;
        // Any key makes an otherwise empty table true.
        let any_counts = !known.has_default_fields() && cells.iter().any(|cell| flow.is_tested(*cell));
        for (key, value) in table.snapshot() {
            let places = |cell: &CellId| [flow.known_child(*cell, &key), flow.known_any(*cell)];
            let below: Vec<CellId> = cells.iter().flat_map(places).flatten().collect();
            self.path.push(key.to_text().into_owned());
            match below[..] {
                [] if any_counts => {}
                [] => self.unread(cells, known),
                _ => self.value(&below, &value, known.field(&key.to_text())),
            }
            self.path.pop();
        }
    }

    fn list(&mut self, cells: &[CellId], list: &[Value], known: &Known) {
        let items: Vec<CellId> = cells.iter().filter_map(|cell| self.reads.flow.cells.known_any(*cell)).collect();
        if items.is_empty() {
            return;
        }
        for (at, item) in list.iter().enumerate() {
            self.path.push(at.to_string());
            self.value(&items, item, known.item());
            self.path.pop();
        }
    }

    fn unread(&mut self, cells: &[CellId], known: &Known) {
        let Some((key, above)) = self.path.split_last() else { return };
        let is_documented = known.keys().any(|known| known == key);
        let nearest = if is_documented { None } else { self.nearest(key, above, cells, known) };
        self.found.push(Unread { path: self.path.clone(), nearest, is_documented });
    }

    /// Returns a similar key beside it, or the same key elsewhere.
    fn nearest(&self, key: &str, above: &[String], cells: &[CellId], known: &Known) -> Option<String> {
        let read = cells.iter().flat_map(|cell| self.reads.flow.cells.known_keys(*cell));
        let mut beside: BTreeSet<String> = read.map(|key| key.to_text().into_owned()).collect();
        beside.extend(known.keys().map(str::to_owned));
        let near = near(key, beside.iter().map(String::as_str));
        let near = near.map(|near| above.iter().map(String::as_str).chain([near]).collect::<Vec<_>>().join("."));
        near.or_else(|| self.reads.known.only_path(key))
    }
}

/// Returns the most similar candidate, if it differs from the key in at most a third of its letters. Ignores case.
pub fn near<'a>(key: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let key = key.to_lowercase();
    let distance = |known: &'a str| (strsim::osa_distance(&key, &known.to_lowercase()), known);
    let (distance, near) = candidates.into_iter().map(distance).min()?;
    (distance * 3 <= near.chars().count()).then_some(near)
}
