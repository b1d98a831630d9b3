//! What a value may be while templates run, as far as it matters for what they read.

use std::collections::BTreeSet;

use go_template::Str;

/// The number of a table or list.
pub(super) type CellId = u32;

/// One thing that a value may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ref {
    /// A table or list, or anything at a place of the values.
    Cell(CellId),
    /// This text.
    Text(Str),
    /// A text with this end.
    Ending(Str),
    /// The content of a chart's file.
    File,
    /// Anything else that contains no value as it was given.
    Other,
}

/// Everything that a value may be. Empty: nothing but nil.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held(BTreeSet<Ref>);

impl Held {
    /// Something that contains no value as it was given.
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

    /// Adds all that `other` may be. Returns whether that is news.
    pub(super) fn join(&mut self, other: &Held) -> bool {
        let before = self.0.len();
        self.0.extend(other.0.iter().cloned());
        self.0.len() > before
    }

    /// Returns what `self` or `other` may be.
    pub(super) fn or(mut self, other: &Held) -> Held {
        self.join(other);
        self
    }

    /// Returns what of it may still be a template's text after functions have changed it.
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

/// Returns whether `tpl` would run actions in the text.
pub(super) fn is_template(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == b"{{")
}
