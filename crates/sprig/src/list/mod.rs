//! List functions. Counterpart: Sprig's `list.go`.
//!
//! A `must` function and its plain variant differ only in Go, where the plain one panics; templates see the same error. Unlike in Go, `sortAlpha`
//! never sorts its argument in place.

use std::collections::HashSet;

use go_template::IntType;
use go_template::{FromValue as _, FuncError, FuncMap, Function, Kind, List, ListType, Param, Rest, Scope, Str, Value};

use super::cast::{items, to_int64};
use super::limits::{Walk, check_list, spend_bytes};
use super::reflect::{equal, nil_type};

type ListResult = Result<List, FuncError>;

pub(super) fn register(map: &mut FuncMap) {
    map.add("list", |Rest(items): Rest<Value>| Value::list(items.into_vec()))
        .add("tuple", |Rest(items): Rest<Value>| Value::list(items.into_vec()));
    for name in ["append", "push", "mustAppend", "mustPush"] {
        map.add(name, push);
    }
    for prefix in ["", "must"] {
        let name = |rest: &str| match prefix {
            "" => rest.to_owned(),
            must => format!("{must}{}{}", rest[..1].to_uppercase(), &rest[1..]),
        };
        map.add(&name("prepend"), prepend)
            .add(&name("first"), |l: Value| {
                Ok::<_, FuncError>(items_for("find first on", &l)?.into_iter().next().unwrap_or_default())
            })
            .add(&name("last"), |l: Value| Ok::<_, FuncError>(items_for("find last on", &l)?.pop().unwrap_or_default()))
            .add(&name("rest"), |l: Value| part(&l, "find rest on", |items| items[1..].to_vec()))
            .add(&name("initial"), |l: Value| part(&l, "find initial on", |items| items[..items.len() - 1].to_vec()))
            .add(&name("reverse"), reverse)
            .add(&name("compact"), compact)
            .add(&name("uniq"), uniq)
            .add(&name("without"), without)
            .add(&name("has"), has)
            .add(&name("slice"), slice)
            .insert(&name("chunk"), Function::new(vec![Param::Int, Param::Any], None, chunk));
    }
    map.add("concat", concat);
}

fn items_for(action: &str, list: &Value) -> Result<Vec<Value>, FuncError> {
    match items(list) {
        Some(items) => Ok(items),
        None if list.kind() == Kind::Invalid => Err(nil_type()),
        None => Err(FuncError::new(format!("Cannot {action} type {}", list.kind().name()))),
    }
}

fn interfaces(items: Vec<Value>) -> List {
    List::new(ListType::Interface, items)
}

fn push(list: Value, item: Value) -> ListResult {
    let mut items = items_for("push on", &list)?;
    check_list("append", items.len() + 1)?;
    items.push(item);
    Ok(interfaces(items))
}

fn prepend(list: Value, item: Value) -> ListResult {
    let mut items = items_for("prepend on", &list)?;
    check_list("prepend", items.len() + 1)?;
    items.insert(0, item);
    Ok(interfaces(items))
}

/// Returns the items that `part` makes of a list's items, as a list, or nil if the list is empty.
fn part(list: &Value, action: &str, part: impl Fn(&[Value]) -> Vec<Value>) -> ListResult {
    let items = items_for(action, list)?;
    if items.is_empty() {
        return Ok(List::nil(ListType::Interface));
    }
    Ok(interfaces(part(&items)))
}

fn reverse(list: Value) -> ListResult {
    let mut items = items_for("find reverse on", &list)?;
    items.reverse();
    Ok(interfaces(items))
}

fn compact(list: Value) -> ListResult {
    let mut items = items_for("compact on", &list)?;
    items.retain(Value::is_true);
    Ok(interfaces(items))
}

fn uniq(list: Value) -> ListResult {
    let mut seen = Seen::new();
    let mut kept = Vec::new();
    for item in items_for("find uniq on", &list)? {
        if !seen.contains(&item)? {
            seen.add(&item)?;
            kept.push(item);
        }
    }
    Ok(interfaces(kept))
}

fn without(list: Value, Rest(omit): Rest<Value>) -> ListResult {
    let mut seen = Seen::new();
    omit.iter().try_for_each(|item| seen.add(item))?;
    let mut kept = Vec::new();
    for item in items_for("find without on", &list)? {
        if !seen.contains(&item)? {
            kept.push(item);
        }
    }
    Ok(interfaces(kept))
}

/// Hashing a string costs as much as this many comparisons.
const HASH_COST: usize = 4;

/// Items to compare deeply with. Strings and integers, by far the most common, are hashed; other items are compared one by one.
struct Seen {
    texts: HashSet<Str>,
    numbers: HashSet<(i64, IntType)>,
    others: Vec<Value>,
    walk: Walk,
}

impl Seen {
    fn new() -> Seen {
        Seen { texts: HashSet::new(), numbers: HashSet::new(), others: Vec::new(), walk: Walk::new() }
    }

    fn add(&mut self, item: &Value) -> Result<(), FuncError> {
        match item {
            Value::String(s) => {
                spend_bytes(HASH_COST * s.len())?;
                self.texts.insert(s.clone());
            }
            Value::Int(number, ty) => {
                self.numbers.insert((*number, *ty));
            }
            other => self.others.push(other.clone()),
        }
        Ok(())
    }

    fn contains(&mut self, item: &Value) -> Result<bool, FuncError> {
        match item {
            Value::String(s) => {
                spend_bytes(HASH_COST * s.len())?;
                Ok(self.texts.contains(s))
            }
            Value::Int(number, ty) => Ok(self.numbers.contains(&(*number, *ty))),
            item => any_equal(item, &self.others, &mut self.walk),
        }
    }
}

fn any_equal(item: &Value, others: &[Value], walk: &mut Walk) -> Result<bool, FuncError> {
    for other in others {
        walk.count(1)?;
        if equal(item, other, walk)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has(needle: Value, list: Value) -> Result<bool, FuncError> {
    if matches!(list, Value::Nil) {
        return Ok(false);
    }
    any_equal(&needle, &items_for("find has on", &list)?, &mut Walk::new())
}

fn slice(list: Value, Rest(indices): Rest<Value>) -> Result<Value, FuncError> {
    let Some(items) = items(&list) else {
        let kind = list.kind();
        let error = || FuncError::new(format!("list should be type of slice or array but {}", kind.name()));
        return Err(if kind == Kind::Invalid { nil_type() } else { error() });
    };
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let start = indices.first().map_or(0, to_int64);
    let end = indices.get(1).map_or(items.len() as i64, to_int64);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let Some((start, end)) = range.filter(|(start, end)| start <= end && *end <= items.len()) else {
        return Err(FuncError::new("reflect.Value.Slice: slice index out of bounds"));
    };
    Ok(match &list {
        Value::Bytes(bytes) => Value::Bytes(bytes[start..end].into()),
        Value::List(list) => Value::List(List::new(list.ty(), items[start..end].to_vec())),
        _ => Value::list(items[start..end].to_vec()),
    })
}

/// The memory of a list, besides its items, in bytes.
const LIST_BYTES: usize = 96;

fn chunk(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let (Some(size), Some(list)) = (args.first().map(isize::from_value), args.get(1)) else { return Ok(Value::Nil) };
    let length = list.as_list().map_or(0, |list| list.len());
    let chunks = length / usize::try_from(size).unwrap_or(0).max(1);
    scope.reserve(length * size_of::<Value>() + chunks * (LIST_BYTES + size_of::<Value>()))?;
    chunks_of(size, list).map(Value::List)
}

/// Splits a list into chunks. Computes their number with floats, as Sprig does, which determines the results for sizes of zero and below.
fn chunks_of(size: isize, list: &Value) -> ListResult {
    let items = match items(list) {
        Some(items) => items,
        None if list.kind() == Kind::Invalid => return Err(nil_type()),
        None => return Err(FuncError::new(format!("Cannot chunk type {}", list.kind().name()))),
    };
    let length = items.len() as isize;
    let bad_length = || FuncError::new("runtime error: makeslice: len out of range");
    let count = super::cast::float_to_int(((length - 1) as f64 / size as f64).floor() + 1.0);
    let count = usize::try_from(count).map_err(|_| bad_length())?;
    if size <= 0 {
        let lone = if count == 1 { length.checked_rem(size).filter(|r| *r != 0) } else { None };
        return match (count, lone) {
            (0, _) => Ok(List::new(ListType::Lists, Vec::new())),
            (_, Some(_)) => Ok(List::new(ListType::Lists, vec![Value::list(items)])),
            _ => Err(bad_length()),
        };
    }
    let chunks = items.chunks(size as usize).map(|c| Value::list(c.to_vec())).collect();
    Ok(List::new(ListType::Lists, chunks))
}

fn concat(Rest(lists): Rest<Value>) -> ListResult {
    let mut all = Vec::new();
    for list in &lists {
        match items(list) {
            Some(items) => {
                check_list("concat", all.len().saturating_add(items.len()))?;
                all.extend(items);
            }
            None if list.kind() == Kind::Invalid => return Err(nil_type()),
            None => return Err(FuncError::new(format!("Cannot concat type {} as list", list.kind().name()))),
        }
    }
    Ok(if all.is_empty() { List::nil(ListType::Interface) } else { interfaces(all) })
}

#[cfg(test)]
mod tests;
