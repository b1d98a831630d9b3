//! Replaces matches by literal text or by a template with `$1` and `${name}`. Counterpart: Go's `ReplaceAll` and `Expand`.

use crate::unicode::{is_digit, is_letter};
use crate::utf8::{Rune, decode};

use super::search::Search;
use super::{Regex, Span, TooSlow, width_at};

/// Length of the result, in bytes, at which replacing stops: a text and a template of a few megabytes each could produce terabytes.
pub(super) const MAX_REPLACED: usize = 64 << 20;

impl Regex {
    /// Replaces each match with these bytes. Stops once the result exceeds 64 MiB, which leaves it incomplete.
    ///
    /// # Errors
    /// The search takes longer than [`MAX_SEARCH_TIME`](super::MAX_SEARCH_TIME).
    pub fn replace_all_literal(&self, text: &[u8], replacement: &[u8]) -> Result<Vec<u8>, TooSlow> {
        let mut search = Search::new(self, text);
        let mut next = |position| Ok(search.find_at(position)?.map(|span| (span, ())));
        replace(text, &mut next, |out, _, ()| out.extend_from_slice(replacement))
    }

    /// Replaces each match with the template, in which `$1`, `${1}` and `${name}` refer to groups. Stops once the result exceeds 64 MiB, which leaves
    /// it incomplete.
    ///
    /// # Errors
    /// The search takes longer than [`MAX_SEARCH_TIME`](super::MAX_SEARCH_TIME).
    pub fn replace_all(&self, text: &[u8], template: &[u8]) -> Result<Vec<u8>, TooSlow> {
        if !template.contains(&b'$') {
            return self.replace_all_literal(text, template);
        }
        let mut search = Search::new(self, text);
        let mut next = |position| {
            let groups = search.groups_at(position)?.unwrap_or_default();
            Ok(groups.first().copied().flatten().map(|span| (span, groups)))
        };
        replace(text, &mut next, |out, text, groups| self.expand(out, template, text, &groups))
    }

    fn expand(&self, out: &mut Vec<u8>, template: &[u8], text: &[u8], groups: &[Option<Span>]) {
        let mut rest = template;
        while let Some(dollar) = rest.iter().position(|b| *b == b'$') {
            if out.len() > MAX_REPLACED {
                return;
            }
            out.extend_from_slice(&rest[..dollar]);
            rest = &rest[dollar + 1..];
            if let Some(after) = rest.strip_prefix(b"$") {
                out.push(b'$');
                rest = after;
            } else if let Some((name, after)) = reference(rest) {
                out.extend(self.group(name, groups).map(|(start, end)| &text[start..end]).unwrap_or_default());
                rest = after;
            } else {
                out.push(b'$');
            }
        }
        out.extend_from_slice(rest);
    }

    /// Returns the group with this number, or the first group with this name that matched.
    fn group(&self, name: &[u8], groups: &[Option<Span>]) -> Option<Span> {
        match number(name) {
            Some(index) => groups.get(index).copied().flatten(),
            None => self.names.iter().zip(groups).filter(|(n, _)| n.as_bytes() == name).find_map(|(_, g)| *g),
        }
    }
}

/// Splits off the name of the group after a `$`, if there is one.
fn reference(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"{").unwrap_or(text);
    let mut length = 0;
    while let Some(Rune::Char(c)) = decode(&inner[length..]) {
        if !(c == '_' || is_letter(c) || is_digit(c)) {
            break;
        }
        length += c.len_utf8();
    }
    let (name, rest) = inner.split_at(length);
    let rest = if inner.len() < text.len() { rest.strip_prefix(b"}")? } else { rest };
    (!name.is_empty()).then_some((name, rest))
}

/// Parses a group's name as a number of at most nine digits without leading zeros.
fn number(name: &[u8]) -> Option<usize> {
    let is_number =
        name.iter().all(u8::is_ascii_digit) && name.len() <= 9 && (name.len() == 1 || name.first() != Some(&b'0'));
    is_number.then(|| name.iter().fold(0, |n, b| n * 10 + usize::from(b - b'0')))
}

/// Copies the text, replacing each match that `next` finds by the output of `write`. Skips an empty match directly after another match.
fn replace<T>(
    text: &[u8],
    next: &mut dyn FnMut(usize) -> Result<Option<(Span, T)>, TooSlow>,
    write: impl Fn(&mut Vec<u8>, &[u8], T),
) -> Result<Vec<u8>, TooSlow> {
    let mut out = Vec::with_capacity(text.len());
    let (mut last_end, mut position) = (0, 0);
    while position <= text.len() && out.len() <= MAX_REPLACED {
        let Some(((start, end), found)) = next(position)? else { break };
        out.extend_from_slice(&text[last_end..start]);
        if end > last_end || start == 0 {
            write(&mut out, text, found);
        }
        last_end = end;
        position = end.max(position + width_at(text, position));
    }
    out.extend_from_slice(&text[last_end..]);
    Ok(out)
}
