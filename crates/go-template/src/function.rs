//! The functions that templates call: their signatures in Go's types, and the conversion of Rust closures to functions.
//!
//! Counterpart: the type checks of Go's `text/template/funcs.go` and `exec.go`.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::FuncError;
use crate::scope::Scope;
use crate::value::{IntType, List, ListType, Map, MapType, Str, UintType, Value};

/// The Go type of a parameter. Before a call, the executor checks each argument against it and converts constants to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// `interface{}`: any value, including nil.
    Any,
    /// `reflect.Value`: any value, which Go's built-in functions distinguish from nil.
    Reflect,
    /// `bool`.
    Bool,
    /// `int`.
    Int,
    /// `int64`.
    Int64,
    /// `uint32`.
    Uint32,
    /// `float64`.
    Float,
    /// `string`.
    String,
    /// `[]byte`.
    Bytes,
    /// `map[string]interface{}`.
    Map,
    /// `[]interface{}`.
    List,
    /// `[]string`.
    Strings,
    /// `time.Duration`: an [`Object`](crate::Object) of that name, or an `int64` if the template passes a constant.
    Duration,
    /// The type of an [`Object`](crate::Object), by name, such as `*semver.Version`.
    Object(&'static str),
}

impl Param {
    /// Returns the name of the type as Go prints it.
    pub fn name(self) -> &'static str {
        match self {
            Param::Any => "interface {}",
            Param::Reflect => "reflect.Value",
            Param::Bool => "bool",
            Param::Int => "int",
            Param::Int64 => "int64",
            Param::Uint32 => "uint32",
            Param::Float => "float64",
            Param::String => "string",
            Param::Bytes => "[]uint8",
            Param::Map => MapType::Interface.name(),
            Param::List => ListType::Interface.name(),
            Param::Strings => ListType::String.name(),
            Param::Duration => "time.Duration",
            Param::Object(name) => name,
        }
    }

    /// Returns whether an untyped nil can be passed to a parameter of the type.
    pub(crate) fn can_be_nil(self) -> bool {
        match self {
            Param::Bool
            | Param::Int
            | Param::Int64
            | Param::Uint32
            | Param::Float
            | Param::String
            | Param::Duration => false,
            Param::Object(name) => name.starts_with('*'),
            Param::Any | Param::Reflect | Param::Bytes | Param::Map | Param::List | Param::Strings => true,
        }
    }

    /// Returns whether a value other than an untyped nil is assignable to the type.
    pub(crate) fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Param::Any | Param::Reflect, _)
            | (Param::Bool, Value::Bool(_))
            | (Param::Int, Value::Int(_, IntType::Int))
            | (Param::Int64, Value::Int(_, IntType::Int64))
            | (Param::Uint32, Value::Uint(_, UintType::Uint32))
            | (Param::Float, Value::Float(_))
            | (Param::String, Value::String(_))
            | (Param::Bytes, Value::Bytes(_)) => true,
            (Param::Map, Value::Map(map)) => map.ty().is_interface(),
            (Param::List, Value::List(list)) => list.ty() == ListType::Interface,
            (Param::Strings, Value::List(list)) => list.ty() == ListType::String,
            (Param::Duration, Value::Object(object)) => object.type_name() == self.name(),
            (Param::Object(name), Value::Object(object)) => object.type_name() == name,
            _ => false,
        }
    }

    /// Returns the word that errors use for a constant of the type, or `None` if the type has no constants.
    pub(crate) fn constant_name(self) -> Option<&'static str> {
        match self {
            Param::Bool => Some("bool"),
            Param::Int | Param::Int64 | Param::Duration => Some("integer"),
            Param::Uint32 => Some("unsigned integer"),
            Param::Float => Some("float"),
            Param::String => Some("string"),
            _ => None,
        }
    }
}

type Call = dyn Fn(&mut Scope<'_>, &mut [Value]) -> Result<Value, FuncError> + Send + Sync;

/// A function with its signature.
pub struct Function {
    params: Vec<Param>,
    variadic: Option<Param>,
    call: Box<Call>,
}

impl Function {
    /// Creates a function. `params` are the types of the fixed parameters, `variadic` is the type of all further arguments.
    pub fn new(
        params: Vec<Param>,
        variadic: Option<Param>,
        call: impl Fn(&mut Scope<'_>, &[Value]) -> Result<Value, FuncError> + Send + Sync + 'static,
    ) -> Function {
        Function::taking(params, variadic, move |scope, args| call(scope, args))
    }

    /// Creates a function that may move its arguments out of the slice, which the caller must not use afterwards. Otherwise like [`new`](Self::new).
    fn taking(
        params: Vec<Param>,
        variadic: Option<Param>,
        call: impl Fn(&mut Scope<'_>, &mut [Value]) -> Result<Value, FuncError> + Send + Sync + 'static,
    ) -> Function {
        Function { params, variadic, call: Box::new(call) }
    }

    /// Returns the types of the fixed parameters.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Returns the type of further arguments, if the function is variadic.
    pub fn variadic(&self) -> Option<Param> {
        self.variadic
    }

    /// Calls the function. The arguments must match the signature; the function may move them out of the slice.
    ///
    /// # Errors
    /// Fails with the function's own error.
    pub fn call(&self, scope: &mut Scope<'_>, args: &mut [Value]) -> Result<Value, FuncError> {
        (self.call)(scope, args)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("params", &self.params)
            .field("variadic", &self.variadic)
            .finish_non_exhaustive()
    }
}

/// A Rust type that can be the type of a parameter.
pub trait FromValue: Sized {
    /// The parameter's type in Go.
    const PARAM: Param;
    /// Converts an argument that the executor has checked against [`PARAM`](Self::PARAM). A value of any other type becomes the zero value.
    fn from_value(value: &Value) -> Self;
    /// Converts an argument like [`from_value`](Self::from_value), but may move the value out.
    fn take(value: &mut Value) -> Self {
        Self::from_value(value)
    }
}

/// The further arguments of a variadic function. Must be the last parameter.
pub struct Rest<T>(pub SmallVec<[T; 4]>);

/// Go's `int` corresponds to `isize`, its `int64` to `i64`.
impl FromValue for isize {
    const PARAM: Param = Param::Int;
    fn from_value(value: &Value) -> Self {
        i64::from_value(value) as isize
    }
}

impl FromValue for i64 {
    const PARAM: Param = Param::Int64;
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Int(v, _) => *v,
            _ => 0,
        }
    }
}

impl FromValue for f64 {
    const PARAM: Param = Param::Float;
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Float(v) => *v,
            _ => 0.0,
        }
    }
}

impl FromValue for bool {
    const PARAM: Param = Param::Bool;
    fn from_value(value: &Value) -> Self {
        matches!(value, Value::Bool(true))
    }
}

impl FromValue for Str {
    const PARAM: Param = Param::String;
    fn from_value(value: &Value) -> Self {
        value.as_str().cloned().unwrap_or_default()
    }
    fn take(value: &mut Value) -> Self {
        match mem::take(value) {
            Value::String(s) => s,
            _ => Str::default(),
        }
    }
}

impl FromValue for Value {
    const PARAM: Param = Param::Any;
    fn from_value(value: &Value) -> Self {
        value.clone()
    }
    fn take(value: &mut Value) -> Self {
        mem::take(value)
    }
}

impl FromValue for Map {
    const PARAM: Param = Param::Map;
    fn from_value(value: &Value) -> Self {
        value.as_map().map(|m| m.with_type(MapType::Interface)).unwrap_or_default()
    }
    fn take(value: &mut Value) -> Self {
        match mem::take(value) {
            Value::Map(map) if map.ty() == MapType::Interface => map,
            other => Map::from_value(&other),
        }
    }
}

impl FromValue for List {
    const PARAM: Param = Param::List;
    fn from_value(value: &Value) -> Self {
        value.as_list().cloned().unwrap_or_else(|| List::nil(ListType::Interface))
    }
    fn take(value: &mut Value) -> Self {
        match mem::take(value) {
            Value::List(list) => list,
            _ => List::nil(ListType::Interface),
        }
    }
}

/// A Rust type that a function can return: a value, or a [`Result`] that contains one.
pub trait IntoReturn {
    /// Converts to a value or an error.
    ///
    /// # Errors
    /// Fails with the function's own error.
    fn into_return(self) -> Result<Value, FuncError>;
}

impl<T: IntoReturn> IntoReturn for Result<T, FuncError> {
    fn into_return(self) -> Result<Value, FuncError> {
        self.and_then(IntoReturn::into_return)
    }
}

macro_rules! returns {
    ($($t:ty => |$v:ident| $e:expr),* $(,)?) => {$(
        impl IntoReturn for $t {
            fn into_return(self) -> Result<Value, FuncError> {
                let $v = self;
                Ok($e)
            }
        }
    )*};
}

returns! {
    Value => |v| v,
    bool => |v| Value::Bool(v),
    isize => |v| Value::int(v as i64),
    i64 => |v| Value::int64(v),
    f64 => |v| Value::Float(v),
    Str => |v| Value::String(v),
    String => |v| Value::from(v),
    &str => |v| Value::from(v),
    Vec<u8> => |v| Value::String(v.into()),
    List => |v| Value::List(v),
    Map => |v| Value::Map(v),
}

/// A Rust closure that can become a template function: it takes up to four parameters, the last of which may be [`Rest`].
pub trait IntoFunction<Args> {
    /// Converts the closure to a template function.
    fn into_function(self) -> Function;
}

macro_rules! functions {
    ($($t:ident $i:tt),*; $n:tt) => {
        impl<Func, Ret, $($t,)*> IntoFunction<($($t,)*)> for Func
        where
            Func: Fn($($t),*) -> Ret + Send + Sync + 'static,
            Ret: IntoReturn,
            $($t: FromValue,)*
        {
            fn into_function(self) -> Function {
                Function::taking(vec![$($t::PARAM),*], None, move |_, _args| self($($t::take(&mut _args[$i])),*).into_return())
            }
        }

        impl<Func, Ret, $($t,)* Last> IntoFunction<($($t,)* Rest<Last>,)> for Func
        where
            Func: Fn($($t,)* Rest<Last>) -> Ret + Send + Sync + 'static,
            Ret: IntoReturn,
            $($t: FromValue,)*
            Last: FromValue,
        {
            fn into_function(self) -> Function {
                Function::taking(vec![$($t::PARAM),*], Some(Last::PARAM), move |_, args| {
                    let rest = Rest(args[$n..].iter_mut().map(Last::take).collect());
                    self($($t::take(&mut args[$i]),)* rest).into_return()
                })
            }
        }
    };
}

functions!(; 0);
functions!(A 0; 1);
functions!(A 0, B 1; 2);
functions!(A 0, B 1, C 2; 3);
functions!(A 0, B 1, C 2, D 3; 4);

/// Functions by name.
#[derive(Clone, Debug, Default)]
pub struct FuncMap(HashMap<String, Arc<Function>>);

impl FuncMap {
    /// Adds a Rust closure, replacing any function with the same name.
    pub fn add<Args>(&mut self, name: &str, function: impl IntoFunction<Args>) -> &mut Self {
        self.insert(name, function.into_function())
    }

    /// Adds a function, replacing any function with the same name.
    pub fn insert(&mut self, name: &str, function: Function) -> &mut Self {
        self.0.insert(name.to_owned(), Arc::new(function));
        self
    }

    /// Returns the function with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Function>> {
        self.0.get(name)
    }

    /// Returns the names, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
