//! Go's built-in functions. Counterpart: Go's `text/template/funcs.go`; the comparisons are in `compare`, the escaping in `escape`.
//!
//! The functions take [`Reflected`] values, because Go's errors distinguish an untyped nil from a nil interface.

mod compare;
mod error;

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use strum::EnumString;

use crate::error::FuncError;
use crate::escape;
use crate::exec::Args;
use crate::fmt;
use crate::function::{Function, Param};
use crate::node::Arg;
use crate::reflect::Reflected;
use crate::scope::Scope;
use crate::scratch::build_str;
use crate::value::{Field, IntType, Kind, List, Object, Str, UintType, Value};

pub use error::{ArgError, BuiltinError};

/// A built-in function, which parses from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Builtin {
    And,
    Call,
    Html,
    Index,
    Slice,
    Js,
    Len,
    Not,
    Or,
    Print,
    Printf,
    Println,
    UrlQuery,
    Eq,
    Ge,
    Gt,
    Le,
    Lt,
    Ne,
}

type Called = Result<Reflected, FuncError>;

impl Builtin {
    /// Returns the types of the fixed parameters, and the type of further arguments.
    pub(crate) fn signature(self) -> (&'static [Param], Option<Param>) {
        use Builtin::{
            And, Call, Eq, Ge, Gt, Html, Index, Js, Le, Len, Lt, Ne, Not, Or, Print, Printf, Println, Slice, UrlQuery,
        };
        match self {
            And | Or | Call | Index | Slice | Eq => (&[Param::Reflect], Some(Param::Reflect)),
            Html | Js | UrlQuery | Print | Println => (&[], Some(Param::Any)),
            Printf => (&[Param::String], Some(Param::Any)),
            Len | Not => (&[Param::Reflect], None),
            Ge | Gt | Le | Lt | Ne => (&[Param::Reflect, Param::Reflect], None),
        }
    }

    /// Returns whether the function reads its arguments to the end, which costs more than its result suggests.
    pub(crate) fn reads_texts(self) -> bool {
        use Builtin::{Eq, Ge, Gt, Html, Js, Le, Lt, Ne, UrlQuery};
        matches!(self, Eq | Ge | Gt | Le | Lt | Ne | Html | Js | UrlQuery)
    }

    /// Calls the function with checked arguments. `callee` is the source of the first argument, which errors of `call` show.
    pub(crate) fn call(self, scope: &mut Scope<'_>, callee: Option<&Arg>, args: &mut [Reflected]) -> Called {
        Ok(Reflected::Concrete(match self {
            Builtin::Call => return call(scope, callee, args),
            Builtin::Index => return index(args),
            Builtin::Slice => slice(args)?,
            Builtin::Html => text(escape::html(&eval_args(args))),
            Builtin::Js => text(escape::js(&eval_args(args))),
            Builtin::UrlQuery => text(escape::url_query(&eval_args(args))),
            Builtin::Len => Value::int(length(&args[0])?),
            Builtin::Not => Value::Bool(!args[0].value().is_true()),
            Builtin::Print => Value::String(build_str(|out| fmt::append_all(out, &values(args)))),
            Builtin::Println => text(fmt::sprintln(&values(args))),
            Builtin::Printf => printf(args),
            Builtin::Eq => Value::Bool(compare::eq(args)?),
            Builtin::Ne => Value::Bool(!compare::eq(args)?),
            Builtin::Lt => Value::Bool(compare::lt(&args[0], &args[1])?),
            Builtin::Le => Value::Bool(compare::le(args)?),
            Builtin::Gt => Value::Bool(!compare::le(args)?),
            Builtin::Ge => Value::Bool(!compare::lt(&args[0], &args[1])?),
            // The executor evaluates these two itself, because they may leave arguments unevaluated.
            Builtin::And | Builtin::Or => Value::Nil,
        }))
    }
}

fn text(bytes: Vec<u8>) -> Value {
    Value::String(bytes.into())
}

/// Moves the values out of the arguments.
fn values(args: &mut [Reflected]) -> Args<Value> {
    args.iter_mut().map(|arg| mem::replace(arg, Reflected::Invalid).into_value()).collect()
}

fn printf(args: &mut [Reflected]) -> Value {
    let args = values(args);
    match args.split_first() {
        Some((Value::String(format), args)) => Value::String(build_str(|out| fmt::append_formatted(out, format, args))),
        _ => Value::String(Str::default()),
    }
}

/// Prints the arguments to one string, as the executor does.
fn eval_args(args: &[Reflected]) -> Vec<u8> {
    let shown = |arg: &Reflected| match arg.value() {
        Value::Nil => Value::from("<no value>"),
        value => printable(value).into_owned(),
    };
    fmt::sprint(&args.iter().map(shown).collect::<Vec<_>>())
}

/// Returns the value that the executor prints: it dereferences a pointer without a text representation.
pub(crate) fn printable(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Object(object)
            if object.kind() == Kind::Ptr && object.display().is_none() && !object.fields().is_empty() =>
        {
            Cow::Owned(Value::Object(Arc::new(Pointed(Arc::clone(object)))))
        }
        value => Cow::Borrowed(value),
    }
}

/// The struct behind a pointer.
#[derive(Debug)]
struct Pointed(Arc<dyn Object>);

impl Object for Pointed {
    fn type_name(&self) -> &str {
        self.0.type_name().trim_start_matches('*')
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn fields(&self) -> Vec<Field> {
        self.0.fields()
    }
}

/// Returns the plain data of an object whose kind is plain data, and any other value unchanged.
pub(crate) fn underlying(value: &Value) -> Value {
    match value {
        Value::Object(object) if !matches!(object.kind(), Kind::Struct | Kind::Ptr | Kind::Func) => object.data(),
        value => value.clone(),
    }
}

/// Returns the name of the type, or of the type that a pointer points to.
fn pointed_type(value: &Value) -> &str {
    let name = value.type_name();
    if value.kind() == Kind::Ptr { name.trim_start_matches('*') } else { name }
}

/// Evaluates `index`: `index x 1 2` is Go's `x[1][2]`.
fn index(args: &[Reflected]) -> Called {
    let mut item = args[0].clone().elem();
    if let Reflected::Invalid = item {
        return Err(BuiltinError::IndexOfNil.into());
    }
    for index in &args[1..] {
        if let Reflected::Interface(Value::Nil) = item {
            return Err(BuiltinError::IndexOfNilPointer.into());
        }
        item = index_once(item.value(), index.value())?;
    }
    Ok(item)
}

fn index_once(item: &Value, index: &Value) -> Called {
    match underlying(item) {
        Value::List(list) => {
            let element = list.get(index_arg(index, list.len())?).ok_or(BuiltinError::EndOfSlice)?;
            Ok(if list.ty().is_interface() {
                Reflected::Interface(element.clone())
            } else {
                Reflected::Concrete(element.clone())
            })
        }
        Value::String(s) => byte_at(&s, index, BuiltinError::EndOfString),
        Value::Bytes(s) => byte_at(&s, index, BuiltinError::EndOfSlice),
        Value::Map(map) => {
            let key = match index {
                Value::String(key) => key,
                Value::Nil => return Err(BuiltinError::Key(ArgError::Nil(Param::String)).into()),
                other => return Err(BuiltinError::Key(wrong_type(other, Param::String)).into()),
            };
            Ok(match map.get(key) {
                Some(value) if map.ty().is_interface() => Reflected::Interface(value),
                Some(value) => Reflected::Concrete(value),
                None => Reflected::zero_element(map.ty()),
            })
        }
        _ => Err(BuiltinError::NotIndexable(pointed_type(item).to_owned()).into()),
    }
}

fn byte_at(bytes: &[u8], index: &Value, out_of_range: BuiltinError) -> Called {
    let byte = bytes.get(index_arg(index, bytes.len())?).ok_or(out_of_range)?;
    Ok(Reflected::Concrete(Value::Uint(u64::from(*byte), UintType::Uint8)))
}

/// Converts an index to a number from 0 to `cap`.
fn index_arg(index: &Value, cap: usize) -> Result<usize, BuiltinError> {
    let x = match underlying(index) {
        Value::Int(x, _) => x,
        Value::Uint(x, _) => x as i64,
        Value::Nil => return Err(BuiltinError::NilIndex),
        _ => return Err(BuiltinError::IndexType(index.type_name().to_owned())),
    };
    usize::try_from(x).ok().filter(|x| *x <= cap).ok_or(BuiltinError::IndexOutOfRange(x))
}

/// Evaluates `slice`: `slice x 1 2` is Go's `x[1:2]`. The capacity of a list is its length here.
fn slice(args: &[Reflected]) -> Result<Value, BuiltinError> {
    let (item, indexes) = (args[0].value(), &args[1..]);
    if let Value::Nil = item {
        return Err(BuiltinError::SliceOfNil);
    }
    if indexes.len() > 3 {
        return Err(BuiltinError::TooManyIndexes(indexes.len()));
    }
    let data = underlying(item);
    let len = match &data {
        Value::String(_) if indexes.len() == 3 => return Err(BuiltinError::ThreeIndexString),
        Value::String(s) | Value::Bytes(s) => s.len(),
        Value::List(list) => list.len(),
        _ => return Err(BuiltinError::NotSliceable(pointed_type(item).to_owned())),
    };
    let (from, to) = bounds(indexes, len)?;
    Ok(match data {
        Value::String(s) => Value::String(s[from..to].into()),
        Value::Bytes(s) => Value::Bytes(s[from..to].into()),
        Value::List(list) => Value::List(List::new(list.ty(), list[from..to].to_vec())),
        other => other,
    })
}

fn bounds(indexes: &[Reflected], len: usize) -> Result<(usize, usize), BuiltinError> {
    let mut bounds = [0, len, len];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = index_arg(index.value(), len)?;
    }
    let [from, to, cap] = bounds;
    if from > to {
        return Err(BuiltinError::SliceOrder(from, to));
    }
    if to > cap {
        return Err(BuiltinError::SliceOrder(to, cap));
    }
    Ok((from, to))
}

fn length(item: &Reflected) -> Result<i64, BuiltinError> {
    let value = match item {
        Reflected::Invalid => return Err(BuiltinError::LenOfNil),
        Reflected::Interface(Value::Nil) => return Err(BuiltinError::LenOfNilPointer),
        other => other.value(),
    };
    let len = match underlying(value) {
        Value::String(s) | Value::Bytes(s) => s.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => return Err(BuiltinError::NoLength(pointed_type(value).to_owned())),
    };
    Ok(i64::try_from(len).unwrap_or(i64::MAX))
}

/// Calls the first argument, a function, with the other arguments.
fn call(scope: &mut Scope<'_>, callee: Option<&Arg>, args: &[Reflected]) -> Called {
    let function = match args[0].value() {
        Value::Nil => return Err(BuiltinError::CallOfNil.into()),
        Value::Func(function) => function,
        other => {
            let (name, type_name) = (callee_name(callee, other), other.type_name().to_owned());
            return Err(BuiltinError::NotAFunction { name, type_name }.into());
        }
    };
    let name = callee_name(callee, args[0].value());
    check_count(function, name, args.len() - 1)?;
    let mut converted = Vec::with_capacity(args.len());
    for (i, arg) in args[1..].iter().enumerate() {
        let param = function.params().get(i).copied().or(function.variadic()).unwrap_or(Param::Any);
        converted.push(prepare_arg(arg.value(), param).map_err(|error| BuiltinError::Arg { index: i, error })?);
    }
    function.call(scope, &mut converted).map(Reflected::value_of)
}

fn callee_name(callee: Option<&Arg>, value: &Value) -> String {
    match (callee, value) {
        (Some(arg), _) => arg.to_string(),
        (None, Value::String(s)) => s.to_string(),
        (None, value) => format!("<{} Value>", value.type_name()),
    }
}

fn check_count(function: &Function, name: String, got: usize) -> Result<(), BuiltinError> {
    let want = function.params().len();
    match function.variadic() {
        Some(_) if got < want => Err(BuiltinError::TooFewArgs { name, got, want }),
        None if got != want => Err(BuiltinError::ArgCount { name, got, want }),
        _ => Ok(()),
    }
}

/// Converts an argument to the parameter's type. Integer types convert to each other.
fn prepare_arg(value: &Value, param: Param) -> Result<Value, ArgError> {
    match (value, param) {
        (Value::Nil, _) if !param.can_be_nil() => Err(ArgError::Nil(param)),
        (Value::Nil, _) => Ok(Value::Nil),
        (value, param) if param.accepts(value) => Ok(value.clone()),
        (Value::Int(v, _), Param::Int) => Ok(Value::Int(*v, IntType::Int)),
        (Value::Int(v, _), Param::Int64) => Ok(Value::Int(*v, IntType::Int64)),
        (Value::Uint(v, _), Param::Int) => Ok(Value::Int(*v as i64, IntType::Int)),
        (Value::Uint(v, _), Param::Int64) => Ok(Value::Int(*v as i64, IntType::Int64)),
        _ => Err(wrong_type(value, param)),
    }
}

fn wrong_type(value: &Value, expected: Param) -> ArgError {
    ArgError::Type { got: value.type_name().to_owned(), expected }
}
