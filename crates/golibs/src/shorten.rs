//! Cuts long messages in the middle: the start says what failed, the end says why.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Maximum length of an error's text, in bytes.
pub const MAX_MESSAGE: usize = 4 << 10;

/// Cuts a text of more than `limit` bytes in the middle. The result is shorter than the limit, unless the limit is below about 100 bytes.
pub fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let kept = limit.saturating_sub(NOTE) / 2;
    let (start, end) = (text.floor_char_boundary(kept), text.ceil_char_boundary(text.len() - kept));
    Cow::Owned(format!("{} [… {} bytes left out …] {}", &text[..start], end - start, &text[end..]))
}

/// Bytes reserved for the note about the omitted text.
const NOTE: usize = 64;

/// Formats the value, but only its first `limit` bytes, followed by `…` if it is longer.
pub fn start_of(value: &dyn fmt::Display, limit: usize) -> String {
    let mut start = Start { text: String::new(), limit };
    if write!(start, "{value}").is_err() {
        start.text.push('…');
    }
    start.text
}

/// A writer that fails once it is full, so that long values are not formatted to their end.
struct Start {
    text: String,
    limit: usize,
}

impl Write for Start {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.limit - self.text.len();
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
        if text.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_both_ends() {
        assert_eq!(shorten("short", 5), "short");
        let long = format!("start{}end", "é".repeat(5000));
        let short = shorten(&long, MAX_MESSAGE);
        assert!(short.len() <= MAX_MESSAGE && short.starts_with("starté") && short.ends_with("éend"), "{short}");
        let left = long.len() - short.matches('é').count() * 2 - "startend".len();
        assert!(short.contains(&format!("[… {left} bytes left out …]")), "{short}");
        assert!(shorten(&long, 10).contains("10008 bytes left out"));
    }

    #[test]
    fn starts_end_with_dots_if_something_follows() {
        assert_eq!(start_of(&"abc", 3), "abc");
        assert_eq!(start_of(&"abcd", 3), "abc…");
        assert_eq!(start_of(&"aé", 2), "a…");
        assert_eq!(start_of(&format_args!("{}{}", "ab", "cd"), 3), "abc…");
    }
}
