//! The parse tree, and its source form, which errors show as `at <…>`. Counterpart: Go's `text/template/parse/node.go`.
//!
//! Nodes are ready to execute: names are [`Str`], functions are resolved, constants converted, variables numbered.

use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use crate::funcs::Builtin;
use crate::function::Function;
use crate::stack;
use crate::value::{Str, Value};
use golibs::strconv::quote;

/// A byte offset in the source text.
pub(crate) type Pos = usize;

/// A parsed template: immutable, and shared between threads and runs.
pub struct Tree {
    pub(crate) name: Str,
    /// The name of its source text, for errors.
    pub(crate) parse_name: Arc<str>,
    pub(crate) text: Str,
    pub(crate) root: ListNode,
}

impl Tree {
    /// The template's name.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// Returns whether the template contains only space and comments. Such a template does not replace another one of its name.
    pub fn is_empty(&self) -> bool {
        is_empty_list(&self.root, &self.text)
    }

    /// The line (from 1) and byte column (from 0) of an offset.
    pub(crate) fn line_and_column(&self, pos: Pos) -> (usize, usize) {
        let before = &self.text[..pos.min(self.text.len())];
        let column = memchr::memrchr(b'\n', before).map_or(pos, |newline| pos - newline - 1);
        (1 + memchr::memchr_iter(b'\n', before).count(), column)
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("name", &self.name).finish_non_exhaustive()
    }
}

fn is_empty_list(list: &ListNode, text: &[u8]) -> bool {
    list.nodes.iter().all(|node| match node {
        Node::Text(t) => text[t.range.clone()].trim_ascii().is_empty() || is_unicode_space(&text[t.range.clone()]),
        _ => false,
    })
}

/// Go's `bytes.TrimSpace` also trims Unicode spaces.
fn is_unicode_space(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|t| t.chars().all(char::is_whitespace))
}

#[derive(Default)]
pub(crate) struct ListNode {
    pub(crate) nodes: Vec<Node>,
}

pub(crate) enum Node {
    Text(TextNode),
    Action(ActionNode),
    If(BranchNode),
    Range(BranchNode),
    With(BranchNode),
    Template(TemplateNode),
    Break,
    Continue,
}

pub(crate) struct TextNode {
    /// The bytes of the tree's source text.
    pub(crate) range: Range<usize>,
}

pub(crate) struct ActionNode {
    pub(crate) pos: Pos,
    pub(crate) pipe: PipeNode,
}

/// `if`, `range` and `with`.
pub(crate) struct BranchNode {
    pub(crate) pipe: PipeNode,
    pub(crate) list: ListNode,
    pub(crate) else_list: Option<ListNode>,
}

pub(crate) struct TemplateNode {
    pub(crate) pos: Pos,
    pub(crate) name: Str,
    pub(crate) pipe: Option<PipeNode>,
}

pub(crate) struct PipeNode {
    pub(crate) pos: Pos,
    pub(crate) is_assign: bool,
    pub(crate) decl: Vec<VariableNode>,
    pub(crate) cmds: Vec<CommandNode>,
}

pub(crate) struct CommandNode {
    pub(crate) pos: Pos,
    pub(crate) args: Vec<Arg>,
}

/// An operand or argument of a command.
pub(crate) enum Arg {
    Dot(Pos),
    Nil(Pos),
    Bool(Pos, bool),
    Number(Box<NumberNode>),
    String(StringNode),
    Field(FieldNode),
    Variable(VariableNode),
    Identifier(IdentifierNode),
    Chain(ChainNode),
    Pipe(Box<PipeNode>),
}

pub(crate) struct StringNode {
    pub(crate) pos: Pos,
    /// The source, with quotes.
    pub(crate) quoted: Str,
    pub(crate) value: Value,
}

pub(crate) struct FieldNode {
    pub(crate) pos: Pos,
    pub(crate) ident: Vec<Str>,
}

/// A variable's number among the variable names of its source text.
pub(crate) type VarId = u32;

/// `$`, which every template has.
pub(crate) const DOLLAR: VarId = 0;

pub(crate) struct VariableNode {
    pub(crate) pos: Pos,
    pub(crate) id: VarId,
    /// The variable's name, with its dollar sign.
    pub(crate) name: Str,
    pub(crate) fields: Vec<Str>,
}

/// What an identifier calls.
pub(crate) enum Callee {
    Builtin(Builtin),
    Function(Arc<Function>),
}

pub(crate) struct IdentifierNode {
    pub(crate) pos: Pos,
    pub(crate) name: Str,
    pub(crate) callee: Callee,
}

pub(crate) struct ChainNode {
    pub(crate) pos: Pos,
    pub(crate) node: Box<Arg>,
    pub(crate) fields: Vec<Str>,
}

/// A number, in every type that can hold it.
#[derive(Default)]
pub(crate) struct NumberNode {
    pub(crate) pos: Pos,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
    pub(crate) text: Str,
}

impl CommandNode {
    /// The operand and its arguments.
    pub(crate) fn operand(&self) -> (&Arg, &[Arg]) {
        (&self.args[0], &self.args[1..])
    }
}

impl Arg {
    pub(crate) fn pos(&self) -> Pos {
        match self {
            Arg::Dot(pos) | Arg::Nil(pos) | Arg::Bool(pos, _) => *pos,
            Arg::Number(n) => n.pos,
            Arg::String(n) => n.pos,
            Arg::Field(n) => n.pos,
            Arg::Variable(n) => n.pos,
            Arg::Identifier(n) => n.pos,
            Arg::Chain(n) => n.pos,
            Arg::Pipe(n) => n.pos,
        }
    }
}

// Nodes nest as deep as their source: dropping and printing them may need more stack.

impl Drop for ListNode {
    fn drop(&mut self) {
        if !self.nodes.is_empty() {
            stack::grow(|| self.nodes.clear());
        }
    }
}

impl Drop for PipeNode {
    fn drop(&mut self) {
        stack::grow(|| self.cmds.clear());
    }
}

impl fmt::Display for ActionNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{{}}}}}", self.pipe)
    }
}

impl fmt::Display for TemplateNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{template {}", quote(&self.name))?;
        if let Some(pipe) = &self.pipe {
            write!(f, " {pipe}")?;
        }
        f.write_str("}}")
    }
}

impl fmt::Display for PipeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        stack::grow(|| self.write_to(f))
    }
}

impl PipeNode {
    fn write_to(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, variable) in self.decl.iter().enumerate() {
            write!(f, "{}{variable}", if i > 0 { ", " } else { "" })?;
        }
        if !self.decl.is_empty() {
            f.write_str(if self.is_assign { " = " } else { " := " })?;
        }
        for (i, command) in self.cmds.iter().enumerate() {
            write!(f, "{}{command}", if i > 0 { " | " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for CommandNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.args.iter().enumerate() {
            if i > 0 {
                f.write_char(' ')?;
            }
            match arg {
                Arg::Pipe(pipe) => write!(f, "({pipe})")?,
                other => other.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Dot(_) => f.write_char('.'),
            Arg::Nil(_) => f.write_str("nil"),
            Arg::Bool(_, value) => write!(f, "{value}"),
            Arg::Number(n) => write!(f, "{}", n.text),
            Arg::String(n) => write!(f, "{}", n.quoted),
            Arg::Field(n) => write_fields(f, &n.ident),
            Arg::Variable(n) => n.fmt(f),
            Arg::Identifier(n) => write!(f, "{}", n.name),
            Arg::Chain(n) => n.fmt(f),
            Arg::Pipe(n) => n.fmt(f),
        }
    }
}

impl fmt::Display for VariableNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        write_fields(f, &self.fields)
    }
}

impl fmt::Display for ChainNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.node {
            Arg::Pipe(pipe) => write!(f, "({pipe})")?,
            other => other.fmt(f)?,
        }
        write_fields(f, &self.fields)
    }
}

fn write_fields(f: &mut fmt::Formatter<'_>, fields: &[Str]) -> fmt::Result {
    fields.iter().try_for_each(|field| write!(f, ".{field}"))
}
