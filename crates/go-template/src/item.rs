//! Tokens and their form in error messages. Counterpart: the first part of Go's `text/template/parse/lex.go`.

use golibs::strconv::quote;
use golibs::utf8::{Rune, decode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemType {
    /// The lexer failed, and its `error` holds the reason.
    Error,
    Bool,
    /// Any other printable ASCII character: a comma, or a character without a meaning.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    // Keywords follow.
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl ItemType {
    fn is_keyword(self) -> bool {
        use ItemType::{Block, Break, Continue, Define, Dot, Else, End, If, Nil, Range, Template, With};
        matches!(self, Block | Break | Continue | Dot | Define | Else | End | If | Nil | Range | Template | With)
    }
}

/// A token: its text and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) typ: ItemType,
    /// The byte offset of its start.
    pub(crate) pos: usize,
    pub(crate) val: &'a [u8],
    /// The line of its start, counted from 1.
    pub(crate) line: usize,
}

impl Item<'_> {
    /// A placeholder for a token that has not been read.
    pub(crate) const NONE: Item<'static> = Item { typ: ItemType::Error, pos: 0, val: b"", line: 0 };

    /// Returns the token as error messages show it.
    pub(crate) fn describe(&self) -> String {
        match self.typ {
            ItemType::Eof => "EOF".to_owned(),
            t if t.is_keyword() => format!("<{}>", String::from_utf8_lossy(self.val)),
            _ if self.val.len() > 10 => format!("{}...", quote(first_runes(self.val, 10))),
            _ => quote(self.val),
        }
    }
}

fn first_runes(text: &[u8], n: usize) -> &[u8] {
    let mut end = 0;
    for _ in 0..n {
        end += decode(&text[end..]).map_or(0, Rune::width);
    }
    &text[..end]
}
