//! The tables and lists that templates use: those in the values, and those that templates create.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use go_template::Str;

use super::held::{CellId, Held, Ref};

/// Maximum depth to which values are followed. Deeper values count as read.
const MAX_DEPTH: u16 = 24;

/// Maximum number of tables and lists to follow. Beyond it, everything counts as read.
const MAX_CELLS: usize = 50_000;

/// The key whose table reaches all subcharts.
const GLOBAL: &[u8] = b"global";

/// The methods of `.Values`, which take precedence over keys.
const METHODS: [&[u8]; 5] = [b"AsMap", b"Encode", b"PathValue", b"Table", b"YAML"];

/// A table or list, or any other place in the values.
#[derive(Clone, Debug, Default)]
struct Cell {
    /// The depth in the values, or `None` for what templates create.
    depth: Option<u16>,
    /// The cells below, by the key under which they are read.
    children: BTreeMap<Str, CellId>,
    /// The cell that stands for each value below, if all of them are read.
    any_child: Option<CellId>,
    /// The values that templates store, by key.
    fields: BTreeMap<Str, Held>,
    /// Items of a list, and values that templates store under unknown keys.
    any: Held,
    /// Tables and lists whose content it may also have.
    from: BTreeSet<CellId>,
    /// Whether all of it is read.
    is_whole: bool,
    /// Whether templates test if it is empty.
    is_tested: bool,
    /// For a subchart's `.Values`, the parent's `.Values`, which may contain more globals.
    parent: Option<CellId>,
    /// Whether it is the `.Values` of a chart.
    is_root: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    all: Vec<Cell>,
    /// The cells of tables and lists that templates create, by the place in the source that creates them.
    made: HashMap<usize, CellId>,
    /// Whether anything was learned since this was last reset.
    pub(super) changed: bool,
    /// Whether there are too many cells to follow.
    pub(super) is_full: bool,
}

impl Cells {
    /// Adds the `.Values` of the root chart or of a subchart.
    pub(super) fn root(&mut self, parent: Option<(CellId, &str)>) -> CellId {
        let id = match parent {
            None => self.push(Cell { depth: Some(0), ..Cell::default() }),
            Some((parent, name)) => match self.child(parent, Some(&Str::from(name))) {
                Some(Ref::Cell(id)) => id,
                _ => parent,
            },
        };
        let cell = &mut self.all[id as usize];
        cell.is_root = true;
        cell.parent = parent.map(|(parent, _)| parent).filter(|parent| *parent != id);
        id
    }

    /// Adds a table that Helm creates.
    pub(super) fn table(&mut self) -> CellId {
        self.push(Cell::default())
    }

    /// Returns the table or list that templates create at this place in their source.
    pub(super) fn made(&mut self, site: usize) -> CellId {
        match self.made.get(&site) {
            Some(id) => *id,
            None => {
                let id = self.push(Cell::default());
                self.made.insert(site, id);
                id
            }
        }
    }

    fn push(&mut self, cell: Cell) -> CellId {
        self.is_full |= self.all.len() >= MAX_CELLS;
        self.changed = true;
        self.all.push(cell);
        CellId::try_from(self.all.len() - 1).unwrap_or_default()
    }

    /// Returns the cell below a cell under a key, or without one the cell that stands for each value below it. `None` if
    /// a template created the cell.
    fn child(&mut self, id: CellId, key: Option<&Str>) -> Option<Ref> {
        let cell = &self.all[id as usize];
        let depth = cell.depth?;
        if let Some(child) = key.map_or(cell.any_child, |key| cell.children.get(key).copied()) {
            return Some(Ref::Cell(child));
        }
        if !self.may_descend(id, depth) {
            return Some(Ref::Other);
        }
        let child = self.push(Cell { depth: Some(depth + 1), ..Cell::default() });
        let cell = &mut self.all[id as usize];
        match key {
            Some(key) => _ = cell.children.insert(key.clone(), child),
            None => cell.any_child = Some(child),
        }
        Some(Ref::Cell(child))
    }

    /// Returns whether the values below a cell matter. If they are too deep, all of them count as read.
    fn may_descend(&mut self, id: CellId, depth: u16) -> bool {
        if depth >= MAX_DEPTH || self.is_full {
            self.read_cell(id);
        }
        !self.all[id as usize].is_whole
    }

    /// Reads a field of each cell.
    pub(super) fn field(&mut self, of: &Held, key: &Str) -> Held {
        let mut found = opaque(of);
        let mut seen = BTreeSet::new();
        of.cells().for_each(|id| self.add_field(id, key, &mut found, &mut seen));
        found
    }

    fn add_field(&mut self, id: CellId, key: &Str, found: &mut Held, seen: &mut BTreeSet<CellId>) {
        if !seen.insert(id) {
            return;
        }
        if self.all[id as usize].is_root && METHODS.contains(&key.as_ref()) {
            self.read_cell(id);
            found.add(Ref::Cell(id));
        }
        self.child(id, Some(key)).into_iter().for_each(|child| found.add(child));
        let cell = &self.all[id as usize];
        cell.fields.get(key).into_iter().chain([&cell.any]).for_each(|held| _ = found.join(held));
        let more = cell.from.iter().copied().chain(cell.parent.filter(|_| key.as_ref() == GLOBAL));
        for other in more.collect::<Vec<_>>() {
            self.add_field(other, key, found, seen);
        }
    }

    /// Reads all items, or the fields under all keys.
    pub(super) fn items(&mut self, of: &Held) -> Held {
        let mut found = opaque(of);
        let mut seen = BTreeSet::new();
        of.cells().for_each(|id| self.add_items(id, &mut found, &mut seen));
        found
    }

    fn add_items(&mut self, id: CellId, found: &mut Held, seen: &mut BTreeSet<CellId>) {
        if !seen.insert(id) {
            return;
        }
        self.child(id, None).into_iter().for_each(|child| found.add(child));
        let cell = &self.all[id as usize];
        cell.fields.values().chain([&cell.any]).for_each(|held| _ = found.join(held));
        let (from, parent) = (cell.from.clone(), cell.parent);
        from.into_iter().for_each(|other| self.add_items(other, found, seen));
        if let Some(parent) = parent {
            self.add_field(parent, &Str::from("global"), found, &mut BTreeSet::new());
        }
    }

    /// Reads the keys and returns them.
    pub(super) fn keys(&mut self, of: &Held) -> Held {
        self.items(of);
        let mut found = Held::default();
        for id in of.cells() {
            let cell = &self.all[id as usize];
            cell.fields.keys().for_each(|key| found.add(Ref::Text(key.clone())));
            if cell.depth.is_some() || !cell.any.is_empty() || !cell.from.is_empty() {
                found.add(Ref::Other);
            }
        }
        found
    }

    /// Stores a value under a key, or if it is `None`, as an item or under an unknown key.
    pub(super) fn store(&mut self, id: CellId, key: Option<&Str>, value: &Held) {
        let cell = &mut self.all[id as usize];
        let place = match key {
            Some(key) => cell.fields.entry(key.clone()).or_default(),
            None => &mut cell.any,
        };
        self.changed |= place.join(value);
    }

    /// Adds the content of `from` to that of `into`.
    pub(super) fn merge(&mut self, into: &Held, from: &Held) {
        for id in into.cells() {
            for other in from.cells().filter(|other| *other != id) {
                self.changed |= self.all[id as usize].from.insert(other);
            }
        }
    }

    /// Records that templates test whether it is empty.
    pub(super) fn test(&mut self, held: &Held) {
        for id in held.cells() {
            self.all[id as usize].is_tested = true;
        }
    }

    /// Reads all of it.
    pub(super) fn read(&mut self, held: &Held) {
        held.cells().for_each(|id| self.read_cell(id));
    }

    fn read_cell(&mut self, id: CellId) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if !self.all[id as usize].is_whole {
                self.all[id as usize].is_whole = true;
                self.changed = true;
                open.extend(self.content(id));
            }
        }
    }

    fn content(&self, id: CellId) -> Vec<CellId> {
        let cell = &self.all[id as usize];
        let places = cell.children.values().chain(&cell.any_child).copied();
        let stored = cell.fields.values().chain([&cell.any]).flat_map(Held::cells);
        let global = cell.parent.and_then(|parent| self.all[parent as usize].children.get(GLOBAL)).copied();
        places.chain(stored).chain(cell.from.iter().copied()).chain(global).collect()
    }

    /// Reads whatever was added to cells that are read as a whole.
    pub(super) fn spread(&mut self) {
        for id in 0..self.all.len() {
            let id = CellId::try_from(id).unwrap_or_default();
            if self.all[id as usize].is_whole {
                self.read_globals(id);
                self.content(id).into_iter().for_each(|inner| self.read_cell(inner));
            }
        }
    }

    /// Reads a subchart's globals. A subchart's values contain its parent's globals.
    fn read_globals(&mut self, id: CellId) {
        if self.all[id as usize].parent.is_some() {
            let globals = self.field(&Held::from(Ref::Cell(id)), &Str::from("global"));
            self.read(&globals);
        }
    }

    /// Returns whether the value contains `goal`, directly or indirectly.
    pub(super) fn reaches(&self, held: &Held, goal: CellId) -> bool {
        let mut open: Vec<CellId> = held.cells().collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if id == goal {
                return true;
            }
            if seen.insert(id) {
                open.extend(self.content(id));
            }
        }
        false
    }

    /// Returns whether all of a cell is read.
    pub(super) fn is_whole(&self, id: CellId) -> bool {
        self.is_full || self.all[id as usize].is_whole
    }

    /// Returns whether templates test if the cell is empty.
    pub(super) fn is_tested(&self, id: CellId) -> bool {
        self.all[id as usize].is_tested
    }

    /// Returns the cell below a cell that is read under this key.
    pub(super) fn known_child(&self, id: CellId, key: &[u8]) -> Option<CellId> {
        self.all[id as usize].children.get(key).copied()
    }

    /// Returns the cell that stands for each value below a cell.
    pub(super) fn known_any(&self, id: CellId) -> Option<CellId> {
        self.all[id as usize].any_child
    }

    pub(super) fn known_keys(&self, id: CellId) -> impl Iterator<Item = &Str> {
        self.all[id as usize].children.keys()
    }
}

/// Returns the parts of a value that stay the same when a field of it is read: the content of a file, and anything that is not followed.
fn opaque(of: &Held) -> Held {
    let mut found = Held::default();
    for one in of.refs() {
        match one {
            Ref::File => found.add(Ref::File),
            Ref::Other => found.add(Ref::Other),
            Ref::Cell(_) | Ref::Text(_) | Ref::Ending(_) => {}
        }
    }
    found
}
