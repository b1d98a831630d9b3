//! Parses actions: keywords with their blocks, or a pipeline.

use super::{Element, MAX_BLOCK_DEPTH, ParseErrorKind, Parser, Result2};
use crate::item::{Item, ItemType};
use crate::node::{ActionNode, BranchNode, ListNode, Node, TemplateNode};
use crate::stack;
use crate::value::Str;

/// The kinds of blocks, which are parsed almost alike.
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

    /// Returns the keyword that may follow `else`, to chain blocks.
    fn chained_keyword(self) -> Option<ItemType> {
        match self {
            Control::If => Some(ItemType::If),
            Control::With => Some(ItemType::With),
            Control::Range => None,
        }
    }
}

impl<'a> Parser<'a> {
    /// Parses an action, starting with its first word.
    pub(super) fn action(&mut self) -> Result2<Element> {
        let token = self.next_non_space();
        let node = match token.typ {
            ItemType::Block => self.nested(Parser::block_control)?,
            ItemType::Break => self.loop_control("{{break}}").map(|()| Node::Break)?,
            ItemType::Continue => self.loop_control("{{continue}}").map(|()| Node::Continue)?,
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

    /// Parses the rest of `{{break}}` or `{{continue}}`.
    fn loop_control(&mut self, action: &'static str) -> Result2<()> {
        let token = self.next_non_space();
        if token.typ != ItemType::RightDelim {
            return self.unexpected(token, action);
        }
        if self.scope.range_depth == 0 {
            return self.error(ParseErrorKind::OutsideRange(action));
        }
        Ok(())
    }

    /// Runs the closure one block deeper.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result2<T>) -> Result2<T> {
        if self.block_depth >= MAX_BLOCK_DEPTH {
            return self.error(ParseErrorKind::BlockDepth);
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

    /// Parses the list after `{{else}}`. In `{{else if a}}`, the inner block ends at the `{{end}}` of the outer one.
    fn else_list(&mut self, control: Control) -> Result2<ListNode> {
        if control.chained_keyword() == Some(self.peek().typ) {
            self.next();
            let node = self.parse_control(control)?;
            return Ok(ListNode { nodes: vec![node] });
        }
        match self.item_list()? {
            (list, Element::Else) => {
                drop(list);
                self.error(ParseErrorKind::ExpectedEnd)
            }
            (list, _) => Ok(list),
        }
    }

    /// Parses `else`. Leaves a following `if` or `with` to the enclosing block.
    fn else_control(&mut self) -> Result2<Element> {
        let peek = self.peek_non_space();
        if peek.typ == ItemType::If || peek.typ == ItemType::With {
            return Ok(Element::Else);
        }
        self.expect(ItemType::RightDelim, "else").map(|_| Element::Else)
    }

    /// Parses `{{block "name" pipeline}} … {{end}}`: a definition and a call of it.
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
            // Go reports this error at the line on which the block starts.
            return self.error(ParseErrorKind::UnexpectedElseIn(CONTEXT));
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

    fn parse_template_name(&mut self, token: Item<'a>, context: &'static str) -> Result2<Str> {
        match token.typ {
            ItemType::String | ItemType::RawString => self.unquote(token),
            _ => self.unexpected(token, context),
        }
    }
}
