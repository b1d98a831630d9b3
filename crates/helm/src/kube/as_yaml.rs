//! JSON that a YAML parser reads as JSON: how the server reads the body of an apply.
//!
//! Counterpart: the character classes of libyaml's reader and scanner, as go.yaml.in/yaml/v2 has them.

/// The same JSON with escapes for what YAML refuses in a text or changes: some characters, which in JSON stand in strings only.
pub(super) fn as_yaml(json: Vec<u8>) -> Vec<u8> {
    if json.iter().all(|byte| *byte < 0x7F) {
        return json;
    }
    let Ok(text) = str::from_utf8(&json) else { return json };
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_special(c) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    escaped.into_bytes()
}

/// Control characters and non-characters are refused, line breaks are folded, a byte order mark is none inside a text. Beyond the basic plane
/// everything is taken; a pair of escapes would not be.
fn is_special(c: char) -> bool {
    matches!(c, '\u{7F}'..='\u{9F}' | '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let json = serde_json::to_vec(text).unwrap();
        let body = as_yaml(json);
        assert_eq!(String::from_utf8(body.clone()).unwrap(), format!("\"{expected}\""), "{text:?}");
        assert_eq!(serde_json::from_slice::<String>(&body).unwrap(), text);
    }

    #[test]
    fn what_yaml_refuses_or_folds_is_escaped_and_nothing_else() {
        check("a\u{7E}b", "a~b");
        check("\u{7F}", "\\u007f");
        check("\u{7F}\u{80}\u{85}\u{9F}\u{A0}", "\\u007f\\u0080\\u0085\\u009f\u{A0}");
        check("é \u{2027}\u{2028}\u{2029}\u{202A}", "é \u{2027}\\u2028\\u2029\u{202A}");
        check("\u{FEFE}\u{FEFF}\u{FF00}", "\u{FEFE}\\ufeff\u{FF00}");
        check("\u{FFFD}\u{FFFE}\u{FFFF}\u{10000}", "\u{FFFD}\\ufffe\\uffff\u{10000}");
        check("\u{1F600}\u{10FFFF}", "\u{1F600}\u{10FFFF}");
        check("\u{1}\n\"\\", "\\u0001\\n\\\"\\\\");
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        assert_eq!(as_yaml(vec![b'"', 0xFF, b'"']), [b'"', 0xFF, b'"']);
    }
}
