//! Lays out pieces of YAML: columns, indentation, and the blanks between the pieces.

use super::Dialect;

/// The indentation per level.
pub(super) const INDENT: isize = 2;

/// The column past which yaml.v2 folds scalars.
const WIDTH: usize = 80;

/// The output so far, and libyaml's state about its end.
pub(super) struct Writer {
    out: Vec<u8>,
    column: usize,
    indent: isize,
    pub(super) depth: usize,
    /// The column past which scalars are folded.
    width: usize,
    /// Whether the output ends in a blank.
    whitespace: bool,
    /// Whether the line contains only indentation and indicators.
    pub(super) indention: bool,
}

/// The kind of node that is indented.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// A scalar, which is indented even at the top level.
    Scalar,
    Collection,
    /// A list in the same column as its key.
    SameColumn,
}

/// The indentation to return to.
pub(super) struct Outer(isize);

impl Writer {
    pub(super) fn new(dialect: Dialect) -> Writer {
        Writer {
            out: Vec::with_capacity(256),
            column: 0,
            indent: -1,
            depth: 0,
            width: if dialect == Dialect::V2 { WIDTH } else { usize::MAX },
            whitespace: true,
            indention: true,
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns whether the next space would be past the width.
    pub(super) fn is_wide(&self) -> bool {
        self.column > self.width
    }

    /// Returns whether this many more characters fit within the width.
    pub(super) fn has_room(&self, characters: usize) -> bool {
        self.column + characters <= self.width
    }

    pub(super) fn increase_indent(&mut self, level: Level) -> Outer {
        let outer = Outer(self.indent);
        if self.indent < 0 {
            self.indent = if level == Level::Scalar { INDENT } else { 0 };
        } else if level != Level::SameColumn {
            self.indent += INDENT;
        }
        self.depth += 1;
        outer
    }

    pub(super) fn restore_indent(&mut self, outer: Outer) {
        self.indent = outer.0;
        self.depth -= 1;
    }

    /// Moves to the current indentation, on a new line unless the current line is still blank.
    pub(super) fn indent_line(&mut self) {
        let indent = self.indent.max(0) as usize;
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.line_break();
        }
        if self.column < indent {
            self.out.resize(self.out.len() + indent - self.column, b' ');
            self.column = indent;
        }
        self.whitespace = true;
        self.indention = true;
    }

    /// Writes an ASCII indicator, preceded by a blank.
    pub(super) fn indicator(&mut self, text: &str) {
        self.block_indicator(text);
        self.indention = false;
    }

    /// Writes an ASCII indicator without a preceding blank.
    pub(super) fn attached_indicator(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.column += text.len();
        self.end_scalar();
    }

    /// Writes an ASCII indicator, preceded by a blank. It counts as indentation for nested block collections.
    pub(super) fn block_indicator(&mut self, text: &str) {
        self.blank();
        self.out.extend_from_slice(text.as_bytes());
        self.column += text.len();
        self.whitespace = false;
    }

    /// Writes a plain scalar of ASCII characters without blanks.
    pub(super) fn word(&mut self, text: &str) {
        self.blank();
        self.out.extend_from_slice(text.as_bytes());
        self.column += text.len();
        self.end_scalar();
    }

    /// Adds a blank unless the output already ends in one.
    pub(super) fn blank(&mut self) {
        if !self.whitespace {
            self.byte(b' ');
        }
    }

    pub(super) fn end_scalar(&mut self) {
        self.whitespace = false;
        self.indention = false;
    }

    /// Starts the first line of a block scalar.
    pub(super) fn begin_block(&mut self) {
        self.line_break();
        self.whitespace = true;
        self.indention = true;
    }

    /// Notes that the line contains more than indentation and indicators.
    pub(super) fn end_indention(&mut self) {
        self.indention = false;
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.out.push(byte);
        self.column += 1;
    }

    /// Writes text without line breaks.
    pub(super) fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
        self.column += if text.is_ascii() { text.len() } else { text.chars().count() };
    }

    /// Writes one character other than a line break.
    pub(super) fn char(&mut self, c: char) {
        let mut buffer = [0; 4];
        self.out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        self.column += 1;
    }

    pub(super) fn line_break(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
    }

    /// Writes a line break of a scalar. The next line contains only indentation so far.
    pub(super) fn break_char(&mut self, c: char) {
        self.char(c);
        self.column = 0;
        self.indention = true;
    }
}
