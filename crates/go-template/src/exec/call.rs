//! Calls of functions, built-in functions and methods.

use smallvec::SmallVec;

use super::{Args, At, Eval, Failure, State};
use crate::error::{Cause, FuncError};
use crate::funcs::{Builtin, not_callable};
use crate::function::{Function, Param};
use crate::node::{Arg, Callee, IdentifierNode};
use crate::reflect::Reflected;
use crate::scope::Scope;
use crate::value::{Object, Str, Value};

/// What a call goes to.
pub(super) enum Target<'f> {
    Function(&'f Function),
    Builtin(Builtin),
    Method(&'f dyn Object, &'f [Param], Option<Param>),
    /// A function whose first parameter is the receiver.
    Bound(&'f Function, &'f Value),
}

impl<'t> State<'_, '_, 't> {
    pub(super) fn eval_function(
        &mut self,
        dot: &Reflected,
        node: &'t Arg,
        function: &'t IdentifierNode,
        call: At<'t>,
        args: &'t [Arg],
        last: Option<Reflected>,
    ) -> Eval {
        self.at = At::Arg(node);
        let target = match &function.callee {
            Callee::Function(f) => Target::Function(f),
            Callee::Builtin(b) => Target::Builtin(*b),
        };
        self.eval_call(dot, target, call, &function.name, args, last)
    }

    /// Calls a function or method. The first of `args`, if there is any, is the function itself.
    pub(super) fn eval_call(
        &mut self,
        dot: &Reflected,
        target: Target<'_>,
        node: At<'t>,
        name: &'t Str,
        args: &'t [Arg],
        last: Option<Reflected>,
    ) -> Eval {
        self.step()?;
        let args = args.get(1..).unwrap_or_default();
        let (params, variadic) = target.signature();
        self.check_count(params.len(), variadic.is_some(), name, args.len(), last.is_some())?;
        if let Target::Method(object, ..) = target
            && let Some(why) = name.as_utf8().and_then(|method| object.bad_results(method))
        {
            return self.errorf(why);
        }
        if let Target::Builtin(builtin @ (Builtin::And | Builtin::Or)) = target {
            return self.eval_and_or(dot, builtin == Builtin::Or, args, last);
        }
        let signature = (params, variadic);
        let called = match target {
            Target::Builtin(builtin) => {
                let mut values = self.eval_args(dot, signature, args, last, |value| value)?;
                builtin.call(self.scope, args.first(), &mut values)
            }
            Target::Function(function) => {
                let mut values = self.eval_args(dot, signature, args, last, Reflected::into_value)?;
                call_function(self.scope, function, name, &mut values).map(of_interface)
            }
            Target::Bound(function, receiver) => {
                let mut values = self.eval_args(dot, signature, args, last, Reflected::into_value)?;
                values.insert(0, receiver.clone());
                call_function(self.scope, function, name, &mut values).map(of_interface)
            }
            Target::Method(object, ..) => {
                let values = self.eval_args(dot, signature, args, last, Reflected::into_value)?;
                call_method(self.scope, object, name, &values).map(of_interface)
            }
        };
        let error = match called {
            Ok(value) => match self.scope.made(value.value()) {
                Ok(()) => return Ok(value),
                Err(limit) => limit.into(),
            },
            Err(error) => error,
        };
        self.at = node;
        Err(self.fail(Cause::Call { function: name.to_text().into_owned(), error }))
    }

    /// The checked arguments of a call, the one that comes through the pipe last.
    fn eval_args<T>(
        &mut self,
        dot: &Reflected,
        (params, variadic): (&[Param], Option<Param>),
        args: &'t [Arg],
        last: Option<Reflected>,
        convert: impl Fn(Reflected) -> T,
    ) -> Result<Args<T>, Failure> {
        let param = |i: usize| params.get(i).copied().or(variadic).unwrap_or(Param::Any);
        let mut values = SmallVec::new();
        for (i, arg) in args.iter().enumerate() {
            values.push(convert(self.eval_arg(dot, param(i), arg)?));
        }
        if let Some(last) = last {
            self.validate_type(&last, param(args.len()))?;
            values.push(convert(last));
        }
        Ok(values)
    }

    fn check_count(&self, fixed: usize, variadic: bool, name: &Str, args: usize, last: bool) -> Result<(), Failure> {
        let given = args + usize::from(last);
        if variadic && given < fixed {
            return self.errorf(format!("wrong number of args for {name}: want at least {fixed} got {args}"));
        }
        if !variadic && given != fixed {
            return self.errorf(format!("wrong number of args for {name}: want {fixed} got {given}"));
        }
        Ok(())
    }

    /// `and` and `or` stop at the first argument that decides.
    fn eval_and_or(&mut self, dot: &Reflected, or: bool, args: &'t [Arg], last: Option<Reflected>) -> Eval {
        let mut value = Reflected::Invalid;
        for arg in args {
            value = self.eval_arg(dot, Param::Reflect, arg)?;
            if value.value().is_true() == or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }
}

/// Calls the function; what it was given and what it did count. The function's own error says more than that this is too much.
fn call_function(
    scope: &mut Scope<'_>,
    function: &Function,
    name: &Str,
    args: &mut [Value],
) -> Result<Value, FuncError> {
    args.iter().try_for_each(|arg| scope.given(arg))?;
    let result = function.call(scope, args);
    let noted = scope.noted(name);
    let value = result?;
    noted?;
    Ok(value)
}

impl<'f> Target<'f> {
    fn signature(&self) -> (&'f [Param], Option<Param>) {
        match self {
            Target::Function(f) => (f.params(), f.variadic()),
            Target::Builtin(b) => b.signature(),
            Target::Method(_, params, variadic) => (params, *variadic),
            Target::Bound(f, _) => (f.params().get(1..).unwrap_or_default(), f.variadic()),
        }
    }
}

fn call_method(scope: &mut Scope<'_>, object: &dyn Object, name: &Str, args: &[Value]) -> Result<Value, FuncError> {
    object.call(scope, &name.to_text(), args).unwrap_or_else(|| Err(not_callable(name)))
}

/// What a function, method or field of type `interface{}` gives: nil stays an interface.
pub(super) fn of_interface(value: Value) -> Reflected {
    match value {
        Value::Nil => Reflected::Interface(Value::Nil),
        value => Reflected::Concrete(value),
    }
}
