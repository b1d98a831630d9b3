//! Bounds the work of an expression, which the `cel` crate does not do. Each operand that an operator or function walks
//! or copies is charged by its size beforehand, and each comprehension by the length of its range. Names outside the
//! library are rejected along the way.
//!
//! A charge is a call that the meter puts around an operand. It returns its argument unchanged, and fails once the
//! budget is used up.

use std::cell::Cell;
use std::collections::BTreeSet;

use ::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, LiteralValue, operators};
use ::cel::common::types::{CelBytes, CelInt, CelList, CelMap, CelString, DYN_TYPE, INT_TYPE};
use ::cel::common::value::{CowVal, Val};
use ::cel::parser::Expression as Ast;
use ::cel::{DeclarationError, Env, ExecutionError};

use super::{Error, MAX_DEPTH, OPTIONAL, STANDARD, STRINGS};

/// The budget of one evaluation, in steps. A visited value costs about one step, as do 16 bytes of its text.
pub(crate) const BUDGET: u64 = 200_000;
/// The bytes of text that cost one step.
const TEXT: usize = 16;
/// The maximum length of `join`'s separator, which is copied between all items.
const SEPARATOR: usize = 16;

/// Names that no expression can contain.
const CHARGE: &str = "@charge";
const EACH: &str = "@each";
/// The accumulator of the standard macros.
const ACCUMULATOR: &str = "@result";

/// Names of types, which `type(x) == int` compares with.
const TYPES: [&str; 9] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];

thread_local! {
    /// The rest of the budget. An evaluation never leaves its thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn fill() {
    LEFT.set(BUDGET);
}

pub(super) fn is_empty() -> bool {
    LEFT.get() == 0
}

fn spend(steps: u64) -> Result<(), ExecutionError> {
    LEFT.set(LEFT.get().saturating_sub(steps));
    if is_empty() { Err(ExecutionError::function_error(CHARGE, "the budget is used up")) } else { Ok(()) }
}

/// Declares the functions that the meter inserts.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(CHARGE, "charge", vec![DYN_TYPE], charge)?;
    env.add_overload(EACH, "each", vec![DYN_TYPE, INT_TYPE], each)
}

fn charge<'b, 'v>(mut arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = arguments.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
    spend(size(value.as_ref(), LEFT.get()))?;
    Ok(value)
}

/// Charges a comprehension, which copies its items and runs its body for each.
fn each<'b, 'v>(mut arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let body = arguments.pop();
    let body = body.as_ref().and_then(|body| body.downcast_ref::<CelInt>()).map_or(1, |body| *body.inner());
    let range = arguments.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
    let items = range.as_sizer().map_or(0, |sizer| *sizer.size().inner());
    spend(size(range.as_ref(), LEFT.get()).saturating_add(items.saturating_mul(body).unsigned_abs()))?;
    Ok(range)
}

/// Returns the steps of walking a value; stops counting at `most`.
fn size(value: &dyn Val, most: u64) -> u64 {
    let text = |bytes: usize| 1 + (bytes / TEXT) as u64;
    if let Some(string) = value.downcast_ref::<CelString<'_>>() {
        return text(string.inner().len());
    }
    if let Some(bytes) = value.downcast_ref::<CelBytes<'_>>() {
        return text(bytes.inner().len());
    }
    let mut sum = 1;
    let mut add = |item: &dyn Val| {
        if sum < most {
            sum += size(item, most - sum);
        }
    };
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        list.inner().iter().for_each(|item| add(item.as_ref()));
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        map.inner().iter().for_each(|(key, item)| {
            add(key.inner());
            add(item.as_ref());
        });
    }
    sum
}

/// Checks an expression and inserts charges.
pub(super) struct Meter<'a> {
    variables: &'a [&'a str],
    /// Variables of the enclosing comprehensions.
    scope: Vec<String>,
    pub(super) kinds: BTreeSet<String>,
    depth: usize,
}

impl<'a> Meter<'a> {
    pub(super) fn new(variables: &'a [&'a str]) -> Meter<'a> {
        Meter { variables, scope: Vec::new(), kinds: BTreeSet::new(), depth: 0 }
    }

    pub(super) fn meter(&mut self, ast: Ast) -> Result<Ast, Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        let Ast { id, expr } = ast;
        let expr = match expr {
            Expr::Call(call) => self.call(call)?,
            Expr::Comprehension(comprehension) => Expr::Comprehension(Box::new(self.comprehension(*comprehension)?)),
            Expr::Ident(name) => Expr::Ident(self.variable(name)?),
            Expr::List(mut list) => {
                list.elements = list.elements.into_iter().map(|e| self.charged(e)).collect::<Result<_, _>>()?;
                Expr::List(list)
            }
            Expr::Map(mut map) => {
                map.entries = map.entries.into_iter().map(|e| self.entry(e)).collect::<Result<_, _>>()?;
                Expr::Map(map)
            }
            Expr::Select(mut select) => {
                if is_objects(&select.operand) {
                    self.kind(&select.field)?;
                } else {
                    *select.operand = self.meter(std::mem::take(&mut *select.operand))?;
                }
                Expr::Select(select)
            }
            Expr::Struct(message) => return Err(Error::Function(message.type_name)),
            Expr::Literal(_) | Expr::Unspecified => expr,
        };
        self.depth -= 1;
        Ok(Ast { id, expr })
    }

    fn variable(&self, name: String) -> Result<String, Error> {
        if name == "objects" {
            return Err(Error::Objects);
        }
        let is_known =
            self.scope.contains(&name) || [self.variables, &TYPES].iter().any(|all| all.contains(&name.as_str()));
        if is_known { Ok(name) } else { Err(Error::Variable(name)) }
    }

    fn kind(&mut self, kind: &str) -> Result<(), Error> {
        if !self.variables.contains(&"objects") {
            return Err(Error::Variable("objects".into()));
        }
        // Nothing after the dot is the core group.
        if matches!(kind, "Secret" | "Secret.") {
            return Err(Error::Secrets);
        }
        self.kinds.insert(kind.to_owned());
        Ok(())
    }

    fn call(&mut self, mut call: CallExpr) -> Result<Expr, Error> {
        let name = call.func_name.as_str();
        if matches!(name, operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT) {
            return self.index(call);
        }
        let is_optional = call.target.as_ref().is_some_and(|target| is_ident(target, "optional"));
        let is_choice = [
            operators::CONDITIONAL,
            operators::LOGICAL_AND,
            operators::LOGICAL_OR,
            operators::LOGICAL_NOT,
            operators::NOT_STRICTLY_FALSE,
        ]
        .contains(&name);
        let is_operator = name.starts_with(['_', '-', '!', '@']);
        if !is_operator && ![&STANDARD[..], &STRINGS, &OPTIONAL, &["type"]].iter().any(|all| all.contains(&name)) {
            return Err(Error::Function(call.func_name));
        }
        if name == "join" && !call.args.iter().all(is_separator) {
            return Err(Error::Separator);
        }
        if let Some(target) = call.target.take() {
            call.target = Some(Box::new(if is_optional { *target } else { self.charged(*target)? }));
        }
        let argument = |argument: Ast| match is_choice {
            true => self.meter(argument),
            false => self.charged(argument),
        };
        call.args = std::mem::take(&mut call.args).into_iter().map(argument).collect::<Result<_, _>>()?;
        Ok(Expr::Call(call))
    }

    /// Meters a lookup by key. It returns the value without walking or copying it, so the value is not charged.
    fn index(&mut self, mut call: CallExpr) -> Result<Expr, Error> {
        let mut arguments = std::mem::take(&mut call.args).into_iter();
        let (of, key) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
        let of = match (is_objects(&of), &key.expr) {
            (true, Expr::Literal(LiteralValue::String(kind))) => {
                self.kind(kind.inner())?;
                of
            }
            (true, _) => return Err(Error::Objects),
            (false, _) => self.meter(of)?,
        };
        call.args = vec![of, self.charged(key)?];
        Ok(Expr::Call(call))
    }

    fn entry(&mut self, mut entry: IdedEntryExpr) -> Result<IdedEntryExpr, Error> {
        match &mut entry.expr {
            EntryExpr::MapEntry(pair) => {
                pair.key = self.charged(std::mem::take(&mut pair.key))?;
                pair.value = self.charged(std::mem::take(&mut pair.value))?;
            }
            EntryExpr::StructField(field) => return Err(Error::Function(field.field.clone())),
        }
        Ok(entry)
    }

    fn comprehension(&mut self, mut of: ComprehensionExpr) -> Result<ComprehensionExpr, Error> {
        let range = self.meter(of.iter_range)?;
        let init = self.meter(of.accu_init)?;
        let known = self.scope.len();
        self.scope.extend([of.iter_var.clone(), of.accu_var.clone()]);
        self.scope.extend(of.iter_var2.clone());
        let body = i64::try_from(nodes(&of.loop_cond) + nodes(&of.loop_step)).unwrap_or(i64::MAX);
        of.loop_cond = self.meter(of.loop_cond)?;
        of.loop_step = self.meter(of.loop_step)?;
        of.result = self.meter(of.result)?;
        self.scope.truncate(known);
        let weight = Ast { id: 0, expr: Expr::Literal(LiteralValue::Int(CelInt::from(body))) };
        (of.iter_range, of.accu_init) = (call(EACH, vec![range, weight]), init);
        Ok(of)
    }

    /// Wraps the metered expression in a charge. Literals are bounded by the source, so they are free. So is the
    /// accumulator of `map` and `filter`, because the interpreter would otherwise copy it for each item.
    fn charged(&mut self, ast: Ast) -> Result<Ast, Error> {
        let is_free =
            matches!(ast.expr, Expr::Literal(_) | Expr::List(_) | Expr::Map(_)) || is_ident(&ast, ACCUMULATOR);
        let metered = self.meter(ast)?;
        Ok(if is_free { metered } else { call(CHARGE, vec![metered]) })
    }
}

fn call(name: &str, args: Vec<Ast>) -> Ast {
    Ast { id: 0, expr: Expr::Call(CallExpr { func_name: name.into(), target: None, args }) }
}

fn is_ident(ast: &Ast, wanted: &str) -> bool {
    matches!(&ast.expr, Expr::Ident(name) if name == wanted)
}

fn is_objects(ast: &Ast) -> bool {
    is_ident(ast, "objects")
}

fn is_separator(argument: &Ast) -> bool {
    matches!(&argument.expr, Expr::Literal(LiteralValue::String(text)) if text.inner().len() <= SEPARATOR)
}

/// Counts the nodes of a comprehension's body: the cost of one run, without what its parts are charged themselves.
fn nodes(ast: &Ast) -> usize {
    1 + match &ast.expr {
        Expr::Call(call) => call.target.iter().map(|target| nodes(target)).chain(call.args.iter().map(nodes)).sum(),
        Expr::List(list) => list.elements.iter().map(nodes).sum(),
        Expr::Select(select) => nodes(&select.operand),
        Expr::Map(map) => map.entries.iter().map(|entry| entry_nodes(&entry.expr)).sum(),
        _ => 0,
    }
}

fn entry_nodes(entry: &EntryExpr) -> usize {
    match entry {
        EntryExpr::MapEntry(pair) => nodes(&pair.key) + nodes(&pair.value),
        EntryExpr::StructField(field) => nodes(&field.value),
    }
}
