//! Patterns for file paths, as `.Files.Glob` and `fromFiles` take them: `*`, `**`, `?`, `[a-z]`, `{a,b}`, parted by `/`.
//!
//! A pattern becomes a regular expression, so matching takes time linear in the path. Counterpart: gobwas/glob v0.2.3.

mod cache;
mod parse;
#[cfg(test)]
mod tests;

pub use cache::cached;

use regex::bytes::{Regex, RegexBuilder};

use parse::{Node, parse};

/// The longest pattern, in bytes. Real ones have some dozen; more is an attempt to use memory.
pub const MAX_PATTERN_LENGTH: usize = 4096;

/// The most memory that a compiled pattern may take, in bytes.
const MAX_COMPILED_SIZE: usize = 4 << 20;

/// Why a pattern cannot be used. The texts are gobwas', except for the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A `[` that is not closed.
    #[error("unexpected end of input")]
    UnexpectedEnd,
    /// Something else than `]` after a range.
    #[error("expected close range character")]
    ExpectedClose,
    /// Brackets with neither characters nor a range.
    #[error("could not parse range")]
    BadRange,
    /// A range whose end comes before its start.
    #[error("hi character '{hi}' should be greater than lo '{lo}'")]
    Descending {
        /// The start.
        lo: char,
        /// The end.
        hi: char,
    },
    /// The pattern is not UTF-8.
    #[error("could not read rune")]
    BadRune,
    /// Alternatives nested deeper than [`MAX_DEPTH`](parse::MAX_DEPTH).
    #[error("pattern is nested too deeply (max {max})", max = parse::MAX_DEPTH)]
    TooDeep,
    /// The pattern is longer than [`MAX_PATTERN_LENGTH`], or takes too much memory.
    #[error("pattern is too large (max {MAX_PATTERN_LENGTH} bytes)")]
    TooLarge,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Glob(Regex);

impl Glob {
    /// Compiles a pattern whose separator is `/`.
    pub fn new(pattern: &str) -> Result<Glob, Error> {
        if pattern.len() > MAX_PATTERN_LENGTH {
            return Err(Error::TooLarge);
        }
        let mut regex = String::from("^(?:");
        let nodes = parse(pattern)?;
        write_nodes(&mut regex, &nodes);
        regex.push_str(if takes_nothing(&nodes) { ")?$" } else { ")$" });
        let compiled = RegexBuilder::new(&regex).size_limit(MAX_COMPILED_SIZE).nest_limit(MAX_REGEX_DEPTH).build();
        compiled.map(Glob).map_err(|_| Error::TooLarge)
    }

    /// Whether the whole path matches.
    pub fn is_match(&self, path: impl AsRef<[u8]>) -> bool {
        self.0.is_match(path.as_ref())
    }
}

/// Each level of alternatives nests a group, an alternation and a concatenation.
const MAX_REGEX_DEPTH: u32 = 4 * parse::MAX_DEPTH as u32 + 16;

/// Whether the pattern is `?` or `[!...]` alone, which gobwas lets match an empty text.
fn takes_nothing(nodes: &[Node]) -> bool {
    match nodes {
        [Node::Single | Node::Class { negated: true, .. }] => true,
        [Node::AnyOf(alternatives)] => alternatives.iter().any(|nodes| takes_nothing(nodes)),
        _ => false,
    }
}

fn write_nodes(regex: &mut String, nodes: &[Node]) {
    for (i, node) in nodes.iter().enumerate() {
        let fixed = |j: usize| nodes.get(j).is_some_and(Node::has_fixed_length);
        let in_row = fixed(i) && (fixed(i + 1) || i > 0 && fixed(i - 1));
        write_node(regex, node, in_row, in_row && fixed(i + 1));
    }
}

/// gobwas cuts a row of parts of fixed length by bytes where it counted characters. So within a row no part can end with a character
/// of several bytes; only `?` and `[!...]` at the row's end take the cut character for any other.
fn write_node(regex: &mut String, node: &Node, in_row: bool, continued: bool) {
    match node {
        Node::Text(text) if in_row && text.chars().next_back().is_some_and(|c| !c.is_ascii()) => regex.push_str(NEVER),
        Node::Text(text) => regex.push_str(&regex::escape(text)),
        Node::Any => regex.push_str("[^/]*"),
        Node::Super => regex.push_str("(?s-u:.)*"),
        Node::Single if continued => regex.push_str("[\\x00-\\x7f&&[^/]]"),
        Node::Single => regex.push_str("[^/]"),
        Node::Class { ranges, negated } => {
            let ascii_only = continued || in_row && !negated;
            write_class(regex, ranges, *negated, ascii_only);
        }
        Node::AnyOf(alternatives) => {
            regex.push_str("(?:");
            for (i, alternative) in alternatives.iter().enumerate() {
                regex.push_str(if i > 0 { "|" } else { "" });
                write_nodes(regex, alternative);
            }
            regex.push(')');
        }
    }
}

/// A regular expression that matches nothing.
const NEVER: &str = "[^\\x00-\\x{10ffff}]";

fn write_class(regex: &mut String, ranges: &[(char, char)], negated: bool, ascii_only: bool) {
    regex.push_str(if ascii_only { "[\\x00-\\x7f&&" } else { "" });
    regex.push_str(if negated { "[^" } else { "[" });
    for (lo, hi) in ranges {
        regex.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(*lo), u32::from(*hi)));
    }
    regex.push_str(if ascii_only { "]]" } else { "]" });
}
