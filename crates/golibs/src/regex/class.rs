//! Translates bracketed classes into plain ranges, because the `regex` crate's classes have additional operators.

use super::{Error, escape, unicode};

/// A class that matches nothing.
pub(super) const NEVER: &str = "[^\\x{0}-\\x{10FFFF}]";

/// Returns the members of a Perl class such as `\d`: ASCII only, as in Go.
pub(super) fn perl(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "0-9",
        'D' => "^0-9",
        's' => "\\t\\n\\x0C\\r ",
        'S' => "^\\t\\n\\x0C\\r ",
        'w' => "0-9A-Za-z_",
        'W' => "^0-9A-Za-z_",
        _ => return None,
    })
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// Translates the bracketed class that the text starts with; also returns the rest.
pub(super) fn translate(text: &str) -> Result<(String, &str), Error> {
    let mut rest = &text[1..];
    let negated = rest.starts_with('^');
    rest = rest.strip_prefix('^').unwrap_or(rest);
    let (mut class, mut first) = (String::new(), true);
    while first || !rest.starts_with(']') {
        if rest.is_empty() {
            return Err(unclosed(text));
        }
        first = false;
        rest = member(&mut class, rest, text)?;
    }
    Ok((close(&class, negated), &rest[1..]))
}

/// Encloses the members in brackets. The class has no members if all of them were surrogates.
fn close(class: &str, negated: bool) -> String {
    match (class.is_empty(), negated) {
        (true, false) => NEVER.to_owned(),
        (true, true) => "[\\x{0}-\\x{10FFFF}]".to_owned(),
        (false, false) => format!("[{class}]"),
        (false, true) => format!("[^{class}]"),
    }
}

/// Translates one member of the class, appends it and returns the rest.
fn member<'t>(class: &mut String, text: &'t str, whole: &str) -> Result<&'t str, Error> {
    if let Some((name, rest)) = posix(text)? {
        class.push_str(name);
        return Ok(rest);
    }
    if text.starts_with("\\p") || text.starts_with("\\P") {
        let (named, rest) = unicode::translate(text)?;
        class.push_str(&named);
        return Ok(rest);
    }
    let escaped = text.strip_prefix('\\').and_then(|t| t.chars().next());
    if let Some(inside) = escaped.and_then(perl) {
        class.push_str(&format!("[{inside}]"));
        return Ok(&text[2..]);
    }
    range(class, text, whole)
}

/// Splits off a leading `[:name:]` or `[:^name:]`.
fn posix(text: &str) -> Result<Option<(&str, &str)>, Error> {
    let Some(end) = text.strip_prefix("[:").and_then(|t| t.find(":]")) else { return Ok(None) };
    let (name, rest) = text.split_at(end + 4);
    let bare = &name[2..end + 2];
    if POSIX.contains(&bare.strip_prefix('^').unwrap_or(bare)) {
        Ok(Some((name, rest)))
    } else {
        Err(Error::new("invalid character class range", name))
    }
}

fn range<'t>(class: &mut String, text: &'t str, whole: &str) -> Result<&'t str, Error> {
    let (low, mut rest) = character(text, whole)?;
    let mut high = low;
    if let Some(after) = rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']')) {
        (high, rest) = character(after, whole)?;
        if high < low {
            return Err(Error::new("invalid character class range", &text[..text.len() - rest.len()]));
        }
    }
    write_range(class, low, high);
    Ok(rest)
}

/// Appends the range without surrogates, which Rust does not treat as characters.
fn write_range(class: &mut String, low: u32, high: u32) {
    let low = if (0xD800..0xE000).contains(&low) { 0xE000 } else { low };
    let high = if (0xD800..0xE000).contains(&high) { 0xD7FF } else { high };
    if low <= high {
        class.push_str(&format!("\\x{{{low:X}}}-\\x{{{high:X}}}"));
    }
}

fn character<'t>(text: &'t str, whole: &str) -> Result<(u32, &'t str), Error> {
    if text.starts_with('\\') {
        return escape::parse(text);
    }
    let mut chars = text.chars();
    let c = chars.next().ok_or_else(|| unclosed(whole))?;
    Ok((u32::from(c), chars.as_str()))
}

fn unclosed(class: &str) -> Error {
    Error::new("missing closing ]", class)
}
