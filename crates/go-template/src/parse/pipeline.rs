//! Parses pipelines: declarations, and commands with their operands.

use super::{ParseErrorKind, Parser, Result2};
use crate::item::{Item, ItemType};
use crate::node::{Arg, CommandNode, PipeNode};

/// The memory of a small list or text, besides its content.
const ALLOCATION: usize = 64;

impl<'a> Parser<'a> {
    /// Parses declarations, if any, and then commands up to the token `end`.
    pub(super) fn pipeline(&mut self, context: &'static str, end: ItemType) -> Result2<PipeNode> {
        let pos = self.peek_non_space().pos;
        let mut pipe = PipeNode { pos, is_assign: false, decl: Vec::new(), cmds: Vec::new() };
        while self.declaration(&mut pipe, context)? {}
        loop {
            let token = self.next_non_space();
            match token.typ {
                t if t == end => {
                    pipe.cmds.shrink_to_fit();
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

    /// Parses a declared or assigned variable. Returns whether another one follows.
    fn declaration(&mut self, pipe: &mut PipeNode, context: &'static str) -> Result2<bool> {
        let variable = self.peek_non_space();
        if variable.typ != ItemType::Variable {
            return Ok(false);
        }
        self.next();
        // Space is a token, so only the third token of "$x foo" shows that $x is an argument.
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

    /// Checks the token after a comma: only `range` has a second variable.
    fn second_variable(&mut self, pipe: &PipeNode, context: &'static str) -> Result2<bool> {
        if context != "range" || pipe.decl.len() >= 2 {
            return self.error(ParseErrorKind::TooManyDeclarations(context));
        }
        match self.peek_non_space().typ {
            ItemType::Variable | ItemType::RightDelim | ItemType::RightParen => Ok(true),
            _ => self.error(ParseErrorKind::RangeVariables),
        }
    }

    fn check_pipeline(&self, pipe: &PipeNode, context: &'static str) -> Result2<()> {
        if pipe.cmds.is_empty() {
            return self.error(ParseErrorKind::MissingValue(context));
        }
        let literal = |c: &CommandNode| {
            matches!(c.args[0], Arg::Bool(..) | Arg::Dot(_) | Arg::Nil(_) | Arg::Number(_) | Arg::String(_))
        };
        match pipe.cmds.iter().skip(1).position(literal) {
            Some(i) => self.error(ParseErrorKind::NotExecutable(i + 2)),
            None => Ok(()),
        }
    }

    /// Parses operands up to and including a `|`, or up to but excluding a right delimiter.
    fn command(&mut self) -> Result2<CommandNode> {
        self.grow(size_of::<CommandNode>() + ALLOCATION)?;
        let mut command = CommandNode { pos: self.peek_non_space().pos, args: Vec::new() };
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                self.grow(size_of::<Arg>() + ALLOCATION)?;
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
        command.args.shrink_to_fit();
        if command.args.is_empty() {
            return self.error(ParseErrorKind::EmptyCommand);
        }
        Ok(command)
    }
}
