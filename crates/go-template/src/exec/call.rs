//! Calls functions, built-in functions and methods.

use smallvec::SmallVec;

use super::{Args, At, Eval, EvalError, Failure, State};
use crate::error::{Cause, FuncError, LimitError};
use crate::funcs::{Builtin, BuiltinError};
use crate::function::{Function, Param};
use crate::node::{Arg, Callee, IdentifierNode};
use crate::reflect::Reflected;
use crate::scope::Scope;
use crate::value::{BadResults, Object, Str, Value};

/// The arguments that an operand is called with, if any.
pub(super) struct Call<'t> {
    /// The node at which an error of the call is reported.
    pub(super) node: At<'t>,
    /// The arguments that follow the operand.
    pub(super) args: &'t [Arg],
    /// The value from the pipeline, which becomes the last argument.
    pub(super) last: Option<Reflected>,
}

impl<'t> Call<'t> {
    /// Returns a call without arguments.
    pub(super) fn bare(node: At<'t>) -> Call<'t> {
        Call { node, args: &[], last: None }
    }

    pub(super) fn has_args(&self) -> bool {
        !self.args.is_empty() || self.last.is_some()
    }
}

/// The callee.
pub(super) enum Target<'f> {
    Function(&'f Function),
    Builtin(Builtin),
    Method(&'f dyn Object, &'f [Param], Option<Param>),
    /// A function that takes the receiver as its first parameter.
    Bound(&'f Function, &'f Value),
}

/// The types of a function's parameters.
#[derive(Clone, Copy)]
struct Signature<'f> {
    params: &'f [Param],
    /// The type of all further arguments, if the function is variadic.
    variadic: Option<Param>,
}

impl Signature<'_> {
    /// Returns the type of the argument at the index.
    fn param(self, index: usize) -> Param {
        self.params.get(index).copied().or(self.variadic).unwrap_or(Param::Any)
    }
}

impl<'t> State<'_, '_, 't> {
    /// Fails if an operand that cannot be called is given arguments.
    pub(super) fn not_a_function(&self, call: &Call<'t>) -> Result<(), Failure> {
        match call.has_args() {
            true => self.error(EvalError::NotAFunction(call.node.to_string())),
            false => Ok(()),
        }
    }

    pub(super) fn eval_function(&mut self, dot: &Reflected, function: &'t IdentifierNode, call: &mut Call<'t>) -> Eval {
        let target = match &function.callee {
            Callee::Function(f) => Target::Function(f),
            Callee::Builtin(b) => Target::Builtin(*b),
        };
        self.eval_call(dot, target, &function.name, call)
    }

    pub(super) fn eval_call(
        &mut self,
        dot: &Reflected,
        target: Target<'_>,
        name: &'t Str,
        call: &mut Call<'t>,
    ) -> Eval {
        self.step()?;
        let signature = target.signature();
        self.check_count(signature, name, call)?;
        if let Target::Method(object, ..) = target
            && let Some(results) = name.as_utf8().and_then(|method| object.bad_results(method))
        {
            return self.error(match results {
                BadResults::Count(count) => EvalError::ResultCount { method: name.clone(), count },
                BadResults::Second(type_name) => EvalError::SecondResult { method: name.clone(), type_name },
            });
        }
        let node = call.node;
        let called = match target {
            Target::Builtin(Builtin::And) => return self.eval_until(dot, call, |value| !value.is_true()),
            Target::Builtin(Builtin::Or) => return self.eval_until(dot, call, Value::is_true),
            Target::Builtin(builtin) => {
                let callee = call.args.first();
                let mut values = self.eval_args(dot, signature, call, |value| value)?;
                match self.charge_texts(builtin, &values) {
                    Ok(()) => builtin.call(self.scope, callee, &mut values),
                    Err(limit) => Err(limit.into()),
                }
            }
            Target::Function(function) => {
                let mut values = self.eval_args(dot, signature, call, Reflected::into_value)?;
                call_function(self.scope, function, name, &mut values).map(of_interface)
            }
            Target::Bound(function, receiver) => {
                let mut values = self.eval_args(dot, signature, call, Reflected::into_value)?;
                values.insert(0, receiver.clone());
                call_function(self.scope, function, name, &mut values).map(of_interface)
            }
            Target::Method(object, ..) => {
                let values = self.eval_args(dot, signature, call, Reflected::into_value)?;
                call_method(self.scope, object, name, &values).map(of_interface)
            }
        };
        let error = match called {
            Ok(value) => match self.scope.charge_result(value.value()) {
                Ok(()) => return Ok(value),
                Err(limit) => limit.into(),
            },
            Err(error) => error,
        };
        self.at = node;
        Err(self.fail(Cause::Call { function: name.to_text().into_owned(), error }))
    }

    /// Charges steps for string arguments that the function scans.
    fn charge_texts(&mut self, builtin: Builtin, args: &[Reflected]) -> Result<(), LimitError> {
        let is_text = |value: &&Value| matches!(value, Value::String(_));
        let mut texts = args.iter().map(Reflected::value).filter(is_text);
        if builtin.reads_texts() { texts.try_for_each(|text| self.scope.charge_argument(text)) } else { Ok(()) }
    }

    /// Evaluates and checks the arguments, the last of which is the value from the pipeline.
    fn eval_args<T>(
        &mut self,
        dot: &Reflected,
        signature: Signature<'_>,
        call: &mut Call<'t>,
        convert: impl Fn(Reflected) -> T,
    ) -> Result<Args<T>, Failure> {
        let mut values = SmallVec::new();
        for (i, arg) in call.args.iter().enumerate() {
            values.push(convert(self.eval_arg(dot, signature.param(i), arg)?));
        }
        if let Some(last) = call.last.take() {
            self.validate_type(&last, signature.param(call.args.len()))?;
            values.push(convert(last));
        }
        Ok(values)
    }

    fn check_count(&self, signature: Signature<'_>, name: &Str, call: &Call<'t>) -> Result<(), Failure> {
        let (want, args) = (signature.params.len(), call.args.len());
        let got = args + usize::from(call.last.is_some());
        match signature.variadic {
            // Go's count omits the value from the pipeline here.
            Some(_) if got < want => self.error(EvalError::TooFewArgs { name: name.clone(), want, got: args }),
            None if got != want => self.error(EvalError::ArgCount { name: name.clone(), want, got }),
            _ => Ok(()),
        }
    }

    /// Returns the first argument that decides, or else the last one. Arguments after it are not evaluated.
    fn eval_until(&mut self, dot: &Reflected, call: &mut Call<'t>, decides: impl Fn(&Value) -> bool) -> Eval {
        let mut value = Reflected::Invalid;
        for arg in call.args {
            value = self.eval_arg(dot, Param::Reflect, arg)?;
            if decides(value.value()) {
                return Ok(value);
            }
        }
        Ok(call.last.take().unwrap_or(value))
    }
}

/// Calls the function and charges the run for its arguments and its work. If both the function and a limit fail, returns the function's error, which
/// is more helpful.
fn call_function(
    scope: &mut Scope<'_>,
    function: &Function,
    name: &Str,
    args: &mut [Value],
) -> Result<Value, FuncError> {
    args.iter().try_for_each(|arg| scope.charge_argument(arg))?;
    let (call, left) = scope.begin_call();
    let result = function.call(scope, args);
    let noted = call.end();
    let was_stopped = |scope: &Scope<'_>| noted.steps > left || scope.is_late();
    match (result, scope.charge_noted(name, &noted)) {
        (Ok(value), Ok(())) => Ok(value),
        (Ok(_), Err(limit)) => Err(limit.into()),
        (Err(error), Err(limit)) if error.limit().is_none() && was_stopped(scope) => Err(limit.into()),
        (Err(error), _) => Err(error),
    }
}

impl<'f> Target<'f> {
    fn signature(&self) -> Signature<'f> {
        let (params, variadic) = match self {
            Target::Function(f) => (f.params(), f.variadic()),
            Target::Builtin(b) => b.signature(),
            Target::Method(_, params, variadic) => (*params, *variadic),
            Target::Bound(f, _) => (f.params().get(1..).unwrap_or_default(), f.variadic()),
        };
        Signature { params, variadic }
    }
}

fn call_method(scope: &mut Scope<'_>, object: &dyn Object, name: &Str, args: &[Value]) -> Result<Value, FuncError> {
    object.call(scope, &name.to_text(), args).unwrap_or_else(|| Err(BuiltinError::MissingMethod(name.clone()).into()))
}

/// Wraps the result of a function, method or field of type `interface{}`, in which nil stays an interface.
pub(super) fn of_interface(value: Value) -> Reflected {
    match value {
        Value::Nil => Reflected::Interface(Value::Nil),
        value => Reflected::Concrete(value),
    }
}
