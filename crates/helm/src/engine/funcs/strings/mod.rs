//! Functions over text: Sprig's `strings.go`, and the string functions that it takes from Go, goutils and xstrings.
//!
//! Strings are bytes: what counts bytes in Go (`trunc`, `substr`, `abbrev`, `wrap`) does so here, and may cut a character in two.

mod case;
mod cut;
mod fill;
mod split;
#[cfg(test)]
mod tests;
mod words;

use go_template::{FuncMap, Rest, Str, Value, fmt};

use super::cast::to_text;

/// Adds the family's functions.
pub(super) fn register(map: &mut FuncMap) {
    map.add("hello", || "Hello!");
    case::register(map);
    cut::register(map);
    fill::register(map);
    split::register(map);
    words::register(map);
    map.add("contains", |part: Str, s: Str| contains(&s, &part))
        .add("hasPrefix", |part: Str, s: Str| s.starts_with(&part))
        .add("hasSuffix", |part: Str, s: Str| s.ends_with(&part))
        .add("quote", quote)
        .add("squote", squote)
        .add("cat", cat)
        .add("plural", |one: Str, many: Str, count: isize| if count == 1 { one } else { many })
        .add("toString", |v: Value| to_text(&v));
}

fn contains(s: &[u8], part: &[u8]) -> bool {
    part.is_empty() || s.windows(part.len()).any(|w| w == part)
}

fn quote(Rest(values): Rest<Value>) -> Vec<u8> {
    joined(&values, |v| fmt::quote(&to_text(v), fmt::Charset::Unicode))
}

fn squote(Rest(values): Rest<Value>) -> Vec<u8> {
    joined(&values, |v| [b"'", &*fmt::sprint(std::slice::from_ref(v)), b"'"].concat())
}

fn cat(Rest(values): Rest<Value>) -> Vec<u8> {
    joined(&values, |v| fmt::sprint(std::slice::from_ref(v)))
}

fn joined(values: &[Value], text: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = values.iter().filter(|v| !matches!(v, Value::Nil)).map(text).collect();
    parts.join(&b' ')
}
