//! Turns tokens into trees, with one method per grammar rule. Counterpart: Go's `text/template/parse/parse.go`, including its error texts.
//!
//! Unlike Go, it resolves functions while it parses, and limits the nesting of blocks.

mod control;
mod error;
mod pipeline;
mod term;
mod tokens;

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use crate::error::ParseError;
use crate::function::FuncMap;
use crate::item::{Item, ItemType};
use crate::lex::Lexer;
use crate::node::{DOLLAR, ListNode, Node, TextNode, Tree, VarId};
use crate::value::Str;

pub use error::ParseErrorKind;
use golibs::strconv::unquote;

/// Maximum nesting of parentheses: Go's limit.
pub const MAX_PAREN_DEPTH: usize = 10_000;

/// Maximum nesting of `if`, `range`, `with` and `block`; each `else if` counts. Go has no limit, and no real template comes close to this one.
pub const MAX_BLOCK_DEPTH: usize = 10_000;

/// Maximum memory of the trees of one source text, in bytes. An action takes a few hundred. Go has no limit.
pub const MAX_TREE_BYTES: usize = 64 << 20;

/// The templates that one source text defines.
#[derive(Clone, Debug)]
pub struct Parsed {
    main: Arc<Tree>,
    trees: Vec<Arc<Tree>>,
    bytes: usize,
}

impl Parsed {
    /// Returns the template with the name of the source text: everything outside `define`.
    pub fn main(&self) -> &Arc<Tree> {
        &self.main
    }

    /// Returns about how many bytes of memory the trees take up.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns all templates of the source text, including the main one. Names are unique.
    pub fn trees(&self) -> &[Arc<Tree>] {
        &self.trees
    }
}

/// Parses the source text of the template `name`, which may call the functions in `funcs` and Go's built-in functions.
///
/// # Errors
/// Fails with Go's message, such as `template: NAME:3: unexpected EOF`.
pub fn parse(name: impl Into<Str>, text: impl Into<Str>, funcs: &FuncMap) -> Result<Parsed, ParseError> {
    let (name, text) = (name.into(), text.into());
    let mut parser = Parser::new(&name, &text, funcs);
    match parser.parse(&name) {
        Ok(main) => Ok(Parsed { main, trees: parser.trees, bytes: parser.bytes }),
        Err(error) => Err(*error),
    }
}

/// The memory of a template, besides its nodes and its entries in the set.
const TREE_BYTES: usize = 256;

type Result2<T> = Result<T, Box<ParseError>>;

struct Parser<'a> {
    text: &'a Str,
    parse_name: Arc<str>,
    funcs: &'a FuncMap,
    lex: Lexer<'a>,
    scope: ParseScope<'a>,
    /// The number of each variable name in the source text.
    names: HashMap<&'a [u8], VarId>,
    block_depth: usize,
    trees: Vec<Arc<Tree>>,
    /// The index in `trees` of each name.
    tree_names: HashMap<Str, usize>,
    /// About how many bytes of memory the trees take up.
    bytes: usize,
}

/// The state that each `define` and `block` has for itself.
struct ParseScope<'a> {
    /// Three-token lookahead, as in Go. The first entry is the last token from the lexer.
    token: [Item<'a>; 3],
    peek_count: usize,
    /// The variables in scope.
    vars: Vec<VarId>,
    /// The line of the action's left delimiter, or 0 outside an action.
    action_line: usize,
    range_depth: usize,
    paren_depth: usize,
}

impl ParseScope<'_> {
    fn new() -> Self {
        let token = [Item::NONE; 3];
        ParseScope { token, peek_count: 0, vars: vec![DOLLAR], action_line: 0, range_depth: 0, paren_depth: 0 }
    }
}

/// An element of a list, or the keyword that ends the list.
enum Element {
    Node(Node),
    End,
    Else,
}

impl<'a> Parser<'a> {
    fn new(name: &Str, text: &'a Str, funcs: &'a FuncMap) -> Parser<'a> {
        let mut lex = Lexer::new(text);
        lex.break_ok = funcs.get("break").is_none();
        lex.continue_ok = funcs.get("continue").is_none();
        let names = HashMap::from([(&b"$"[..], DOLLAR)]);
        let parse_name = name.to_text().into();
        Parser {
            text,
            parse_name,
            funcs,
            lex,
            scope: ParseScope::new(),
            names,
            block_depth: 0,
            trees: Vec::new(),
            tree_names: HashMap::new(),
            bytes: 0,
        }
    }

    // Templates.

    fn parse(&mut self, name: &Str) -> Result2<Arc<Tree>> {
        let mut root = ListNode::default();
        while self.peek().typ != ItemType::Eof {
            if self.peek().typ == ItemType::LeftDelim {
                let delim = self.next();
                if self.next_non_space().typ == ItemType::Define {
                    self.in_own_scope(Parser::parse_definition)?;
                    continue;
                }
                self.backup2(delim);
            }
            match self.text_or_action()? {
                Element::Node(node) => root.nodes.push(node),
                Element::End => return self.error(ParseErrorKind::UnexpectedEnd),
                Element::Else => return self.error(ParseErrorKind::UnexpectedElse),
            }
        }
        self.add(name.clone(), root)
    }

    fn in_own_scope<T>(&mut self, f: impl FnOnce(&mut Self) -> Result2<T>) -> Result2<T> {
        let outer = mem::replace(&mut self.scope, ParseScope::new());
        let result = f(self);
        self.scope = outer;
        result
    }

    /// Parses `{{define "name"}} … {{end}}`, after the keyword.
    fn parse_definition(&mut self) -> Result2<()> {
        const CONTEXT: &str = "define clause";
        let token = self.next_non_space();
        if token.typ != ItemType::String && token.typ != ItemType::RawString {
            return self.unexpected(token, CONTEXT);
        }
        let name = self.unquote(token)?;
        self.expect(ItemType::RightDelim, CONTEXT)?;
        match self.item_list()? {
            (_, Element::Else) => self.error(ParseErrorKind::UnexpectedElseIn(CONTEXT)),
            (root, _) => self.add(name, root).map(|_| ()),
        }
    }

    /// Adds the template, unless it is empty and another one has its name.
    fn add(&mut self, name: Str, root: ListNode) -> Result2<Arc<Tree>> {
        let tree = Tree { name, parse_name: Arc::clone(&self.parse_name), text: self.text.clone(), root };
        let tree = Arc::new(tree);
        self.grow(TREE_BYTES)?;
        let Some(i) = self.tree_names.get(&tree.name).copied() else {
            self.tree_names.insert(tree.name.clone(), self.trees.len());
            self.trees.push(Arc::clone(&tree));
            return Ok(tree);
        };
        if self.trees[i].is_empty() {
            self.trees[i] = Arc::clone(&tree);
        } else if !tree.is_empty() {
            return self.error(ParseErrorKind::MultipleDefinition(tree.name.clone()));
        }
        Ok(Arc::clone(&self.trees[i]))
    }

    fn unquote(&mut self, token: Item<'a>) -> Result2<Str> {
        match unquote(token.val) {
            Some(text) => Ok(text.into()),
            None => self.error(ParseErrorKind::InvalidString),
        }
    }

    /// Counts memory that the trees take up.
    fn grow(&mut self, bytes: usize) -> Result2<()> {
        self.bytes += bytes;
        if self.bytes > MAX_TREE_BYTES { self.error(ParseErrorKind::TooLarge) } else { Ok(()) }
    }

    // Lists and actions.

    /// Parses everything up to `{{end}}` or `{{else}}`; also returns which of the two it was.
    fn item_list(&mut self) -> Result2<(ListNode, Element)> {
        let mut list = ListNode::default();
        while self.peek_non_space().typ != ItemType::Eof {
            match self.text_or_action()? {
                Element::Node(node) => list.nodes.push(node),
                end => return Ok((list, end)),
            }
        }
        self.error(ParseErrorKind::UnexpectedEof)
    }

    fn text_or_action(&mut self) -> Result2<Element> {
        self.grow(size_of::<Node>())?;
        let token = self.next_non_space();
        match token.typ {
            ItemType::Text => {
                let range = token.pos..token.pos + token.val.len();
                Ok(Element::Node(Node::Text(TextNode { range })))
            }
            ItemType::LeftDelim => {
                self.scope.action_line = token.line;
                let element = self.action();
                self.scope.action_line = 0;
                element
            }
            _ => self.unexpected(token, "input"),
        }
    }
}
