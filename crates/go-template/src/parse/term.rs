//! Parses operands: literals, functions, fields, variables and parentheses.

use std::sync::Arc;

use super::{MAX_PAREN_DEPTH, ParseErrorKind, Parser, Result2};
use crate::item::{Item, ItemType};
use crate::node::{Arg, Callee, ChainNode, FieldNode, IdentifierNode, PipeNode, Pos, StringNode, VarId, VariableNode};
use crate::number::new_number;
use crate::stack;
use crate::value::{Str, Value};

impl<'a> Parser<'a> {
    /// Parses a term and the fields after it.
    pub(super) fn operand(&mut self) -> Result2<Option<Arg>> {
        let Some(node) = self.term()? else {
            return Ok(None);
        };
        let pos = match self.peek() {
            token if token.typ == ItemType::Field => token.pos,
            _ => return Ok(Some(node)),
        };
        let mut fields = Vec::new();
        while self.peek().typ == ItemType::Field {
            self.grow(size_of::<Str>())?;
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
                return self.error(ParseErrorKind::DotAfterTerm(node.to_string()));
            }
            other => Arg::Chain(ChainNode { pos, node: Box::new(other), fields }),
        })
    }

    /// Parses a literal, function, field, variable or parenthesized pipeline. Returns `None` if the next token does not start a term.
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
                    Err(error) => return self.error(error.into()),
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
            return self.error(ParseErrorKind::ExpressionDepth);
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
            None => name.parse().ok().map(Callee::Builtin),
        });
        match callee {
            Some(callee) => Ok(Arg::Identifier(IdentifierNode { pos: token.pos, name, callee })),
            None => self.error(ParseErrorKind::UndefinedFunction(name)),
        }
    }

    pub(super) fn new_variable(&mut self, token: Item<'a>) -> VariableNode {
        let next = self.names.len() as VarId;
        let id = *self.names.entry(token.val).or_insert(next);
        VariableNode { pos: token.pos, id, name: token.val.into(), fields: Vec::new() }
    }

    fn use_var(&mut self, token: Item<'a>) -> Result2<Arg> {
        let variable = self.new_variable(token);
        match self.scope.vars.contains(&variable.id) {
            true => Ok(Arg::Variable(variable)),
            false => self.error(ParseErrorKind::UndefinedVariable(variable.name)),
        }
    }
}
