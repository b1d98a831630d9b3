//! Evaluates arguments and checks them against the parameters' types.

use super::call::Call;
use super::{At, Eval, EvalError, Failure, State};
use crate::function::Param;
use crate::node::{Arg, NumberNode};
use crate::reflect::Reflected;
use crate::stack;
use crate::value::{UintType, Value};

impl<'t> State<'_, '_, 't> {
    /// Returns the value of a constant where no type is expected.
    pub(super) fn literal(&mut self, arg: &'t Arg) -> Eval {
        match arg {
            Arg::Bool(_, value) => Ok(Reflected::Concrete(Value::Bool(*value))),
            Arg::String(string) => Ok(Reflected::Concrete(string.value.clone())),
            Arg::Number(number) => self.ideal_constant(arg, number),
            _ => self.error(EvalError::NotACommand(arg.to_string())),
        }
    }

    /// Returns the value of a number, whose type follows from its syntax.
    fn ideal_constant(&mut self, arg: &'t Arg, number: &NumberNode) -> Eval {
        self.at = At::Arg(arg);
        match number.ideal() {
            Some(value) => Ok(Reflected::Concrete(value)),
            None => self.error(EvalError::Overflow(number.text.clone())),
        }
    }

    /// Checks that the value can be passed to a parameter of this type.
    pub(super) fn validate_type(&self, value: &Reflected, param: Param) -> Result<(), Failure> {
        if let Reflected::Invalid = value {
            return match param.can_be_nil() {
                true => Ok(()),
                false => self.error(EvalError::InvalidValue(param)),
            };
        }
        if param.accepts(value.value()) {
            return Ok(());
        }
        let got = match value {
            Reflected::Interface(Value::Nil) => "interface {}",
            other => other.value().type_name(),
        };
        self.error(EvalError::WrongType { expected: param, got: got.to_owned() })
    }

    /// Evaluates an argument and checks it against the parameter's type.
    pub(super) fn eval_arg(&mut self, dot: &Reflected, param: Param, arg: &'t Arg) -> Eval {
        self.at = At::Arg(arg);
        match arg {
            Arg::Nil(_) if param.can_be_nil() => Ok(Reflected::Invalid),
            Arg::Nil(_) => self.error(EvalError::NilArg(param)),
            Arg::Bool(..) | Arg::Number(_) | Arg::String(_) => self.eval_constant(param, arg),
            _ => {
                let value = self.eval_any(dot, arg);
                if let Ok(value) = &value {
                    self.validate_type(value, param)?;
                }
                value
            }
        }
    }

    /// Evaluates an argument of unknown type.
    pub(super) fn eval_any(&mut self, dot: &Reflected, arg: &'t Arg) -> Eval {
        self.at = At::Arg(arg);
        let call = &mut Call::bare(self.at);
        match arg {
            Arg::Dot(_) => Ok(dot.clone()),
            Arg::Field(field) => self.eval_field_chain(dot, dot, &field.ident, call),
            Arg::Variable(variable) => self.eval_variable(dot, variable, call),
            Arg::Pipe(pipe) => stack::grow(|| self.eval_pipeline(dot, pipe)),
            Arg::Identifier(name) => self.eval_function(dot, name, call),
            Arg::Chain(chain) => stack::grow(|| self.eval_chain(dot, chain, call)),
            _ => self.literal(arg),
        }
    }

    /// Converts a constant to the parameter's type.
    fn eval_constant(&mut self, param: Param, arg: &'t Arg) -> Eval {
        let value = match (param, arg) {
            (Param::Any | Param::Reflect, _) => return self.literal(arg),
            (Param::Bool, Arg::Bool(_, value)) => Some(Value::Bool(*value)),
            (Param::String, Arg::String(string)) => Some(string.value.clone()),
            (Param::Int, Arg::Number(n)) => n.int.map(Value::int),
            (Param::Int64 | Param::Duration, Arg::Number(n)) => n.int.map(Value::int64),
            (Param::Uint32, Arg::Number(n)) => n.uint.map(|v| Value::Uint(v & u64::from(u32::MAX), UintType::Uint32)),
            (Param::Float, Arg::Number(n)) => n.float.map(Value::Float),
            _ => None,
        };
        match (value, param.constant_name()) {
            (Some(value), _) => Ok(Reflected::Concrete(value)),
            (None, Some(expected)) => self.error(EvalError::WrongConstant { expected, found: arg.to_string() }),
            (None, None) => self.error(EvalError::NoConstant { expected: param, found: arg.to_string() }),
        }
    }
}
