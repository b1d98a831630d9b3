//! Splits and joins text. Counterparts: Go's `strings.Split` and `Join`, and Sprig's `strings.go`.

use go_template::{FromValue as _, FuncError, FuncMap, Function, List, Map, MapType, Param, Scope, Str, Value};
use golibs::utf8::runes;

use crate::cast::{items, to_text};
use crate::limits::{MAX_LIST_ITEMS, MAX_STRING_BYTES, check_list, check_string, exceeded, spend_bytes};

/// One part more than a list may have, to request all parts.
const TOO_MANY: usize = MAX_LIST_ITEMS + 1;

pub(super) fn register(map: &mut FuncMap) {
    let two_texts = || vec![Param::String, Param::String];
    map.insert("split", Function::new(two_texts(), None, split))
        .insert("splitn", Function::new(vec![Param::String, Param::Int, Param::String], None, splitn))
        .insert("splitList", Function::new(two_texts(), None, split_list))
        .add("join", join)
        .add("sortAlpha", sort_alpha)
        .add("toStrings", |v: Value| Ok::<_, FuncError>(List::strings(texts("toStrings", &v)?)));
}

/// Splits a text into at most this many parts. Counterpart: `strings.SplitN` for a positive count.
fn pieces<'a>(s: &'a [u8], separator: &[u8], most: usize) -> Vec<&'a [u8]> {
    if separator.is_empty() {
        return joined_tail(s, characters(s), most);
    }
    let mut parts = Vec::new();
    let mut rest = s;
    while parts.len() + 1 < most {
        let Some(at) = find(rest, separator) else { break };
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    parts.push(rest);
    parts
}

pub(super) fn find(s: &[u8], part: &[u8]) -> Option<usize> {
    match part {
        [byte] => memchr::memchr(*byte, s),
        _ => memchr::memmem::find(s, part),
    }
}

/// Keeps the first parts and joins all others into the last one.
fn joined_tail<'a>(s: &'a [u8], mut parts: Vec<&'a [u8]>, most: usize) -> Vec<&'a [u8]> {
    if parts.len() > most {
        let start: usize = parts[..most - 1].iter().map(|p| p.len()).sum();
        parts.truncate(most - 1);
        parts.push(&s[start..]);
    }
    parts
}

fn characters(s: &[u8]) -> Vec<&[u8]> {
    let mut at = 0;
    let mut parts = Vec::new();
    for rune in runes(s) {
        parts.push(&s[at..at + rune.width()]);
        at += rune.width();
    }
    parts
}

/// The memory of a text in a list besides its bytes, and of an entry in a map including its key.
const ITEM_BYTES: usize = 64;
const ENTRY_BYTES: usize = 192;

fn split_list(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let [Value::String(separator), Value::String(s)] = args else { return Ok(Value::Nil) };
    let parts = pieces(s, separator, TOO_MANY);
    check_list("splitList", parts.len())?;
    scope.reserve(s.len() + parts.len() * ITEM_BYTES)?;
    Ok(Value::List(List::strings(parts)))
}

fn split(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let [Value::String(separator), Value::String(s)] = args else { return Ok(Value::Nil) };
    numbered(scope, "split", pieces(s, separator, TOO_MANY))
}

fn splitn(scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, FuncError> {
    let [Value::String(separator), most, Value::String(s)] = args else { return Ok(Value::Nil) };
    match isize::from_value(most) {
        0 => numbered(scope, "splitn", Vec::new()),
        n => numbered(scope, "splitn", pieces(s, separator, usize::try_from(n).map_or(TOO_MANY, |n| n.min(TOO_MANY)))),
    }
}

/// Returns a map of the parts with the keys `_0`, `_1` and so on: templates cannot use a plain number as a field name.
fn numbered(scope: &mut Scope<'_>, function: &str, parts: Vec<&[u8]>) -> Result<Value, FuncError> {
    check_list(function, parts.len())?;
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    scope.reserve(bytes + parts.len() * ENTRY_BYTES)?;
    let entry = |(i, part): (usize, &[u8])| (Str::from(format!("_{i}")), Value::String(part.into()));
    Ok(Value::Map(Map::new(MapType::String, parts.into_iter().enumerate().map(entry).collect())))
}

/// Maximum total length of the texts that a function creates from the items of one list, in bytes.
const MAX_TEXTS: usize = 4 * MAX_STRING_BYTES;

/// Returns the items as texts, without nils, or a single text for any other value. Counterpart: Sprig's `strslice`.
fn texts(function: &str, value: &Value) -> Result<Vec<Str>, FuncError> {
    if matches!(value, Value::Nil) {
        return Ok(Vec::new());
    }
    let Some(items) = items(value) else { return Ok(vec![to_text(value)]) };
    let mut made = 0usize;
    let text = |item: &Value| {
        let text = to_text(item);
        if !matches!(item, Value::String(_)) {
            made += text.len();
        }
        match made <= MAX_TEXTS {
            true => Ok(text),
            false => Err(exceeded("MAX_TEXTS", format!("{function} would make more than {MAX_TEXTS} bytes"))),
        }
    };
    items.iter().filter(|v| !matches!(v, Value::Nil)).map(text).collect()
}

fn join(separator: Str, value: Value) -> Result<Vec<u8>, FuncError> {
    let texts = texts("join", &value)?;
    let separators = separator.len().saturating_mul(texts.len());
    check_string("join", texts.iter().fold(separators, |sum, t| sum.saturating_add(t.len())))?;
    Ok(texts.join(&*separator))
}

fn sort_alpha(value: Value) -> Result<List, FuncError> {
    if items(&value).is_none() {
        return Ok(List::strings([to_text(&value)]));
    }
    let mut texts = texts("sortAlpha", &value)?;
    // Each text takes part in about as many comparisons as the number of items has bits.
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    spend_bytes(bytes.saturating_mul(texts.len().checked_ilog2().unwrap_or(0) as usize))?;
    texts.sort();
    Ok(List::strings(texts))
}
