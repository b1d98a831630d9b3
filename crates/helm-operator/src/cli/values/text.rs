//! Text that is safe on a terminal and in YAML: names and values come from people whom the reader need not trust.

use go_encoding::yaml;
use go_template::Value;

/// Returns text whose control characters, and those that change the direction or the width of text, are escaped.
pub(super) fn printable(text: &str) -> String {
    let escaped = |c: char| if is_dangerous(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// Returns JSON text in which the same characters are escaped as JSON escapes them.
pub(super) fn printable_json(json: &str) -> String {
    let escaped = |c: char| match is_dangerous(c) {
        true => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        false => c.to_string(),
    };
    json.chars().map(escaped).collect()
}

fn is_dangerous(c: char) -> bool {
    let is_invisible = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    c.is_control() || is_invisible || ('\u{e0000}'..='\u{e007f}').contains(&c)
}

/// Returns a text as YAML reads it back: without quotes where they are not needed.
pub(super) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./@+-".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/');
    let is_text = || matches!(yaml::parse(text.as_bytes()), Ok(Value::String(read)) if read == *text);
    if starts && text.chars().all(is_plain) && is_text() {
        return text.to_owned();
    }
    printable_json(&serde_json::Value::from(text).to_string())
}

/// Returns a value's compact JSON as YAML: a string without quotes where they are not needed.
pub(super) fn scalar(json: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(serde_json::Value::String(text)) => word(&text),
        _ => printable_json(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_deceive_a_reader_are_escaped() {
        assert_eq!(printable("a\u{1b}[31m\u{202e}b\u{9b}ü"), "a\\u{1b}[31m\\u{202e}b\\u{9b}ü");
        let json = printable_json("\"\u{9b}\u{202e}\u{e0041}ü\"");
        assert_eq!(json, "\"\\u009b\\u202e\\udb40\\udc41ü\"");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "\u{9b}\u{202e}\u{e0041}ü");
    }

    #[test]
    fn words_are_quoted_unless_they_are_read_back_as_text() {
        for (text, expected) in [
            ("web", "web"),
            ("a/b:1", "\"a/b:1\""),
            ("1.27", "\"1.27\""),
            ("yes", "\"yes\""),
            ("", "\"\""),
            ("null", "\"null\""),
            ("-a", "\"-a\""),
            ("a b", "\"a b\""),
            ("nginx.org", "nginx.org"),
        ] {
            assert_eq!(word(text), expected);
        }
    }
}
