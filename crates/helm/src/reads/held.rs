//! The possible values of an expression, as far as they matter for what templates read.

use std::collections::BTreeSet;

use go_template::Str;

/// The number of a cell: a table, a list, or any other place in the values.
pub(super) type CellId = u32;

/// A possible value of an expression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ref {
    /// A table or list, or any value in the user's values.
    Cell(CellId),
    Text(Str),
    /// A text that ends like this.
    Ending(Str),
    /// The content of a chart's file.
    File,
    /// Anything else, which does not contain any value unchanged.
    Other,
}

/// All possible values of an expression. If it is empty, the value is nil.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held(BTreeSet<Ref>);

impl Held {
    /// Returns a value that does not contain any other value unchanged.
    pub(super) fn other() -> Held {
        Held::from(Ref::Other)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn refs(&self) -> impl Iterator<Item = &Ref> {
        self.0.iter()
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = CellId> {
        self.0.iter().filter_map(|one| if let Ref::Cell(id) = one { Some(*id) } else { None })
    }

    pub(super) fn add(&mut self, one: Ref) {
        self.0.insert(one);
    }

    /// Adds everything that `other` may be; returns whether any of it is new.
    pub(super) fn join(&mut self, other: &Held) -> bool {
        let before = self.0.len();
        self.0.extend(other.0.iter().cloned());
        self.0.len() > before
    }

    /// Returns the values that `self` or `other` may be.
    pub(super) fn or(mut self, other: &Held) -> Held {
        self.join(other);
        self
    }

    /// Returns the values that may still be a template's text after functions have changed it.
    pub(super) fn templates(&self) -> Held {
        let is_template = |one: &&Ref| match one {
            Ref::Text(text) => is_template(text),
            Ref::File => true,
            Ref::Cell(_) | Ref::Ending(_) | Ref::Other => false,
        };
        Held(self.0.iter().filter(is_template).cloned().collect())
    }
}

impl From<Ref> for Held {
    fn from(one: Ref) -> Held {
        Held(BTreeSet::from([one]))
    }
}

/// Returns whether `tpl` would execute actions in the text.
pub(super) fn is_template(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == b"{{")
}
