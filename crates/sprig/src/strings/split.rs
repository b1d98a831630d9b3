//! Splitting and joining text. Counterparts: Go's `strings.Split` and `Join`, and Sprig's `strings.go`.

use go_template::{FuncError, FuncMap, List, Map, MapType, Str, Value};
use golibs::utf8::runes;

use crate::cast::{items, to_text};
use crate::limits::{MAX_LIST_ITEMS, check_list, check_string};

/// One part more than a list may have, to request all parts.
const TOO_MANY: usize = MAX_LIST_ITEMS + 1;

/// Registers the functions of this file.
pub(super) fn register(map: &mut FuncMap) {
    map.add("split", |separator: Str, s: Str| numbered("split", pieces(&s, &separator, TOO_MANY)))
        .add("splitn", splitn)
        .add("splitList", split_list)
        .add("join", join)
        .add("sortAlpha", sort_alpha)
        .add("toStrings", |v: Value| List::strings(texts(&v)));
}

/// Counterpart: `strings.SplitN` for a positive count.
pub(super) fn pieces<'a>(s: &'a [u8], separator: &[u8], most: usize) -> Vec<&'a [u8]> {
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

/// Keeps the first parts, and joins all others into the last one.
fn joined_tail<'a>(s: &'a [u8], mut parts: Vec<&'a [u8]>, most: usize) -> Vec<&'a [u8]> {
    if parts.len() > most {
        let start: usize = parts[..most - 1].iter().map(|p| p.len()).sum();
        parts.truncate(most - 1);
        parts.push(&s[start..]);
    }
    parts
}

/// The bytes of each character.
pub(super) fn characters(s: &[u8]) -> Vec<&[u8]> {
    let mut at = 0;
    let mut parts = Vec::new();
    for rune in runes(s) {
        parts.push(&s[at..at + rune.width()]);
        at += rune.width();
    }
    parts
}

fn split_list(separator: Str, s: Str) -> Result<List, FuncError> {
    let parts = pieces(&s, &separator, TOO_MANY);
    check_list("splitList", parts.len())?;
    Ok(List::strings(parts))
}

fn splitn(separator: Str, most: isize, s: Str) -> Result<Map, FuncError> {
    match most {
        0 => numbered("splitn", Vec::new()),
        n => numbered("splitn", pieces(&s, &separator, usize::try_from(n).map_or(TOO_MANY, |n| n.min(TOO_MANY)))),
    }
}

/// Numbers the parts `_0`, `_1` and so on: templates cannot use a plain number as a field name.
fn numbered(function: &str, parts: Vec<&[u8]>) -> Result<Map, FuncError> {
    check_list(function, parts.len())?;
    let entry = |(i, part): (usize, &[u8])| (Str::from(format!("_{i}")), Value::String(part.into()));
    Ok(Map::new(MapType::String, parts.into_iter().enumerate().map(entry).collect()))
}

/// The items as text, without nils; a single text for any other value. Counterpart: Sprig's `strslice`.
fn texts(value: &Value) -> Vec<Str> {
    if matches!(value, Value::Nil) {
        return Vec::new();
    }
    match items(value) {
        Some(items) => items.iter().filter(|v| !matches!(v, Value::Nil)).map(to_text).collect(),
        None => vec![to_text(value)],
    }
}

fn join(separator: Str, value: Value) -> Result<Vec<u8>, FuncError> {
    let texts = texts(&value);
    let separators = separator.len().saturating_mul(texts.len());
    check_string("join", texts.iter().fold(separators, |sum, t| sum.saturating_add(t.len())))?;
    Ok(texts.join(&*separator))
}

fn sort_alpha(value: Value) -> List {
    if items(&value).is_none() {
        return List::strings([to_text(&value)]);
    }
    let mut texts = texts(&value);
    texts.sort();
    List::strings(texts)
}
