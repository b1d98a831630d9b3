//! The tables of a document, and which of them may be defined twice. Counterpart: BurntSushi/toml's rules, even where they are too lenient.

use std::collections::{BTreeMap, HashSet};

use go_template::{List, ListType, Map, MapType, Str, Value};

use golibs::work::spend;

use super::error::Problem;
use super::{MAX_DEPTH, path_text};

type Table = BTreeMap<String, Node>;

/// Copying a path costs one step per this many bytes.
const BYTES_PER_STEP: usize = 16;

/// The content of a key.
enum Node {
    Value(Value),
    Table(Table),
    /// `[[…]]`.
    Tables(Vec<Table>),
}

/// The kind of a table's header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    /// `[key]`.
    Table,
    /// `[[key]]`, or an inline table in an array.
    ArrayItem,
}

/// The document so far, and the parser's position in it.
#[derive(Default)]
pub(super) struct Tables {
    root: Table,
    /// The path of the current table.
    pub(super) context: Vec<String>,
    pub(super) key: String,
    /// Tables that were created only as parents of others, and that may still be defined.
    implicit: HashSet<String>,
    /// The paths of plain arrays.
    arrays: HashSet<String>,
}

impl Tables {
    /// Returns the key that an error message names.
    pub(super) fn last_key(&self) -> String {
        if self.key.is_empty() {
            return path_text(&self.context);
        }
        if self.context.is_empty() {
            return self.key.clone();
        }
        format!("{}.{}", path_text(&self.context), self.key)
    }

    pub(super) fn into_map(self) -> Map {
        to_map(self.root)
    }

    /// Creates the table of a header and makes it the current one.
    pub(super) fn enter(&mut self, key: &[String], header: Header) -> Result<(), Problem> {
        let Some((last, parents)) = key.split_last() else { return Ok(()) };
        if key.len() > MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        let mut table = &mut self.root;
        for (i, name) in parents.iter().enumerate() {
            if !table.contains_key(name) {
                self.implicit.insert(path_text(&parents[..=i]));
                table.insert(name.clone(), Node::Table(Table::new()));
            }
            table = descend(table, name).ok_or_else(|| Problem::CreatedAsTable(path_text(&parents[..=i])))?;
        }
        self.context = parents.to_vec();
        if header == Header::ArrayItem {
            match table.entry(last.clone()).or_insert_with(|| Node::Tables(Vec::new())) {
                Node::Tables(tables) => tables.push(Table::new()),
                _ => return Err(Problem::CreatedAsOther(path_text(key))),
            }
        } else {
            self.set(last, Node::Table(Table::new()))?;
        }
        self.context.push(last.clone());
        Ok(())
    }

    /// Enters one part of a dotted key below the current table. Otherwise like [`enter`](Self::enter).
    pub(super) fn enter_implicit(&mut self, part: &str) -> Result<(), Problem> {
        self.spend_path()?;
        let mut key = self.context.clone();
        key.push(part.to_owned());
        self.implicit.insert(path_text(&key));
        self.enter(&key, Header::Table)
    }

    /// Creates an inline table under the current key and makes it the current table.
    pub(super) fn enter_inline(&mut self, header: Header) -> Result<(), Problem> {
        self.spend_path()?;
        self.context.push(std::mem::take(&mut self.key));
        let key = self.context.clone();
        self.implicit.insert(path_text(&key));
        self.enter(&key, header)
    }

    /// Records that the key below the current table is a plain array. An empty key denotes the table itself.
    pub(super) fn mark_array(&mut self, key: &str) -> Result<(), Problem> {
        let path = self.path_of(key)?;
        self.arrays.insert(path);
        Ok(())
    }

    /// Records that the key below the current table is not a plain array.
    pub(super) fn unmark_array(&mut self, key: &str) -> Result<(), Problem> {
        let path = self.path_of(key)?;
        self.arrays.remove(&path);
        Ok(())
    }

    fn path_of(&self, key: &str) -> Result<String, Problem> {
        self.spend_path()?;
        let mut path = self.context.clone();
        if !key.is_empty() {
            path.push(key.to_owned());
        }
        Ok(path_text(&path))
    }

    /// Charges for a copy of the current path, which may be much longer than the key.
    fn spend_path(&self) -> Result<(), Problem> {
        let bytes: usize = self.context.iter().map(String::len).sum();
        Ok(spend((bytes / BYTES_PER_STEP) as u64)?)
    }

    pub(super) fn set_value(&mut self, key: &str, value: Value) -> Result<(), Problem> {
        self.set(key, Node::Value(value))
    }

    fn set(&mut self, key: &str, node: Node) -> Result<(), Problem> {
        self.spend_path()?;
        let mut full = self.context.clone();
        full.push(key.to_owned());
        let path = path_text(&full);
        let mut table = &mut self.root;
        for (i, name) in self.context.iter().enumerate() {
            table = descend(table, name).ok_or_else(|| Problem::Defined(path_text(&self.context[..=i])))?;
        }
        if table.contains_key(key) {
            if !self.implicit.remove(&path) {
                return Err(Problem::Defined(path));
            }
            if self.arrays.contains(&path) {
                table.insert(key.to_owned(), node);
            }
            return Ok(());
        }
        table.insert(key.to_owned(), node);
        Ok(())
    }
}

fn descend<'t>(table: &'t mut Table, name: &str) -> Option<&'t mut Table> {
    match table.get_mut(name)? {
        Node::Table(table) => Some(table),
        Node::Tables(tables) => tables.last_mut(),
        Node::Value(_) => None,
    }
}

fn to_map(table: Table) -> Map {
    let entries = table.into_iter().map(|(key, node)| (Str::from(key), to_value(node)));
    Map::new(MapType::Interface, entries.collect())
}

fn to_value(node: Node) -> Value {
    match node {
        Node::Value(value) => value,
        Node::Table(table) => Value::Map(to_map(table)),
        Node::Tables(tables) => {
            let items = tables.into_iter().map(|table| Value::Map(to_map(table))).collect();
            Value::List(List::new(ListType::Map, items))
        }
    }
}
