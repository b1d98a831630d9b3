//! The characters of each general category, limited to the version of Unicode that Go has.
//!
//! The categories come from the parser of the `regex` crate, which knows in which version each character was assigned. A newer version of that crate
//! changes nothing here unless a character moves to another category; a test compares every table with Go's.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// Sorted ranges of code points, including both ends.
pub(super) struct Table(LazyLock<Vec<(u32, u32)>>);

impl Table {
    pub(super) fn contains(&self, c: char) -> bool {
        let (ranges, c) = (&*self.0, u32::from(c));
        let after = ranges.partition_point(|(first, _)| *first <= c);
        after > 0 && c <= ranges[after - 1].1
    }
}

macro_rules! table {
    ($class:literal) => {
        Table(LazyLock::new(|| ranges(concat!("[", $class, "&&\\p{age=15.0}]"))))
    };
}

pub(super) static LETTER: Table = table!("\\p{L}");
pub(super) static UPPER: Table = table!("\\p{Lu}");
pub(super) static LOWER: Table = table!("\\p{Ll}");
pub(super) static TITLE: Table = table!("\\p{Lt}");
pub(super) static DIGIT: Table = table!("\\p{Nd}");
pub(super) static NUMBER: Table = table!("\\p{N}");
pub(super) static PUNCT: Table = table!("\\p{P}");
pub(super) static PRINT: Table = table!("\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\x20");

/// Returns the ranges of a class. A class that does not parse has none; the tests rule this out.
fn ranges(class: &str) -> Vec<(u32, u32)> {
    let parsed = regex_syntax::parse(class).map(|hir| hir.into_kind());
    match parsed {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        _ => Vec::new(),
    }
}
