//! The parse tree and its source form, which errors show as `at <…>`. Counterpart: Go's `text/template/parse/node.go`.
//!
//! Nodes are ready to execute: names are [`Str`], functions are resolved, constants are converted and variables are numbered.

use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use crate::funcs::Builtin;
use crate::function::Function;
use crate::stack;
use crate::value::{Str, Value};
use golibs::strconv::quote;

/// A byte offset in the source text.
pub type Pos = usize;

/// A parsed template: immutable, and shared between threads and runs.
pub struct Tree {
    pub(crate) name: Str,
    /// The name of its source text, which errors show.
    pub(crate) parse_name: Arc<str>,
    pub(crate) text: Str,
    pub(crate) root: ListNode,
}

impl Tree {
    /// Returns the template's name.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// Returns its nodes, for programs that analyse templates.
    pub fn root(&self) -> &ListNode {
        &self.root
    }

    /// Returns whether the template contains only space and comments. Such a template does not replace an existing template of the same name.
    pub fn is_empty(&self) -> bool {
        is_empty_list(&self.root, &self.text)
    }

    /// Returns the line (counted from 1) and the byte column (counted from 0) of an offset.
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

/// Returns whether the text is only white space, including Unicode spaces, which Go's `bytes.TrimSpace` trims too.
fn is_unicode_space(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|t| t.chars().all(char::is_whitespace))
}

/// A list of nodes: those of a template or of a block.
#[derive(Default)]
pub struct ListNode {
    /// The nodes, in source order.
    pub nodes: Vec<Node>,
}

/// An element of a template.
pub enum Node {
    /// Text that is printed unchanged.
    Text(TextNode),
    /// `{{ pipeline }}`, which prints its value or sets a variable.
    Action(ActionNode),
    /// `{{ if … }}`
    If(BranchNode),
    /// `{{ range … }}`
    Range(BranchNode),
    /// `{{ with … }}`
    With(BranchNode),
    /// `{{ template … }}` and `{{ block … }}`
    Template(TemplateNode),
    /// `{{ break }}`
    Break,
    /// `{{ continue }}`
    Continue,
}

/// Text outside actions.
pub struct TextNode {
    /// The range of the bytes in the tree's source text.
    pub(crate) range: Range<usize>,
}

/// A pipeline between delimiters.
pub struct ActionNode {
    pub(crate) pos: Pos,
    /// The pipeline.
    pub pipe: PipeNode,
}

/// An `if`, `range` or `with`.
pub struct BranchNode {
    /// The condition, or the value to iterate over.
    pub pipe: PipeNode,
    /// The block's content.
    pub list: ListNode,
    /// The content after `else`.
    pub else_list: Option<ListNode>,
}

/// A call of another template.
pub struct TemplateNode {
    pub(crate) pos: Pos,
    /// The template's name.
    pub name: Str,
    /// The dot of the called template; nil if absent.
    pub pipe: Option<PipeNode>,
}

/// Commands, each of which receives the value of the preceding one as its last argument.
pub struct PipeNode {
    pub(crate) pos: Pos,
    /// Whether the variables already exist: `=` rather than `:=`.
    pub is_assign: bool,
    /// The variables that receive the value.
    pub decl: Vec<VariableNode>,
    /// The commands, at least one.
    pub cmds: Vec<CommandNode>,
}

/// An operand with its arguments.
pub struct CommandNode {
    pub(crate) pos: Pos,
    /// The operand, then the arguments.
    pub args: Vec<Arg>,
}

/// An operand or argument of a command.
pub enum Arg {
    /// `.`
    Dot(Pos),
    /// `nil`
    Nil(Pos),
    /// `true` or `false`
    Bool(Pos, bool),
    /// A number.
    Number(Box<NumberNode>),
    /// A string in quotes.
    String(StringNode),
    /// `.a.b`
    Field(FieldNode),
    /// `$a.b`
    Variable(VariableNode),
    /// A function.
    Identifier(IdentifierNode),
    /// `(…).a.b`
    Chain(ChainNode),
    /// A pipeline in parentheses.
    Pipe(Box<PipeNode>),
}

/// A string in quotes.
pub struct StringNode {
    pub(crate) pos: Pos,
    /// The source, with quotes.
    pub(crate) quoted: Str,
    /// The content, as a [`Value::String`].
    pub value: Value,
}

/// Fields of dot.
pub struct FieldNode {
    pub(crate) pos: Pos,
    /// The names, outermost first.
    pub ident: Vec<Str>,
}

/// The number of a variable's name among all variable names of the source text.
pub type VarId = u32;

/// The variable `$`, which every template has.
pub const DOLLAR: VarId = 0;

/// A variable, and fields of its value.
pub struct VariableNode {
    pub(crate) pos: Pos,
    /// The number of its name in the source text. Variables with the same name in different blocks share it.
    pub id: VarId,
    /// The variable's name, with its dollar sign.
    pub(crate) name: Str,
    /// The fields, outermost first.
    pub fields: Vec<Str>,
}

/// The function that an identifier denotes.
pub(crate) enum Callee {
    Builtin(Builtin),
    Function(Arc<Function>),
}

/// A function's name.
pub struct IdentifierNode {
    pub(crate) pos: Pos,
    /// The name.
    pub name: Str,
    pub(crate) callee: Callee,
}

/// Fields of a pipeline or of a function's result.
pub struct ChainNode {
    pub(crate) pos: Pos,
    /// The operand that has the fields.
    pub node: Box<Arg>,
    /// The fields, outermost first.
    pub fields: Vec<Str>,
}

/// A number, in every type that can represent it.
#[derive(Default)]
pub struct NumberNode {
    pub(crate) pos: Pos,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
    pub(crate) text: Str,
}

impl CommandNode {
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

// Nodes nest as deeply as their source, so dropping and printing them may need more stack.

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
