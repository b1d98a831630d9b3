//! Decodes byte strings that may not be UTF-8. Counterpart: Go's `unicode/utf8` and its `range` over a string.
//!
//! Go decodes any input: each byte that is not part of a valid character counts as one character, U+FFFD.

/// A decoded character, or a byte that is not part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rune {
    /// A valid character.
    Char(char),
    /// A byte that is not part of valid UTF-8.
    Invalid(u8),
}

impl Rune {
    /// Returns the character as Go decodes it: U+FFFD for an invalid byte.
    #[inline]
    pub fn to_char(self) -> char {
        match self {
            Rune::Char(c) => c,
            Rune::Invalid(_) => char::REPLACEMENT_CHARACTER,
        }
    }

    /// Returns its length in the text, in bytes: 1 to 4.
    #[inline]
    pub fn width(self) -> usize {
        match self {
            Rune::Char(c) => c.len_utf8(),
            Rune::Invalid(_) => 1,
        }
    }
}

/// Decodes the first character; returns `None` if the text is empty. Counterpart: `utf8.DecodeRune`.
///
/// ```
/// use golibs::utf8::{Rune, decode};
///
/// assert_eq!(decode("é!".as_bytes()), Some(Rune::Char('é')));
/// assert_eq!(decode(b"\xe9!"), Some(Rune::Invalid(0xe9)));
/// ```
#[inline]
pub fn decode(text: &[u8]) -> Option<Rune> {
    let first = *text.first()?;
    if first.is_ascii() {
        return Some(Rune::Char(char::from(first)));
    }
    Some(decode_multibyte(text, first))
}

fn decode_multibyte(text: &[u8], first: u8) -> Rune {
    let length = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return Rune::Invalid(first),
    };
    let valid = text.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
    valid.and_then(|text| text.chars().next()).map_or(Rune::Invalid(first), Rune::Char)
}

/// Decodes the last character; returns `None` if the text is empty. Counterpart: `utf8.DecodeLastRune`.
pub fn decode_last(text: &[u8]) -> Option<Rune> {
    let last = *text.last()?;
    if last.is_ascii() {
        return Some(Rune::Char(char::from(last)));
    }
    let ending_here = |length: usize| decode(&text[text.len() - length..]).filter(|rune| rune.width() == length);
    Some((2..=text.len().min(4)).find_map(ending_here).unwrap_or(Rune::Invalid(last)))
}

/// Iterates over the characters and the invalid bytes.
pub fn runes(text: &[u8]) -> impl Iterator<Item = Rune> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let rune = decode(rest)?;
        rest = &rest[rune.width()..];
        Some(rune)
    })
}

/// Iterates over the characters, with U+FFFD for each invalid byte, like Go's `[]rune(s)`.
pub fn chars(text: &[u8]) -> impl Iterator<Item = char> {
    runes(text).map(Rune::to_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Go's `[]rune(s)`.
    const CASES: [(&[u8], &str); 9] = [
        (b"", ""),
        ("aé世😀".as_bytes(), "aé世😀"),
        (b"\xff\xfea", "\u{fffd}\u{fffd}a"),
        (b"\xe4\xb8", "\u{fffd}\u{fffd}"),
        (b"\xe4\xb8a", "\u{fffd}\u{fffd}a"),
        (b"\xc0\x80", "\u{fffd}\u{fffd}"),
        (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        ("\u{fffd}".as_bytes(), "\u{fffd}"),
    ];

    #[test]
    fn each_invalid_byte_is_one_character() {
        for (text, expected) in CASES {
            assert_eq!(chars(text).collect::<String>(), expected, "{text:x?}");
        }
    }

    #[test]
    fn decoding_from_the_end_finds_the_same_characters() {
        for (text, expected) in CASES {
            let (mut rest, mut found) = (text, Vec::new());
            while let Some(rune) = decode_last(rest) {
                found.push(rune.to_char());
                rest = &rest[..rest.len() - rune.width()];
            }
            assert_eq!(found.iter().rev().collect::<String>(), expected, "{text:x?}");
        }
    }
}
