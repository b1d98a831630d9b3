//! Finds the user's layers that set a value.

use go_template::Value;

use super::Layer;
use super::path::{Key, at, same};

/// The user's layers, lowest precedence first.
pub(super) struct Given<'a>(pub(super) &'a [Layer]);

impl Given<'_> {
    /// Returns the layers that set the value at a path, highest precedence first, each with what it sets.
    ///
    /// A layer whose own values are unknown counts if its merge changed the value.
    pub(super) fn at(&self, path: &[Key]) -> Vec<(usize, Value)> {
        (0..self.0.len()).rev().filter_map(|index| Some((index, self.set_by(index, path)?))).collect()
    }

    fn set_by(&self, index: usize, path: &[Key]) -> Option<Value> {
        let layer = self.0.get(index)?;
        let merged = self.0[index..].iter().find_map(|layer| layer.merged.as_ref());
        let after = merged.and_then(|merged| at(merged, path));
        if let Some(own) = &layer.own {
            // `--set 'list[1]=x'` alone makes a list with a null at 0, which the merge ignores.
            let is_gap = |own: &Value| {
                matches!((own, path.last()), (Value::Nil, Some(Key::Index(_)))) && !after.as_ref().is_none_or(is_nil)
            };
            return at(own, path).filter(|own| !is_gap(own));
        }
        let before = index.checked_sub(1).and_then(|below| at(self.0.get(below)?.merged.as_ref()?, path));
        let is_unchanged = |after: &Value| before.as_ref().is_some_and(|before| same(before, after));
        after.filter(|after| !is_unchanged(after))
    }
}

fn is_nil(value: &Value) -> bool {
    matches!(value, Value::Nil)
}
