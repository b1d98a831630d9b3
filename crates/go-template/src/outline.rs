//! Describes a template's source without running it: its expressions, and the variables that they set.

use std::sync::Arc;

use crate::node::{Arg, BranchNode, CommandNode, ListNode, Node, PipeNode, TemplateNode, Tree};
use crate::parse::Parsed;
use crate::value::{Str, Value};

/// Maximum depth to which expressions are read. Deeper ones become [`Expression::Other`].
const MAX_DEPTH: usize = 64;

/// An expression of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A string constant.
    Constant(String),
    /// Fields of dot, such as `.Values.name`. Dot itself has no fields.
    Dot(Vec<String>),
    /// A variable, with its dollar sign, and its fields.
    Variable(String, Vec<String>),
    /// A function call. A piped value is the last argument; `{{ template }}` is represented as a call of `include`.
    Call {
        /// The line, counted from 1.
        line: usize,
        /// The function's name.
        function: String,
        /// The arguments.
        arguments: Vec<Expression>,
    },
    /// Fields of an expression in parentheses.
    Field(Box<Expression>, Vec<String>),
    /// Anything else.
    Other,
}

impl Expression {
    /// Returns the name of the field that it reads at last; `None` if it reads none.
    pub fn last_field(&self) -> Option<&str> {
        match self {
            Expression::Dot(fields) | Expression::Variable(_, fields) | Expression::Field(_, fields) => {
                fields.last().map(String::as_str)
            }
            _ => None,
        }
    }
}

/// A pipeline of a template: that of an action, or the condition of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The variables that it sets, with their dollar signs.
    pub sets: Vec<String>,
    /// The expression that it evaluates.
    pub expression: Expression,
}

/// A part of a template, in source order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text that is printed unchanged.
    Text(String),
    /// An action that prints its value.
    Print {
        /// Its offset in the source of its file, in bytes.
        at: usize,
        /// The expression that it prints.
        expression: Expression,
    },
    /// `if`, `with` or `range`.
    Block(Block),
}

/// A block of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The dot inside the block.
    pub dot: BlockDot,
    /// The condition, or the value to iterate over.
    pub expression: Expression,
    /// The block's content.
    pub then: Vec<Part>,
    /// The content after `else`.
    pub otherwise: Vec<Part>,
}

/// The dot inside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockDot {
    /// `if`: the dot outside the block.
    Outer,
    /// `with`: the value of the expression.
    Expression,
    /// `range`: each element of the expression's value.
    Element,
}

impl Expression {
    /// Calls the visitor with this expression and all expressions inside it, outer ones first.
    pub fn visit<'a>(&'a self, visitor: &mut impl FnMut(&'a Expression)) {
        visitor(self);
        match self {
            Expression::Call { arguments, .. } => arguments.iter().for_each(|argument| argument.visit(visitor)),
            Expression::Field(inner, _) => inner.visit(visitor),
            _ => {}
        }
    }
}

impl Parsed {
    /// Returns all templates of the source text, including the main one.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Tree>> {
        self.trees().iter()
    }
}

impl Tree {
    /// Returns the pipelines of the template, in no particular order.
    pub fn pipelines(&self) -> Vec<Pipeline> {
        let mut pipelines = Vec::new();
        let mut lists = vec![&self.root];
        while let Some(list) = lists.pop() {
            for node in &list.nodes {
                self.add(node, &mut pipelines, &mut lists);
            }
        }
        pipelines
    }

    /// Returns the parts of the template. Leaves out blocks that are nested deeper than 64 levels.
    pub fn parts(&self) -> Vec<Part> {
        self.parts_of(&self.root, MAX_DEPTH)
    }

    /// Returns the parts of a list. `depth` is the number of levels that may still be read.
    fn parts_of(&self, list: &ListNode, depth: usize) -> Vec<Part> {
        let mut parts = Vec::new();
        for node in &list.nodes {
            let (dot, branch) = match node {
                Node::Text(text) => {
                    parts.push(Part::Text(String::from_utf8_lossy(&self.text[text.range.clone()]).into_owned()));
                    continue;
                }
                Node::Action(action) => {
                    if action.pipe.decl.is_empty() {
                        let expression = self.expression(&action.pipe, MAX_DEPTH);
                        parts.push(Part::Print { at: action.pos, expression });
                    }
                    continue;
                }
                Node::Template(template) => {
                    parts.push(Part::Print { at: template.pos, expression: self.included(template) });
                    continue;
                }
                Node::If(branch) => (BlockDot::Outer, branch),
                Node::With(branch) => (BlockDot::Expression, branch),
                Node::Range(branch) => (BlockDot::Element, branch),
                Node::Break | Node::Continue => continue,
            };
            if let Some(depth) = depth.checked_sub(1) {
                let expression = self.expression(&branch.pipe, MAX_DEPTH);
                let then = self.parts_of(&branch.list, depth);
                let otherwise = branch.else_list.as_ref().map(|list| self.parts_of(list, depth)).unwrap_or_default();
                parts.push(Part::Block(Block { dot, expression, then, otherwise }));
            }
        }
        parts
    }

    /// Represents `{{ template }}` as a call of `include`.
    fn included(&self, template: &TemplateNode) -> Expression {
        let name = Expression::Constant(template.name.to_text().into_owned());
        let argument = template.pipe.as_ref().map(|pipe| self.expression(pipe, MAX_DEPTH));
        let line = self.line_and_column(template.pos).0;
        let arguments = std::iter::once(name).chain(argument).collect();
        Expression::Call { line, function: "include".to_owned(), arguments }
    }

    fn add<'a>(&'a self, node: &'a Node, pipelines: &mut Vec<Pipeline>, lists: &mut Vec<&'a ListNode>) {
        match node {
            Node::Action(action) => pipelines.push(self.pipeline(&action.pipe)),
            Node::If(BranchNode { pipe, list, else_list })
            | Node::Range(BranchNode { pipe, list, else_list })
            | Node::With(BranchNode { pipe, list, else_list }) => {
                pipelines.push(self.pipeline(pipe));
                lists.push(list);
                lists.extend(else_list);
            }
            Node::Template(template) => {
                pipelines.push(Pipeline { sets: Vec::new(), expression: self.included(template) });
            }
            Node::Text(_) | Node::Break | Node::Continue => {}
        }
    }

    fn pipeline(&self, pipe: &PipeNode) -> Pipeline {
        let sets = pipe.decl.iter().map(|variable| variable.name.to_text().into_owned()).collect();
        Pipeline { sets, expression: self.expression(pipe, MAX_DEPTH) }
    }

    /// Converts a pipeline to an expression. `depth` is the number of levels that may still be read.
    fn expression(&self, pipe: &PipeNode, depth: usize) -> Expression {
        let mut commands = pipe.cmds.iter();
        let Some(first) = commands.next() else { return Expression::Other };
        commands.fold(self.command(first, None, depth), |piped, command| self.command(command, Some(piped), depth))
    }

    fn command(&self, command: &CommandNode, piped: Option<Expression>, depth: usize) -> Expression {
        let Some((operand, arguments)) = command.args.split_first() else { return Expression::Other };
        let Arg::Identifier(function) = operand else {
            let is_call = piped.is_some() || !arguments.is_empty();
            return if is_call { Expression::Other } else { self.operand(operand, depth) };
        };
        let arguments = arguments.iter().map(|argument| self.operand(argument, depth)).chain(piped).collect();
        let line = self.line_and_column(function.pos).0;
        Expression::Call { line, function: function.name.to_text().into_owned(), arguments }
    }

    fn operand(&self, operand: &Arg, depth: usize) -> Expression {
        let owned = |names: &[Str]| names.iter().map(|name| name.to_text().into_owned()).collect();
        match operand {
            Arg::Dot(_) => Expression::Dot(Vec::new()),
            Arg::Field(field) => Expression::Dot(owned(&field.ident)),
            Arg::Variable(variable) => {
                Expression::Variable(variable.name.to_text().into_owned(), owned(&variable.fields))
            }
            Arg::String(text) => match &text.value {
                Value::String(text) => Expression::Constant(text.to_text().into_owned()),
                _ => Expression::Other,
            },
            Arg::Identifier(function) => {
                let line = self.line_and_column(function.pos).0;
                Expression::Call { line, function: function.name.to_text().into_owned(), arguments: Vec::new() }
            }
            Arg::Pipe(pipe) if depth > 0 => self.expression(pipe, depth - 1),
            Arg::Chain(chain) if depth > 0 => {
                Expression::Field(Box::new(self.operand(&chain.node, depth - 1)), owned(&chain.fields))
            }
            _ => Expression::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FuncMap, Function, Param, parse};

    fn pipelines(text: &str) -> Vec<Pipeline> {
        let mut funcs = FuncMap::default();
        for name in ["lookup", "include", "default"] {
            funcs.insert(name, Function::new(Vec::new(), Some(Param::Any), |_, _| Ok(Value::Nil)));
        }
        parse("t", text, &funcs).unwrap().all().flat_map(|tree| tree.pipelines()).collect()
    }

    fn call(line: usize, function: &str, arguments: &[Expression]) -> Expression {
        Expression::Call { line, function: function.into(), arguments: arguments.into() }
    }

    #[test]
    fn expressions_are_read_wherever_they_stand() {
        let constant = |text: &str| Expression::Constant(text.into());
        let dot = |fields: &[&str]| Expression::Dot(fields.iter().map(|field| (*field).to_owned()).collect());
        let only = |text: &str, expected: Expression| {
            let found = pipelines(text);
            assert!(found.iter().any(|pipeline| pipeline.expression == expected), "{text}: {found:?}");
        };
        only("{{ if true }}\n{{ lookup `v1` .a.b }}{{ end }}", call(2, "lookup", &[constant("v1"), dot(&["a", "b"])]));
        only("{{ range .x }}{{ else }}{{ .y }}{{ end }}", dot(&["y"]));
        only("{{ define \"d\" }}{{ $.y }}{{ end }}", Expression::Variable("$".into(), vec!["y".into()]));
        only(
            "{{ .a | default (include \"n\" .) }}",
            call(1, "default", &[call(1, "include", &[constant("n"), dot(&[])]), dot(&["a"])]),
        );
        only(
            "\n{{ template \"n\" $ }}",
            call(2, "include", &[constant("n"), Expression::Variable("$".into(), vec![])]),
        );
        only("{{ (.a).b }}", Expression::Field(Box::new(dot(&["a"])), vec!["b".into()]));
        only("{{ 1 }}", Expression::Other);
    }

    #[test]
    fn parts_keep_the_order_of_the_source_and_know_their_block() {
        let mut funcs = FuncMap::default();
        funcs.insert("f", Function::new(Vec::new(), Some(Param::Any), |_, _| Ok(Value::Nil)));
        let text = "a {{- /* c */ -}} b{{ $x := 1 }}{{ with .y }}{{ . }}{{ else }}z{{ end }}";
        let parsed = parse("t", text, &funcs).unwrap();
        let parts: Vec<Part> = parsed.all().flat_map(|tree| tree.parts()).collect();
        let print = Part::Print { at: text.find(". }}").unwrap(), expression: Expression::Dot(Vec::new()) };
        let block = Block {
            dot: BlockDot::Expression,
            expression: Expression::Dot(vec!["y".into()]),
            then: vec![print],
            otherwise: vec![Part::Text("z".into())],
        };
        assert_eq!(parts, [Part::Text("a".into()), Part::Text("b".into()), Part::Block(block)]);
    }

    #[test]
    fn variables_and_nested_expressions_are_found() {
        let found = pipelines("{{ $x := lookup .a }}");
        assert_eq!(found[0].sets, ["$x"]);
        let mut seen = 0;
        pipelines("{{ default (lookup (include .a)) }}")[0].expression.visit(&mut |_| seen += 1);
        assert_eq!(seen, 4);
        let deep = format!("{{{{ {}.a{} }}}}", "(".repeat(5000), ")".repeat(5000));
        assert_eq!(pipelines(&deep)[0].expression, Expression::Other);
    }
}
