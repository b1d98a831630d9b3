//! JSON in the body of an apply, which servers read as YAML.
//!
//! Counterpart: the character classes of libyaml's reader and scanner, as go.yaml.in/yaml/v2 has them.

use crate::status::Status;

/// Returns whether YAML rejects or changes a character that is not escaped. YAML rejects control characters and
/// non-characters, folds line breaks and drops byte order marks. It accepts everything beyond the basic plane, where it
/// would reject JSON's surrogate escapes.
pub fn needs_escape(c: char) -> bool {
    matches!(c, '\u{7F}'..='\u{9F}' | '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

/// Refuses a body that has such a character. A real server refuses only some of them, and stores another text than was
/// sent for the rest, which no test would notice.
pub(crate) fn check(body: &[u8]) -> Result<(), Status> {
    let found = std::str::from_utf8(body).ok().and_then(|text| text.chars().find(|c| needs_escape(*c)));
    let Some(c) = found else { return Ok(()) };
    let code = u32::from(c);
    Err(Status::bad_request(format!("the body of an apply must escape U+{code:04X}, which YAML reads differently")))
}
