//! Upper, lower and title case. Counterparts: Go's `strings` and goutils' `wordutils.go`.

use go_template::{FuncMap, Str};

use golibs::unicode::{is_digit, is_letter, is_lower, is_space, is_title, is_upper, to_lower, to_title, to_upper};
use golibs::utf8::chars;

pub(super) fn register(map: &mut FuncMap) {
    map.add("upper", |s: Str| if s.is_ascii() { s.to_ascii_uppercase().into() } else { mapped(&s, to_upper) })
        .add("lower", |s: Str| if s.is_ascii() { s.to_ascii_lowercase().into() } else { mapped(&s, to_lower) })
        .add("title", title)
        .add("untitle", untitle)
        .add("swapcase", swapcase)
        .add("initials", initials);
}

fn mapped(s: &Str, map: impl Fn(char) -> char) -> Str {
    chars(s).map(map).collect::<String>().into()
}

/// Capitalizes each word. A word starts after any ASCII character except a letter, digit or underscore, and after a non-ASCII space. Counterpart:
/// `strings.Title`.
fn title(s: Str) -> String {
    let mut starts = true;
    let mut out = String::with_capacity(s.len());
    for c in chars(&s) {
        out.push(if starts { to_title(c) } else { c });
        starts = separates(c);
    }
    out
}

fn separates(c: char) -> bool {
    if c.is_ascii() {
        return !(c.is_ascii_alphanumeric() || c == '_');
    }
    !is_letter(c) && !is_digit(c) && is_space(c)
}

fn untitle(s: Str) -> String {
    let mut starts = true;
    mapped_words(&s, |c, space| {
        let lower = starts && !space;
        starts = space;
        if lower { to_lower(c) } else { c }
    })
}

fn swapcase(s: Str) -> String {
    let mut after_space = true;
    mapped_words(&s, |c, space| {
        let starts = after_space;
        after_space = false;
        if is_upper(c) || is_title(c) {
            to_lower(c)
        } else if is_lower(c) {
            if starts { to_title(c) } else { to_upper(c) }
        } else {
            after_space = space;
            c
        }
    })
}

fn mapped_words(s: &Str, mut map: impl FnMut(char, bool) -> char) -> String {
    chars(s).map(|c| map(c, is_space(c))).collect()
}

/// Returns the first byte of each word: goutils treats bytes as characters.
fn initials(s: Str) -> String {
    let mut starts = true;
    let mut out = String::new();
    for byte in s.iter() {
        let c = char::from(*byte);
        if is_space(c) {
            starts = true;
        } else if starts {
            out.push(c);
            starts = false;
        }
    }
    out
}
