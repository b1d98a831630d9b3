//! Tokens into trees: one method a grammar rule. Counterpart: Go's `text/template/parse/parse.go`, error texts included.
//!
//! Unlike Go's, it resolves functions here and not when they are called, and bounds how deep blocks nest.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use crate::error::ParseError;
use crate::funcs::Builtin;
use crate::function::FuncMap;
use crate::item::{Item, ItemType};
use crate::lex::Lexer;
use crate::node::{
    ActionNode, Arg, BranchNode, Callee, ChainNode, CommandNode, DOLLAR, FieldNode, IdentifierNode, ListNode, Node,
    PipeNode, Pos, StringNode, TemplateNode, TextNode, Tree, VarId, VariableNode,
};
use crate::number::new_number;
use crate::stack;
use crate::strconv::{quote, unquote};
use crate::value::{Str, Value};

/// How deep parentheses may nest: Go's own limit.
pub const MAX_PAREN_DEPTH: usize = 10_000;

/// How deep `if`, `range`, `with` and `block` may nest, `else if` included. Go has no limit; no chart comes near this one.
pub const MAX_BLOCK_DEPTH: usize = 10_000;

/// What one text defines.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub(crate) main: Arc<Tree>,
    pub(crate) trees: Vec<Arc<Tree>>,
}

impl Parsed {
    /// The template that has the text's own name: what is outside of each `define`.
    pub fn main(&self) -> &Arc<Tree> {
        &self.main
    }

    /// Every template of the text, the main one included, each name once.
    pub fn trees(&self) -> &[Arc<Tree>] {
        &self.trees
    }
}

/// Parses the text of the template `name`; the functions it names are those of `funcs` and Go's own.
///
/// # Errors
/// Go's message, such as `template: NAME:3: unexpected EOF`.
pub fn parse(name: impl Into<Str>, text: impl Into<Str>, funcs: &FuncMap) -> Result<Parsed, ParseError> {
    let (name, text) = (name.into(), text.into());
    let mut parser = Parser::new(&name, &text, funcs);
    match parser.parse(&name) {
        Ok(main) => Ok(Parsed { main, trees: parser.trees }),
        Err(error) => Err(*error),
    }
}

type Result2<T> = Result<T, Box<ParseError>>;

struct Parser<'a> {
    text: &'a Str,
    parse_name: Arc<str>,
    funcs: &'a FuncMap,
    lex: Lexer<'a>,
    scope: ParseScope<'a>,
    /// Every variable's name in the text, to number them.
    names: HashMap<&'a [u8], VarId>,
    block_depth: usize,
    trees: Vec<Arc<Tree>>,
}

/// What each `define` and `block` has of its own.
struct ParseScope<'a> {
    /// Three-token lookahead, as in Go; the first is the last one that the lexer gave.
    token: [Item<'a>; 3],
    peek_count: usize,
    /// Variables defined at the moment.
    vars: Vec<VarId>,
    /// Line of the left delimiter of the action; 0 outside.
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

/// What a list may hold or end with.
enum Element {
    Node(Node),
    End,
    Else,
}

/// The kinds of a block, which are nearly the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    If,
    Range,
    With,
}

impl Control {
    fn name(self) -> &'static str {
        match self {
            Control::If => "if",
            Control::Range => "range",
            Control::With => "with",
        }
    }

    fn node(self, branch: BranchNode) -> Node {
        match self {
            Control::If => Node::If(branch),
            Control::Range => Node::Range(branch),
            Control::With => Node::With(branch),
        }
    }

    /// The keyword that `else` may be followed by, to chain blocks.
    fn chained_keyword(self) -> Option<ItemType> {
        match self {
            Control::If => Some(ItemType::If),
            Control::With => Some(ItemType::With),
            Control::Range => None,
        }
    }
}

impl<'a> Parser<'a> {
    fn new(name: &Str, text: &'a Str, funcs: &'a FuncMap) -> Parser<'a> {
        let mut lex = Lexer::new(text);
        lex.break_ok = funcs.get("break").is_none();
        lex.continue_ok = funcs.get("continue").is_none();
        let names = HashMap::from([(&b"$"[..], DOLLAR)]);
        let parse_name = name.to_text().into();
        Parser { text, parse_name, funcs, lex, scope: ParseScope::new(), names, block_depth: 0, trees: Vec::new() }
    }

    // Tokens.

    fn next(&mut self) -> Item<'a> {
        if self.scope.peek_count > 0 {
            self.scope.peek_count -= 1;
        } else {
            self.scope.token[0] = self.lex.next_item();
        }
        self.scope.token[self.scope.peek_count]
    }

    fn backup(&mut self) {
        self.scope.peek_count += 1;
    }

    /// Gives back the token and the one after it, which is there already.
    fn backup2(&mut self, first: Item<'a>) {
        self.scope.token[1] = first;
        self.scope.peek_count = 2;
    }

    fn backup3(&mut self, first: Item<'a>, second: Item<'a>) {
        self.scope.token[1] = second;
        self.scope.token[2] = first;
        self.scope.peek_count = 3;
    }

    fn peek(&mut self) -> Item<'a> {
        if self.scope.peek_count == 0 {
            self.scope.peek_count = 1;
            self.scope.token[0] = self.lex.next_item();
        }
        self.scope.token[self.scope.peek_count - 1]
    }

    fn next_non_space(&mut self) -> Item<'a> {
        loop {
            let token = self.next();
            if token.typ != ItemType::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Item<'a> {
        let token = self.next_non_space();
        self.backup();
        token
    }

    fn errorf<T>(&self, message: impl Into<String>) -> Result2<T> {
        let (name, line) = (self.parse_name.to_string(), self.scope.token[0].line);
        Err(Box::new(ParseError { name, line, message: message.into() }))
    }

    fn expect(&mut self, expected: ItemType, context: &str) -> Result2<Item<'a>> {
        let token = self.next_non_space();
        if token.typ == expected { Ok(token) } else { self.unexpected(token, context) }
    }

    fn unexpected<T>(&self, token: Item<'a>, context: &str) -> Result2<T> {
        let shown = token.describe(&self.lex.error);
        if token.typ != ItemType::Error {
            return self.errorf(format!("unexpected {shown} in {context}"));
        }
        let started = self.scope.action_line;
        if started == 0 || started == token.line {
            return self.errorf(shown);
        }
        let action = if shown.ends_with(" action") { "" } else { " in action" };
        self.errorf(format!("{shown}{action} started at {}:{started}", self.parse_name))
    }

    // Templates.

    /// The whole text.
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
                Element::End => return self.errorf("unexpected {{end}}"),
                Element::Else => return self.errorf("unexpected {{else}}"),
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

    /// `{{define "name"}} … {{end}}`, from the name on.
    fn parse_definition(&mut self) -> Result2<()> {
        const CONTEXT: &str = "define clause";
        let token = self.next_non_space();
        if token.typ != ItemType::String && token.typ != ItemType::RawString {
            return self.unexpected(token, CONTEXT);
        }
        let name = self.unquote(token)?;
        self.expect(ItemType::RightDelim, CONTEXT)?;
        match self.item_list()? {
            (_, Element::Else) => self.errorf(format!("unexpected {{{{else}}}} in {CONTEXT}")),
            (root, _) => self.add(name, root).map(|_| ()),
        }
    }

    /// Adds the template, unless it is empty and there is one of the name.
    fn add(&mut self, name: Str, root: ListNode) -> Result2<Arc<Tree>> {
        let tree = Tree { name, parse_name: Arc::clone(&self.parse_name), text: self.text.clone(), root };
        let tree = Arc::new(tree);
        let Some(i) = self.trees.iter().position(|t| t.name == tree.name) else {
            self.trees.push(Arc::clone(&tree));
            return Ok(tree);
        };
        if self.trees[i].is_empty() {
            self.trees[i] = Arc::clone(&tree);
        } else if !tree.is_empty() {
            return self.errorf(format!("template: multiple definition of template {}", quote(&tree.name)));
        }
        Ok(Arc::clone(&self.trees[i]))
    }

    fn unquote(&mut self, token: Item<'a>) -> Result2<Str> {
        match unquote(token.val) {
            Some(text) => Ok(text.into()),
            None => self.errorf("invalid syntax"),
        }
    }

    // Lists and actions.

    /// Everything up to `{{end}}` or `{{else}}`, which is returned too.
    fn item_list(&mut self) -> Result2<(ListNode, Element)> {
        let mut list = ListNode::default();
        while self.peek_non_space().typ != ItemType::Eof {
            match self.text_or_action()? {
                Element::Node(node) => list.nodes.push(node),
                end => return Ok((list, end)),
            }
        }
        self.errorf("unexpected EOF")
    }

    fn text_or_action(&mut self) -> Result2<Element> {
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

    /// An action, from its first word on.
    fn action(&mut self) -> Result2<Element> {
        let token = self.next_non_space();
        let node = match token.typ {
            ItemType::Block => self.nested(Parser::block_control)?,
            ItemType::Break => self.loop_control("break").map(|()| Node::Break)?,
            ItemType::Continue => self.loop_control("continue").map(|()| Node::Continue)?,
            ItemType::Else => return self.else_control(),
            ItemType::End => return self.expect(ItemType::RightDelim, "end").map(|_| Element::End),
            ItemType::If => self.parse_control(Control::If)?,
            ItemType::Range => self.parse_control(Control::Range)?,
            ItemType::Template => self.template_control()?,
            ItemType::With => self.parse_control(Control::With)?,
            _ => {
                self.backup();
                let pos = self.peek().pos;
                Node::Action(ActionNode { pos, pipe: self.pipeline("command", ItemType::RightDelim)? })
            }
        };
        Ok(Element::Node(node))
    }

    /// The rest of `{{break}}` or `{{continue}}`.
    fn loop_control(&mut self, word: &str) -> Result2<()> {
        let token = self.next_non_space();
        if token.typ != ItemType::RightDelim {
            return self.unexpected(token, &format!("{{{{{word}}}}}"));
        }
        if self.scope.range_depth == 0 {
            return self.errorf(format!("{{{{{word}}}}} outside {{{{range}}}}"));
        }
        Ok(())
    }

    /// Goes one block deeper.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result2<T>) -> Result2<T> {
        if self.block_depth >= MAX_BLOCK_DEPTH {
            return self.errorf("max block depth exceeded");
        }
        self.block_depth += 1;
        let result = stack::grow(|| f(self));
        self.block_depth -= 1;
        result
    }

    fn parse_control(&mut self, control: Control) -> Result2<Node> {
        let mark = self.scope.vars.len();
        let node = self.nested(|p| p.branch(control));
        self.scope.vars.truncate(mark);
        node
    }

    fn branch(&mut self, control: Control) -> Result2<Node> {
        let pipe = self.pipeline(control.name(), ItemType::RightDelim)?;
        let in_range = usize::from(control == Control::Range);
        self.scope.range_depth += in_range;
        let (list, end) = self.item_list()?;
        self.scope.range_depth -= in_range;
        let else_list = match end {
            Element::Else => Some(self.else_list(control)?),
            _ => None,
        };
        Ok(control.node(BranchNode { pipe, list, else_list }))
    }

    /// What follows `{{else}}`. In `{{else if a}}` the inner block ends at the `{{end}}` of the outer one.
    fn else_list(&mut self, control: Control) -> Result2<ListNode> {
        if control.chained_keyword() == Some(self.peek().typ) {
            self.next();
            let node = self.parse_control(control)?;
            return Ok(ListNode { nodes: vec![node] });
        }
        match self.item_list()? {
            (list, Element::Else) => {
                drop(list);
                self.errorf("expected end; found {{else}}")
            }
            (list, _) => Ok(list),
        }
    }

    /// `else`, whose `if` or `with` stays for the block that it belongs to.
    fn else_control(&mut self) -> Result2<Element> {
        let peek = self.peek_non_space();
        if peek.typ == ItemType::If || peek.typ == ItemType::With {
            return Ok(Element::Else);
        }
        self.expect(ItemType::RightDelim, "else").map(|_| Element::Else)
    }

    /// `{{block "name" pipeline}} … {{end}}`: a definition and its call.
    fn block_control(&mut self) -> Result2<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.parse_template_name(token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, ItemType::RightDelim)?;
        let ended = self.in_own_scope(|p| match p.item_list()? {
            (_, Element::Else) => Ok(false),
            (root, _) => p.add(name.clone(), root).map(|_| true),
        })?;
        if !ended {
            // Go counts the line of this error where the block starts.
            return self.errorf(format!("unexpected {{{{else}}}} in {CONTEXT}"));
        }
        Ok(Node::Template(TemplateNode { pos: token.pos, name, pipe: Some(pipe) }))
    }

    fn template_control(&mut self) -> Result2<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.parse_template_name(token, CONTEXT)?;
        let mut pipe = None;
        if self.next_non_space().typ != ItemType::RightDelim {
            self.backup();
            pipe = Some(self.pipeline(CONTEXT, ItemType::RightDelim)?);
        }
        Ok(Node::Template(TemplateNode { pos: token.pos, name, pipe }))
    }

    fn parse_template_name(&mut self, token: Item<'a>, context: &str) -> Result2<Str> {
        match token.typ {
            ItemType::String | ItemType::RawString => self.unquote(token),
            _ => self.unexpected(token, context),
        }
    }

    // Pipelines.

    /// Declarations, if any, then commands up to the token `end`.
    fn pipeline(&mut self, context: &str, end: ItemType) -> Result2<PipeNode> {
        let pos = self.peek_non_space().pos;
        let mut pipe = PipeNode { pos, is_assign: false, decl: Vec::new(), cmds: Vec::new() };
        while self.declaration(&mut pipe, context)? {}
        loop {
            let token = self.next_non_space();
            match token.typ {
                t if t == end => {
                    self.check_pipeline(&pipe, context)?;
                    return Ok(pipe);
                }
                ItemType::Bool
                | ItemType::CharConstant
                | ItemType::Complex
                | ItemType::Dot
                | ItemType::Field
                | ItemType::Identifier
                | ItemType::Number
                | ItemType::Nil
                | ItemType::RawString
                | ItemType::String
                | ItemType::Variable
                | ItemType::LeftParen => {
                    self.backup();
                    let command = self.command()?;
                    pipe.cmds.push(command);
                }
                _ => return self.unexpected(token, context),
            }
        }
    }

    /// One declared or assigned variable; true if another follows.
    fn declaration(&mut self, pipe: &mut PipeNode, context: &str) -> Result2<bool> {
        let variable = self.peek_non_space();
        if variable.typ != ItemType::Variable {
            return Ok(false);
        }
        self.next();
        // Space is a token: in "$x foo" three tokens must be read to know that $x is an argument.
        let after = self.peek();
        let next = self.peek_non_space();
        match next.typ {
            ItemType::Assign | ItemType::Declare => {
                pipe.is_assign = next.typ == ItemType::Assign;
                self.next_non_space();
                self.declare(pipe, variable);
                Ok(false)
            }
            ItemType::Char if next.val == b"," => {
                self.next_non_space();
                self.declare(pipe, variable);
                self.second_variable(pipe, context)
            }
            _ if after.typ == ItemType::Space => {
                self.backup3(variable, after);
                Ok(false)
            }
            _ => {
                self.backup2(variable);
                Ok(false)
            }
        }
    }

    fn declare(&mut self, pipe: &mut PipeNode, token: Item<'a>) {
        let variable = self.new_variable(token);
        self.scope.vars.push(variable.id);
        pipe.decl.push(variable);
    }

    /// After a comma: only `range` has a second variable.
    fn second_variable(&mut self, pipe: &PipeNode, context: &str) -> Result2<bool> {
        if context != "range" || pipe.decl.len() >= 2 {
            return self.errorf(format!("too many declarations in {context}"));
        }
        match self.peek_non_space().typ {
            ItemType::Variable | ItemType::RightDelim | ItemType::RightParen => Ok(true),
            _ => self.errorf("range can only initialize variables"),
        }
    }

    fn check_pipeline(&self, pipe: &PipeNode, context: &str) -> Result2<()> {
        if pipe.cmds.is_empty() {
            return self.errorf(format!("missing value for {context}"));
        }
        let literal = |c: &CommandNode| {
            matches!(c.args[0], Arg::Bool(..) | Arg::Dot(_) | Arg::Nil(_) | Arg::Number(_) | Arg::String(_))
        };
        match pipe.cmds.iter().skip(1).position(literal) {
            Some(i) => self.errorf(format!("non executable command in pipeline stage {}", i + 2)),
            None => Ok(()),
        }
    }

    /// Operands up to a `|`, which is passed, or to a right delimiter, which is not.
    fn command(&mut self) -> Result2<CommandNode> {
        let mut command = CommandNode { pos: self.peek_non_space().pos, args: Vec::new() };
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                command.args.push(operand);
            }
            let token = self.next();
            match token.typ {
                ItemType::Space => continue,
                ItemType::RightDelim | ItemType::RightParen => self.backup(),
                ItemType::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        if command.args.is_empty() {
            return self.errorf("empty command");
        }
        Ok(command)
    }

    /// A term, perhaps followed by field accesses.
    fn operand(&mut self) -> Result2<Option<Arg>> {
        let Some(node) = self.term()? else {
            return Ok(None);
        };
        let pos = match self.peek() {
            token if token.typ == ItemType::Field => token.pos,
            _ => return Ok(Some(node)),
        };
        let mut fields = Vec::new();
        while self.peek().typ == ItemType::Field {
            fields.push(Str::from(&self.next().val[1..]));
        }
        self.chain(node, pos, fields).map(Some)
    }

    fn chain(&mut self, node: Arg, pos: Pos, fields: Vec<Str>) -> Result2<Arg> {
        Ok(match node {
            Arg::Field(mut field) => {
                field.pos = pos;
                field.ident.extend(fields);
                Arg::Field(field)
            }
            Arg::Variable(mut variable) => {
                variable.pos = pos;
                variable.fields.extend(fields);
                Arg::Variable(variable)
            }
            Arg::Bool(..) | Arg::String(_) | Arg::Number(_) | Arg::Nil(_) | Arg::Dot(_) => {
                return self.errorf(format!("unexpected . after term {}", quote(node.to_string().as_bytes())));
            }
            other => Arg::Chain(ChainNode { pos, node: Box::new(other), fields }),
        })
    }

    /// A literal, a function, a field, a variable or a parenthesised pipeline; `None` if the next token starts no term.
    fn term(&mut self) -> Result2<Option<Arg>> {
        let token = self.next_non_space();
        let pos = token.pos;
        Ok(Some(match token.typ {
            ItemType::Identifier => self.identifier(token)?,
            ItemType::Dot => Arg::Dot(pos),
            ItemType::Nil => Arg::Nil(pos),
            ItemType::Variable => self.use_var(token)?,
            ItemType::Field => Arg::Field(FieldNode { pos, ident: vec![Str::from(&token.val[1..])] }),
            ItemType::Bool => Arg::Bool(pos, token.val == b"true"),
            ItemType::CharConstant | ItemType::Complex | ItemType::Number => {
                match new_number(pos, token.val, token.typ) {
                    Ok(number) => Arg::Number(Box::new(number)),
                    Err(message) => return self.errorf(message),
                }
            }
            ItemType::LeftParen => Arg::Pipe(Box::new(self.parenthesized()?)),
            ItemType::String | ItemType::RawString => {
                let value = Value::String(self.unquote(token)?);
                Arg::String(StringNode { pos, quoted: token.val.into(), value })
            }
            _ => {
                self.backup();
                return Ok(None);
            }
        }))
    }

    fn parenthesized(&mut self) -> Result2<PipeNode> {
        if self.scope.paren_depth >= MAX_PAREN_DEPTH {
            return self.errorf("max expression depth exceeded");
        }
        self.scope.paren_depth += 1;
        let pipe = stack::grow(|| self.pipeline("parenthesized pipeline", ItemType::RightParen));
        self.scope.paren_depth -= 1;
        pipe
    }

    fn identifier(&mut self, token: Item<'a>) -> Result2<Arg> {
        let name = Str::from(token.val);
        let callee = name.as_utf8().and_then(|name| match self.funcs.get(name) {
            Some(function) => Some(Callee::Function(Arc::clone(function))),
            None => Builtin::by_name(name).map(Callee::Builtin),
        });
        match callee {
            Some(callee) => Ok(Arg::Identifier(IdentifierNode { pos: token.pos, name, callee })),
            None => self.errorf(format!("function {} not defined", quote(token.val))),
        }
    }

    fn new_variable(&mut self, token: Item<'a>) -> VariableNode {
        let next = self.names.len() as VarId;
        let id = *self.names.entry(token.val).or_insert(next);
        VariableNode { pos: token.pos, id, name: token.val.into(), fields: Vec::new() }
    }

    fn use_var(&mut self, token: Item<'a>) -> Result2<Arg> {
        let variable = self.new_variable(token);
        match self.scope.vars.contains(&variable.id) {
            true => Ok(Arg::Variable(variable)),
            false => self.errorf(format!("undefined variable {}", quote(token.val))),
        }
    }
}
