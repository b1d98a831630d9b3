//! Trims, cuts and abbreviates text. Counterparts: Go's `strings`, Sprig's `strings.go` and goutils' `stringutils.go`.

use std::collections::HashSet;

use go_template::{FuncError, FuncMap, Str};
use golibs::unicode::is_space;
use golibs::utf8::{chars, decode, runes};

pub(super) fn register(map: &mut FuncMap) {
    map.add("trim", |s: Str| part(trim(&s, is_space), &s))
        .add("trimAll", trim_all)
        .add("trimall", trim_all)
        .add("trimSuffix", |end: Str, s: Str| part(s.strip_suffix(&*end).unwrap_or(&s), &s))
        .add("trimPrefix", |start: Str, s: Str| part(s.strip_prefix(&*start).unwrap_or(&s), &s))
        .add("nospace", nospace)
        .add("trunc", trunc)
        .add("substr", substr)
        .add("abbrev", |width: isize, s: Str| if width < 4 { s.to_vec() } else { abbreviate(&s, 0, width as usize) })
        .add("abbrevboth", abbrevboth);
}

/// Converts part of a text; shares the text's memory if the part is the whole text.
fn part(part: &[u8], s: &Str) -> Str {
    if part.len() == s.len() { s.clone() } else { Str::from(part) }
}

/// Maximum size of a cutset that is searched, in bytes; larger ones are hashed.
const SEARCHED: usize = 16;

fn trim_all(cutset: Str, s: Str) -> Str {
    if cutset.len() <= SEARCHED {
        let set: Vec<char> = chars(&cutset).collect();
        return part(trim(&s, |c| set.contains(&c)), &s);
    }
    let set: HashSet<char> = chars(&cutset).collect();
    part(trim(&s, |c| set.contains(&c)), &s)
}

fn trim(s: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    let mut rest = s;
    while let Some(rune) = decode(rest).filter(|rune| cut(rune.to_char())) {
        rest = &rest[rune.width()..];
    }
    while let Some(last) = rest.last() {
        // The start of a multibyte character can be found only from the front.
        if !last.is_ascii() {
            return trim_end(rest, cut);
        }
        if !cut(char::from(*last)) {
            break;
        }
        rest = &rest[..rest.len() - 1];
    }
    rest
}

fn trim_end(s: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    let (mut end, mut at) = (0, 0);
    for rune in runes(s) {
        at += rune.width();
        if !cut(rune.to_char()) {
            end = at;
        }
    }
    &s[..end]
}

/// Removes spaces. goutils treats bytes as characters, but returns text without spaces unchanged.
fn nospace(s: Str) -> Vec<u8> {
    if !s.iter().any(|b| is_space(char::from(*b))) {
        return s.to_vec();
    }
    s.iter().map(|b| char::from(*b)).filter(|c| !is_space(*c)).collect::<String>().into_bytes()
}

fn trunc(count: isize, s: Str) -> Str {
    let length = count.unsigned_abs();
    if length >= s.len() {
        return s;
    }
    Str::from(if count < 0 { &s[s.len() - length..] } else { &s[..length] })
}

fn substr(start: isize, end: isize, s: Str) -> Result<Vec<u8>, FuncError> {
    let length = s.len();
    let Ok(from) = usize::try_from(start) else {
        let to = usize::try_from(end).map_err(|_| out_of_range(&format!("[:{end}]")))?;
        return s.get(..to).map(<[u8]>::to_vec).ok_or_else(|| out_of_range(&format!("[:{to}] with length {length}")));
    };
    let to = usize::try_from(end).ok().filter(|to| *to <= length).unwrap_or(length);
    s.get(from..to).map(<[u8]>::to_vec).ok_or_else(|| out_of_range(&format!("[{from}:{to}]")))
}

fn out_of_range(bounds: &str) -> FuncError {
    FuncError::new(format!("runtime error: slice bounds out of range {bounds}"))
}

fn abbrevboth(left: isize, right: isize, s: Str) -> Vec<u8> {
    if right < 4 || left > 0 && right < 7 {
        return s.to_vec();
    }
    abbreviate(&s, left, right as usize)
}

/// Abbreviates to at most `width` bytes, keeping the byte at `offset`. Counterpart: goutils' `AbbreviateFull`.
fn abbreviate(s: &[u8], offset: isize, width: usize) -> Vec<u8> {
    const DOTS: &[u8] = b"...";
    let length = s.len();
    if length <= width {
        return s.to_vec();
    }
    let offset = usize::try_from(offset).unwrap_or(0).min(length).min(length - (width - 3));
    if offset <= 4 {
        return [&s[..width - 3], DOTS].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if offset + width - 3 < length {
        return [DOTS, &abbreviate(&s[offset..], 0, width - 3)].concat();
    }
    [DOTS, &s[length - (width - 3)..]].concat()
}
