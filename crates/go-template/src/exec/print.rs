//! Prints the values of actions.

use super::{At, EvalError, Failure, State};
use crate::fmt;
use crate::funcs::printable;
use crate::limits::long_text;
use crate::node::{ActionNode, Arg};
use crate::reflect::Reflected;
use crate::value::{Object, Str, Value};

impl<'t> State<'_, '_, 't> {
    pub(super) fn print_value(&mut self, node: &'t ActionNode, value: &Reflected) -> Result<(), Failure> {
        self.at = At::Action(node);
        let before = self.scope.out.len();
        match value.value() {
            Value::Nil => self.scope.out.extend_from_slice(b"<no value>"),
            Value::Func(_) => {
                let (action, type_name) = (node.to_string(), value.type_name().to_owned());
                return self.error(EvalError::NotPrintable { action, type_name });
            }
            Value::Object(object) if let Some(text) = display(node, object.as_ref()) => {
                self.scope.out.extend_from_slice(&text)
            }
            value => fmt::append_value(&mut self.scope.out, &printable(value)),
        }
        // The printer stops at this size.
        let counted =
            if self.scope.out.len() - before > fmt::MAX_OUTPUT { Err(long_text()) } else { self.scope.check_output() };
        self.within(counted)
    }
}

/// Returns the text of an object. Go also finds the methods of a value's pointer, if the value is addressable: here, a part of another value counts
/// as addressable, and the result of a function does not. The functions `and`, `index` and `or` return one of their arguments, or a part of it,
/// unchanged, so their results are still parts.
fn display(node: &ActionNode, object: &dyn Object) -> Option<Str> {
    let made = node.pipe.cmds.last().is_some_and(|command| match command.args.first() {
        Some(Arg::Identifier(function)) => ![&b"and"[..], b"index", b"or"].contains(&&*function.name),
        _ => false,
    });
    if made { object.display() } else { object.display_in_place() }
}
