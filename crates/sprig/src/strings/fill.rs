//! Repeats, indents, replaces and wraps text. Counterparts: Go's `strings`, Sprig's `strings.go` and goutils' `wordutils.go`.

use go_template::{FuncError, FuncMap, Str, build_str};

use golibs::utf8::runes;

use super::split::find;
use crate::limits::{MAX_STRING_BYTES, check_string};

pub(super) fn register(map: &mut FuncMap) {
    map.add("repeat", |count: isize, s: Str| repeat("repeat", count, &s))
        .add("indent", |spaces: isize, s: Str| indent("indent", spaces, &s))
        .add("nindent", |spaces: isize, s: Str| indent_after(b"\n", "nindent", spaces, &s))
        .add("replace", replace)
        .add("wrap", |width: isize, s: Str| wrap(&s, width, b"", false))
        .add("wrapWith", |width: isize, newline: Str, s: Str| wrap(&s, width, &newline, true));
}

fn repeat(function: &str, count: isize, s: &[u8]) -> Result<Vec<u8>, FuncError> {
    let count = usize::try_from(count).map_err(|_| FuncError::new("strings: negative Repeat count"))?;
    check_string(function, s.len().saturating_mul(count))?;
    Ok(s.repeat(count))
}

fn indent(function: &str, spaces: isize, s: &[u8]) -> Result<Str, FuncError> {
    indent_after(b"", function, spaces, s)
}

/// Returns `start` followed by the lines, each indented by this many spaces.
fn indent_after(start: &[u8], function: &str, spaces: isize, s: &[u8]) -> Result<Str, FuncError> {
    let pad = usize::try_from(spaces).map_err(|_| FuncError::new("strings: negative Repeat count"))?;
    check_string(function, pad)?;
    let lines = memchr::memchr_iter(b'\n', s).count() + 1;
    check_string(function, s.len().saturating_add(lines.saturating_mul(pad)))?;
    Ok(build_str(|out| {
        out.extend_from_slice(start);
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', s) {
            out.resize(out.len() + pad, b' ');
            out.extend_from_slice(&s[from..=end]);
            from = end + 1;
        }
        out.resize(out.len() + pad, b' ');
        out.extend_from_slice(&s[from..]);
    }))
}

fn replace(old: Str, new: Str, s: Str) -> Result<Str, FuncError> {
    if !old.is_empty() && find(&s, &old).is_none() {
        check_string("replace", s.len())?;
        return Ok(s);
    }
    let replaced = match old.is_empty() {
        true => build_str(|out| write_around(out, &new, &s)),
        false => build_str(|out| write_replaced(out, &old, &new, &s)),
    };
    check_string("replace", replaced.len())?;
    Ok(replaced)
}

/// Writes the text with `new` in place of each `old`. Stops soon after the maximum length.
fn write_replaced(out: &mut Vec<u8>, old: &[u8], new: &[u8], s: &[u8]) {
    let mut rest = s;
    while let Some(at) = find(rest, old)
        && out.len() <= MAX_STRING_BYTES
    {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    out.extend_from_slice(rest);
}

/// Writes `new` where empty text matches: before each character and at the end. Stops soon after the maximum length.
fn write_around(out: &mut Vec<u8>, new: &[u8], s: &[u8]) {
    let mut at = 0;
    for rune in runes(s) {
        if out.len() > MAX_STRING_BYTES {
            return;
        }
        out.extend_from_slice(new);
        out.extend_from_slice(&s[at..at + rune.width()]);
        at += rune.width();
    }
    out.extend_from_slice(new);
}

/// Wraps lines at `width` bytes, at spaces and optionally inside long words. Counterpart: goutils' `WrapCustom`.
fn wrap(s: &[u8], width: isize, newline: &[u8], long_words: bool) -> Result<Vec<u8>, FuncError> {
    let newline = if newline.is_empty() { b"\n" } else { newline };
    let width = usize::try_from(width).unwrap_or(0).max(1);
    check_string("wrap", s.len().saturating_add((s.len() / width).saturating_mul(newline.len())))?;
    let mut out = Vec::new();
    let mut rest = s;
    while rest.len() > width {
        if rest[0] == b' ' {
            rest = &rest[1..];
            continue;
        }
        let (line, after) = next_line(rest, width, long_words);
        out.extend_from_slice(line);
        let Some(after) = after else { return Ok(out) };
        out.extend_from_slice(newline);
        rest = after;
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// Splits off the first line. Returns `None` as the rest after the last line.
fn next_line(rest: &[u8], width: usize, long_words: bool) -> (&[u8], Option<&[u8]>) {
    if let Some(space) = rest[..=width].iter().rposition(|b| *b == b' ') {
        return (&rest[..space], Some(&rest[space + 1..]));
    }
    if long_words {
        return (&rest[..width], Some(&rest[width..]));
    }
    match rest[width..].iter().position(|b| *b == b' ') {
        Some(space) => (&rest[..width + space], Some(&rest[width + space + 1..])),
        None => (rest, None),
    }
}
