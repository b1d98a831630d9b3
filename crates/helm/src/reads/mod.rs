//! Determines which values a chart's templates can read, without rendering.
//!
//! Values that no template reads are mostly typing errors, which Helm accepts silently. The analysis follows values through variables, dicts,
//! includes, `tpl`, subcharts and globals. It errs on one side only: whatever may be read counts as read. Helm has no counterpart.
//!
//! | file | question |
//! |---|---|
//! | `held` | What may a value be? |
//! | `cells` | What do tables and lists contain, and what of them is read? |
//! | `flow` | Where do values flow in templates? |
//! | `functions` | What do functions read and return? |
//! | `texts` | Which texts does `tpl` execute? |
//! | `unread` | Which keys of given values are not read, and which key was meant? |

mod cells;
mod flow;
mod functions;
mod held;
mod known;
#[cfg(test)]
mod tests;
mod texts;
mod unread;

use std::collections::BTreeSet;
use std::sync::Arc;

use go_template::{Map, Str, Value};

use crate::chart::Chart;
use crate::engine::Program;
use crate::view::{self, ChartView, Nulls, coalesce};
use flow::Flow;
use held::{CellId, Held, Ref};
use known::Known;

pub use unread::{Unread, near};

/// The values that a chart's templates can read. Does not depend on given values: every subchart counts, whether enabled or not.
#[derive(Clone, Debug)]
pub struct Reads {
    flow: Flow,
    /// `.Values` of the root chart.
    root: CellId,
    /// The keys that the chart documents.
    known: Known,
    /// Whether nothing can be determined, because a template does not parse or is in another language.
    is_open: bool,
}

impl Reads {
    /// Analyses the chart's templates, which takes about as long as a few renders.
    pub fn of(chart: &Arc<Chart>) -> Reads {
        Reads::try_of(chart).unwrap_or_else(|| Reads {
            flow: Flow::default(),
            root: 0,
            known: Known::default(),
            is_open: true,
        })
    }

    fn try_of(chart: &Arc<Chart>) -> Option<Reads> {
        let view = view::everything(chart).ok()?;
        let program = Program::parse(&view).ok()?;
        let defaults = coalesce(&view, &Map::default(), Nulls::Keep, &mut Vec::new()).ok()?;
        let mut flow = Flow::default();
        (flow.texts, flow.files) = (texts::in_values(&defaults), texts::in_files(&view));
        let is_open = !flow.start(&view, &program);
        flow.settle();
        Some(Reads { flow, root: 0, known: Known::of(&view, &defaults), is_open })
    }

    /// Returns the keys in a release's values that no template reads, in their order. Never returns a key that may be read.
    ///
    /// `values` are those that the user sets, without the chart's defaults.
    pub fn unread(&self, values: &Map) -> Vec<Unread> {
        if self.is_open() {
            return Vec::new();
        }
        let texts = texts::in_values(values);
        if texts.is_empty() || self.flow.tpl_dots.is_empty() {
            return unread::find(self, values);
        }
        let mut reads = self.clone();
        reads.flow.texts.extend(texts);
        reads.flow.settle();
        if reads.is_open() { Vec::new() } else { unread::find(&reads, values) }
    }

    /// Returns all top-level keys that the chart may use: those that templates read, and those in its defaults and schema.
    ///
    /// Returns `None` if others may be read: the chart uses its values as a whole, computes a key, or allows templates in values, which can read any
    /// value.
    pub fn top_level(&self) -> Option<BTreeSet<String>> {
        if !self.knows_top_level() {
            return None;
        }
        let read = self.flow.cells.known_keys(self.root).map(|key| key.to_text().into_owned());
        Some(read.chain(self.known.keys().map(str::to_owned)).collect())
    }

    fn knows_top_level(&self) -> bool {
        let cells = &self.flow.cells;
        let is_known = !self.is_open() && !cells.is_whole(self.root) && cells.known_any(self.root).is_none();
        is_known && !cells.reaches(&self.flow.tpl_dots, self.root)
    }

    fn is_open(&self) -> bool {
        self.is_open || self.flow.is_open() || self.flow.cells.is_whole(self.root)
    }
}

impl Flow {
    /// Calls the templates that Helm executes, each with its chart's top-level object. Returns whether all of them can be followed.
    fn start(&mut self, view: &ChartView, program: &Program) -> bool {
        for tree in program.templates.trees() {
            self.named.insert(tree.name().clone(), vec![Arc::clone(tree)]);
        }
        let mut tops = Vec::new();
        let root = self.cells.root(None);
        self.top(view, root, &mut tops);
        self.read_by_helm(view, root);
        for file in program.files() {
            let Some(tree) = self.named.get(file.name()).and_then(|trees| trees.first()).cloned() else { return false };
            if let Some(top) = tops.get(file.chart()) {
                self.call(&tree, top);
            }
        }
        true
    }

    /// Creates the top-level objects of a chart and its subcharts, depth first, as templates receive them.
    fn top(&mut self, view: &ChartView, values: CellId, tops: &mut Vec<Held>) -> Held {
        let top = Held::from(Ref::Cell(self.cells.table()));
        tops.push(top.clone());
        let subcharts = Held::from(Ref::Cell(self.cells.table()));
        for subchart in &view.dependencies {
            let below = self.cells.root(Some((values, subchart.name())));
            let below = self.top(subchart, below, tops);
            subcharts.cells().for_each(|id| self.cells.store(id, Some(&Str::from(subchart.name())), &below));
        }
        let fields = [
            ("Values", Held::from(Ref::Cell(values))),
            ("Subcharts", subcharts),
            ("Files", Held::from(Ref::File)),
            ("Chart", Held::other()),
            ("Release", Held::other()),
            ("Capabilities", Held::other()),
            ("Template", Held::other()),
        ];
        for id in top.cells() {
            fields.iter().for_each(|(name, value)| self.cells.store(id, Some(&Str::from(*name)), value));
        }
        top
    }

    /// Reads what Helm itself reads: conditions, tags, and the values that parents import.
    fn read_by_helm(&mut self, view: &ChartView, values: CellId) {
        let root = Held::from(Ref::Cell(values));
        self.cells.field(&root, &Str::from("global"));
        for dependency in &view.metadata.dependencies {
            for condition in dependency.condition.trim().split(',').filter(|path| !path.is_empty()) {
                self.path(&root, condition);
            }
            if !dependency.tags.is_empty() {
                let tags = self.path(&Held::from(Ref::Cell(0)), "tags");
                self.cells.read(&tags);
            }
            for import in &dependency.import_values {
                if let Value::Map(pair) = import
                    && let Some(Value::String(child)) = pair.get("child")
                {
                    let imported = self.path(&root, &format!("{}.{}", dependency.name, child.to_text()));
                    self.cells.read(&imported);
                }
            }
        }
        for subchart in &view.dependencies {
            let below = self.cells.field(&root, &Str::from(subchart.name()));
            below.cells().collect::<Vec<_>>().into_iter().for_each(|below| self.read_by_helm(subchart, below));
        }
    }

    fn path(&mut self, of: &Held, path: &str) -> Held {
        path.split('.').fold(of.clone(), |value, key| self.cells.field(&value, &Str::from(key)))
    }
}
