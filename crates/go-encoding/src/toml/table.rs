//! The tables of a document, and who may define what twice: BurntSushi/toml's rules, its leniency included.

use std::collections::{BTreeMap, HashSet};

use go_template::{List, ListType, Map, MapType, Str, Value};

use super::{MAX_DEPTH, path_text};

type Table = BTreeMap<String, Node>;

/// What is under a key.
enum Node {
    Value(Value),
    Table(Table),
    /// `[[…]]`.
    Tables(Vec<Table>),
}

/// The document so far, and where in it the parser is.
#[derive(Default)]
pub(super) struct Tables {
    root: Table,
    /// The table that keys go to.
    pub(super) context: Vec<String>,
    /// The key that is being read.
    pub(super) key: String,
    /// Tables that came to be on the way to others, which may yet be defined.
    implicit: HashSet<String>,
    /// Keys of plain arrays.
    arrays: HashSet<String>,
}

impl Tables {
    /// The key that an error names.
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

    /// Goes to the table of the key, `[key]` or `[[key]]`, and makes it.
    pub(super) fn enter(&mut self, key: &[String], array: bool) -> Result<(), String> {
        let Some((last, parents)) = key.split_last() else { return Ok(()) };
        if key.len() > MAX_DEPTH {
            return Err(format!("exceeded max depth of {MAX_DEPTH}"));
        }
        let mut table = &mut self.root;
        for (i, name) in parents.iter().enumerate() {
            if !table.contains_key(name) {
                self.implicit.insert(path_text(&parents[..=i]));
                table.insert(name.clone(), Node::Table(Table::new()));
            }
            table = descend(table, name)
                .ok_or_else(|| format!("Key '{}' was already created as a hash.", path_text(&parents[..=i])))?;
        }
        self.context = parents.to_vec();
        if array {
            match table.entry(last.clone()).or_insert_with(|| Node::Tables(Vec::new())) {
                Node::Tables(tables) => tables.push(Table::new()),
                _ => {
                    let key = path_text(key);
                    return Err(format!("Key '{key}' was already created and cannot be used as an array."));
                }
            }
        } else {
            self.set(last, Node::Table(Table::new()))?;
        }
        self.context.push(last.clone());
        Ok(())
    }

    /// As [`enter`](Self::enter), for one part of a dotted key below the current table.
    pub(super) fn enter_implicit(&mut self, part: &str) -> Result<(), String> {
        let mut key = self.context.clone();
        key.push(part.to_owned());
        self.implicit.insert(path_text(&key));
        self.enter(&key, false)
    }

    /// Goes to the table of an inline table under the current key.
    pub(super) fn enter_inline(&mut self, in_array: bool) -> Result<(), String> {
        self.context.push(std::mem::take(&mut self.key));
        let key = self.context.clone();
        self.implicit.insert(path_text(&key));
        self.enter(&key, in_array)
    }

    /// Notes what the current table or key is, for those who come later.
    pub(super) fn set_type(&mut self, key: &str, array: bool) {
        let path = self.path_of(key);
        if array {
            self.arrays.insert(path);
        } else {
            self.arrays.remove(&path);
        }
    }

    fn path_of(&self, key: &str) -> String {
        let mut path = self.context.clone();
        if !key.is_empty() {
            path.push(key.to_owned());
        }
        path_text(&path)
    }

    pub(super) fn set_value(&mut self, key: &str, value: Value) -> Result<(), String> {
        self.set(key, Node::Value(value))
    }

    fn set(&mut self, key: &str, node: Node) -> Result<(), String> {
        let mut full = self.context.clone();
        full.push(key.to_owned());
        let path = path_text(&full);
        let mut table = &mut self.root;
        for (i, name) in self.context.iter().enumerate() {
            table = descend(table, name)
                .ok_or_else(|| format!("Key '{}' has already been defined.", path_text(&self.context[..=i])))?;
        }
        if table.contains_key(key) {
            if !self.implicit.remove(&path) {
                return Err(format!("Key '{path}' has already been defined."));
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
