//! Finds the charts that have a default for a value: the chart itself, its parents, and subcharts that a parent imports from.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use go_encoding::yaml::Lines;
use go_template::{Str, Value};

use super::path::{Key, at};
use super::{Default, Origin, Role};
use crate::view::ChartView;

/// Maximum number of places that are named for one value: imports of imports could multiply.
const MAX_CANDIDATES: usize = 64;

const GLOBAL: &str = "global";

/// The defaults of a chart and its enabled subcharts.
pub(super) struct Defaults<'a> {
    root: &'a ChartView,
    /// The lines of each chart's values file, by the chart's path.
    lines: RefCell<HashMap<String, Arc<Lines>>>,
}

/// A search for the defaults at one path.
struct Search<'s> {
    /// The path of the chart whose templates read it.
    owner: &'s str,
    found: &'s mut Vec<(Origin, Value)>,
    /// The number of places that may still be searched.
    left: usize,
}

impl<'a> Defaults<'a> {
    pub(super) fn new(root: &'a ChartView) -> Defaults<'a> {
        Defaults { root, lines: RefCell::default() }
    }

    /// Returns the paths whose values reach this path, highest precedence first: those of the parents' globals, then the path itself.
    pub(super) fn passed_down(&self, path: &[Key]) -> Vec<Vec<Key>> {
        passed_down(self.root, path)
    }

    /// Adds the defaults at a path, highest precedence first. `wanted` is the path of the value that they reach.
    pub(super) fn add(&self, path: &[Key], wanted: &[Key], found: &mut Vec<(Origin, Value)>) {
        let owner = owner(self.root, wanted);
        let search = &mut Search { owner: &owner.path, found, left: MAX_CANDIDATES };
        self.of(self.root, path, None, search);
    }

    /// Adds the defaults of a chart at a path, which is relative to it, and those of its subcharts.
    fn of(&self, view: &ChartView, path: &[Key], role: Option<Role>, search: &mut Search<'_>) {
        self.without_imports(view, path, role, search);
        for (subchart, child, parent) in imports(view) {
            let Some(rest) = below(path, &parent) else { continue };
            let from: Vec<Key> = [Key::Name(subchart)].into_iter().chain(child).chain(rest.iter().cloned()).collect();
            for from in passed_down(view, &from) {
                self.without_imports(view, &from, Some(Role::Import), search);
            }
        }
    }

    fn without_imports(&self, view: &ChartView, path: &[Key], role: Option<Role>, search: &mut Search<'_>) {
        let Some(left) = search.left.checked_sub(1) else { return };
        search.left = left;
        if let Some(value) = at(&view.chart.values, path) {
            let default = Default {
                file: format!("{}/values.yaml", view.path),
                line: self.line(view, path),
                role: role.unwrap_or_else(|| self.role(view, search)),
            };
            search.found.push((Origin::Default(default), value));
        }
        if let Some((subchart, rest)) = subchart(view, path) {
            self.of(subchart, rest, role, search);
        }
    }

    /// Returns what the chart's own default is to the chart whose templates read the value.
    fn role(&self, view: &ChartView, search: &Search<'_>) -> Role {
        match view.path == search.owner {
            true if view.path == self.root.path => Role::Chart,
            true => Role::Subchart,
            false => Role::Parent,
        }
    }

    /// Returns the line of a key in the chart's values file.
    fn line(&self, view: &ChartView, path: &[Key]) -> Option<usize> {
        let text = view.chart.values_text.as_ref()?;
        let mut known = self.lines.borrow_mut();
        let lines = known.entry(view.path.clone()).or_insert_with(|| Arc::new(Lines::of(text)));
        let names: Vec<String> = path.iter().filter_map(name).collect();
        lines.line(&names)
    }
}

fn name(key: &Key) -> Option<String> {
    match key {
        Key::Name(name) => Some(name.to_text().into_owned()),
        Key::Index(_) => None,
    }
}

/// Returns the chart whose templates read the value at a path.
fn owner<'v>(view: &'v ChartView, path: &[Key]) -> &'v ChartView {
    subchart(view, path).map_or(view, |(subchart, rest)| owner(subchart, rest))
}

/// Returns the enabled subchart that a path leads into, and the rest of the path.
fn subchart<'v, 'p>(view: &'v ChartView, path: &'p [Key]) -> Option<(&'v ChartView, &'p [Key])> {
    let (Key::Name(first), rest) = path.split_first()? else { return None };
    let subchart = view.dependencies.iter().find(|subchart| *first == subchart.name())?;
    (!rest.is_empty()).then_some((subchart, rest))
}

/// Returns the paths whose values reach a path, highest precedence first: `global.a` also reaches `sub.global.a`.
fn passed_down(view: &ChartView, path: &[Key]) -> Vec<Vec<Key>> {
    let (mut at, mut rest, mut depth) = (view, path, 0);
    while let Some((subchart, inner)) = subchart(at, rest) {
        (at, rest, depth) = (subchart, inner, depth + 1);
    }
    let is_global = rest.len() > 1 && matches!(&rest[0], Key::Name(name) if *name == GLOBAL);
    let parents = if is_global { 0..depth } else { 0..0 };
    let above = parents.map(|parent| path[..parent].iter().chain(rest).cloned().collect());
    above.chain([path.to_vec()]).collect()
}

/// Returns what a chart imports: the subchart, the path in it, and the path in the chart.
fn imports(view: &ChartView) -> impl Iterator<Item = (Str, Vec<Key>, Vec<Key>)> {
    view.metadata.dependencies.iter().flat_map(|dependency| {
        dependency.import_values.iter().filter_map(|pair| {
            let Value::Map(pair) = pair else { return None };
            let text = |key: &str| match pair.get(key) {
                Some(Value::String(text)) => Some(text.to_text().into_owned()),
                _ => None,
            };
            Some((Str::from(dependency.name.as_str()), keys(&text("child")?), keys(&text("parent")?)))
        })
    })
}

/// Returns the keys of a dotted path; `.` is the chart itself.
fn keys(path: &str) -> Vec<Key> {
    if path == "." {
        return Vec::new();
    }
    path.split('.').map(|key| Key::Name(key.into())).collect()
}

/// Returns the part of a path below another one.
fn below<'p>(path: &'p [Key], above: &[Key]) -> Option<&'p [Key]> {
    path.strip_prefix(above)
}
