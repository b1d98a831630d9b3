//! Templates that are not in `templates/`: the texts that `tpl` executes.

use std::sync::Arc;

use go_template::{Map, Parsed, Str, Value};

use super::flow::Flow;
use super::held::{Held, Ref, is_template};
use crate::engine::calls;
use crate::view::ChartView;

impl Flow {
    /// Evaluates `tpl`. Texts from values and files are executed once the possible dots are known.
    pub(super) fn tpl(&mut self, text: &Held, dot: &Held) -> Held {
        self.cells.read(text);
        for one in text.refs() {
            match one {
                Ref::Text(text) => self.run(text, dot),
                Ref::File => {
                    self.runs_files = true;
                    self.cells.changed |= self.tpl_dots.join(dot);
                }
                Ref::Cell(_) | Ref::Ending(_) | Ref::Other => self.cells.changed |= self.tpl_dots.join(dot),
            }
        }
        Held::other()
    }

    /// Executes the texts from the values, and the files if any file is executed.
    pub(super) fn run_texts(&mut self) {
        if self.tpl_dots.is_empty() {
            return;
        }
        let dot = self.tpl_dots.clone();
        let files: &[Str] = if self.runs_files { &self.files } else { &[] };
        for text in [self.texts.as_slice(), files].concat() {
            self.run(&text, &dot);
        }
    }

    /// Executes a text. A text that does not parse may be part of another one, so everything in the dot counts as read.
    fn run(&mut self, text: &Str, dot: &Held) {
        if !is_template(text) {
            return;
        }
        match self.parse(text) {
            Some(parsed) => _ = self.call(parsed.main(), dot),
            None => self.cells.read(dot),
        }
    }

    fn parse(&mut self, text: &Str) -> Option<Arc<Parsed>> {
        if let Some(known) = self.parsed.get(text) {
            return known.clone();
        }
        let parsed = go_template::parse("gotpl", text.clone(), calls::all()).ok().map(Arc::new);
        for tree in parsed.iter().flat_map(|parsed| parsed.trees()) {
            self.named.entry(tree.name().clone()).or_default().push(Arc::clone(tree));
        }
        self.parsed.insert(text.clone(), parsed.clone());
        parsed
    }
}

/// Returns the texts in the table that `tpl` would change.
pub(super) fn in_values(values: &Map) -> Vec<Str> {
    let mut found = Vec::new();
    let mut open = vec![Value::Map(values.clone())];
    while let Some(value) = open.pop() {
        match &value {
            Value::Map(table) => {
                for (key, inner) in table.snapshot() {
                    open.extend([Value::String(key), inner]);
                }
            }
            Value::String(text) if is_template(text) => found.push(text.clone()),
            _ => open.extend(value.as_list().into_iter().flat_map(|list| list.iter().cloned())),
        }
    }
    found
}

/// Returns the files of the charts that contain actions.
pub(super) fn in_files(view: &ChartView) -> Vec<Str> {
    let own = view.chart.files.iter().map(|file| file.data.clone()).filter(|data| is_template(data));
    own.chain(view.dependencies.iter().flat_map(in_files)).collect()
}
