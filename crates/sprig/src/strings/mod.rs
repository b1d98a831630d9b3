//! String functions. Counterpart: Sprig's `strings.go`, and the functions of Go, goutils and xstrings that it uses.
//!
//! Strings are bytes: functions that count bytes in Go (`trunc`, `substr`, `abbrev`, `wrap`) do so here, and may split a character.

mod case;
mod cut;
mod fill;
mod split;
#[cfg(test)]
mod tests;
mod words;

use go_template::{FuncMap, Rest, Str, Value, build_str, fmt};
use golibs::strconv::{Charset, append_quoted};

use super::cast::to_text;

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
    memchr::memmem::find(s, part).is_some()
}

fn quote(Rest(values): Rest<Value>) -> Str {
    joined(&values, |out, v| match v {
        Value::String(s) => append_quoted(out, s, Charset::Unicode),
        v => append_quoted(out, &to_text(v), Charset::Unicode),
    })
}

fn squote(Rest(values): Rest<Value>) -> Str {
    joined(&values, |out, v| {
        out.push(b'\'');
        fmt::append_value(out, v);
        out.push(b'\'');
    })
}

fn cat(Rest(values): Rest<Value>) -> Str {
    joined(&values, fmt::append_value)
}

/// Joins the texts of all values except nil with spaces.
fn joined(values: &[Value], append: impl Fn(&mut Vec<u8>, &Value)) -> Str {
    build_str(|out| {
        for (i, value) in values.iter().filter(|v| !matches!(v, Value::Nil)).enumerate() {
            // The executor rejects such a result.
            if out.len() > fmt::MAX_OUTPUT {
                return;
            }
            if i > 0 {
                out.push(b' ');
            }
            append(out, value);
        }
    })
}
