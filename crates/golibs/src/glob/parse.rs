//! Parses a pattern. Counterpart: gobwas' `syntax/lexer` and `syntax/ast`.

use std::iter::Peekable;
use std::str::Chars;

use super::Error;
use super::matcher::Matcher;

/// Maximum nesting of `{}`: far beyond real patterns, and safe for the stack.
pub(super) const MAX_DEPTH: usize = 50;

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// A part without inner parts.
    Leaf(Matcher),
    /// Consecutive parts.
    Pattern(Vec<Node>),
    /// `{...}`: one of the patterns.
    AnyOf(Vec<Node>),
}

/// Parses a pattern. The end of the pattern closes any open `{`, as in gobwas.
pub(super) fn parse(pattern: &str) -> Result<Node, Error> {
    let mut parser = Parser { rest: pattern.chars().peekable(), open: Vec::new(), nodes: Vec::new() };
    while let Some(c) = parser.next_char() {
        parser.step(c)?;
    }
    while !parser.open.is_empty() {
        parser.close();
    }
    Ok(Node::Pattern(parser.nodes))
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    /// For each open `{`: the parts before it, and its complete alternatives.
    open: Vec<(Vec<Node>, Vec<Node>)>,
    /// The sequence being read.
    nodes: Vec<Node>,
}

impl Parser<'_> {
    /// Reads the next character. A NUL ends the pattern, as in gobwas.
    fn next_char(&mut self) -> Option<char> {
        self.rest.next_if(|c| *c != '\0')
    }

    fn step(&mut self, c: char) -> Result<(), Error> {
        match c {
            '{' if self.open.len() == MAX_DEPTH => return Err(Error::TooDeep),
            '{' => self.open.push((std::mem::take(&mut self.nodes), Vec::new())),
            '}' if !self.open.is_empty() => self.close(),
            ',' if !self.open.is_empty() => self.separate(),
            '[' => {
                let class = self.class()?;
                self.nodes.push(Node::Leaf(class));
            }
            '?' => self.nodes.push(Node::Leaf(Matcher::Single)),
            '*' => {
                let is_super = self.rest.next_if_eq(&'*').is_some();
                self.nodes.push(Node::Leaf(if is_super { Matcher::Super } else { Matcher::Any }));
            }
            _ => self.text(c),
        }
        Ok(())
    }

    fn separate(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        if let Some((_, alternatives)) = self.open.last_mut() {
            alternatives.push(Node::Pattern(nodes));
        }
    }

    fn close(&mut self) {
        self.separate();
        if let Some((before, alternatives)) = self.open.pop() {
            self.nodes = before;
            self.nodes.push(Node::AnyOf(alternatives));
        }
    }

    /// Adds a literal character. A backslash makes the next character literal.
    fn text(&mut self, c: char) {
        let c = if c == '\\' { self.next_char() } else { Some(c) };
        match (self.nodes.last_mut(), c) {
            (Some(Node::Leaf(Matcher::Text(text))), Some(c)) => text.push(c),
            (_, Some(c)) => self.nodes.push(Node::Leaf(Matcher::Text(c.to_string()))),
            (_, None) => {}
        }
    }

    /// Parses the content of brackets: an optional `!`, then one range or characters.
    fn class(&mut self) -> Result<Matcher, Error> {
        let negated = self.rest.next_if_eq(&'!').is_some();
        let first = self.next_char().ok_or(Error::UnexpectedEnd)?;
        if self.rest.next_if_eq(&'-').is_some() {
            return self.range(first, negated);
        }
        Ok(Matcher::List { chars: self.characters(first)?, negated })
    }

    fn range(&mut self, lo: char, negated: bool) -> Result<Matcher, Error> {
        let hi = self.next_char().ok_or(Error::UnexpectedEnd)?;
        match self.next_char().ok_or(Error::UnexpectedEnd)? {
            ']' if hi < lo => Err(Error::Descending { lo, hi }),
            ']' => Ok(Matcher::Range { lo, hi, negated }),
            _ => Err(Error::ExpectedClose),
        }
    }

    fn characters(&mut self, first: char) -> Result<Vec<char>, Error> {
        let mut chars = Vec::new();
        let mut next = Some(first);
        loop {
            match next.ok_or(Error::UnexpectedEnd)? {
                ']' if chars.is_empty() => return Err(Error::BadRange),
                ']' => return Ok(chars),
                '\\' => {
                    chars.push(self.next_char().ok_or(Error::UnexpectedEnd)?);
                }
                c => chars.push(c),
            }
            next = self.next_char();
        }
    }
}
