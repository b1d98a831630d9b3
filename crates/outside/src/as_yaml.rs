//! Writes JSON so that the server's YAML parser reads the same value, for the body of an apply.

use memory_api::needs_escape;

/// Maximum length of a simple key in bytes, quotes included. YAML searches 1,024 characters for the colon after a key.
const MAX_SIMPLE_KEY: usize = 1000;

/// Converts compact JSON to YAML with the same meaning: the form that the body of a server-side apply needs.
pub fn as_yaml(json: Vec<u8>) -> Vec<u8> {
    with_long_keys(escaped(json))
}

/// Prefixes each key that is too long for a simple key with `? `.
fn with_long_keys(json: Vec<u8>) -> Vec<u8> {
    let mut marked = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(open) = json[at..].iter().position(|byte| *byte == b'"').map(|found| at + found) {
        let end = text_end(&json, open);
        if end - open > MAX_SIMPLE_KEY && json.get(end) == Some(&b':') {
            marked.extend_from_slice(&json[copied..open]);
            marked.extend_from_slice(b"? ");
            copied = open;
        }
        at = end;
    }
    if copied == 0 {
        return json;
    }
    marked.extend_from_slice(&json[copied..]);
    marked
}

/// Returns the end of the string that opens at `open`, after its closing quote.
fn text_end(json: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

/// Escapes characters that YAML rejects or changes; in JSON they occur only in strings.
fn escaped(json: Vec<u8>) -> Vec<u8> {
    let text = match String::from_utf8(json) {
        Ok(text) => text,
        Err(error) => return error.into_bytes(),
    };
    if !text.contains(needs_escape) {
        return text.into_bytes();
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if needs_escape(c) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    escaped.into_bytes()
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
    fn only_characters_that_yaml_rejects_or_folds_are_escaped() {
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
    fn long_keys_become_explicit_yaml_keys() {
        let key = |length: usize| format!("\"{}\"", "k".repeat(length - 2));
        let check = |json: String, expected: String| assert_eq!(String::from_utf8(as_yaml(json.into())), Ok(expected));
        check(format!("{{{}:1}}", key(1000)), format!("{{{}:1}}", key(1000)));
        let long = key(1001);
        check(format!("{{{long}:1}}"), format!("{{? {long}:1}}"));
        check(
            format!("{{\"a\":{{{long}:{{{long}:[{long},{{{long}:{long}}}]}}}},\"b\":2}}"),
            format!("{{\"a\":{{? {long}:{{? {long}:[{long},{{? {long}:{long}}}]}}}},\"b\":2}}"),
        );
        let quoted = format!("\"{}\"", "\\\"\\\\:".repeat(500));
        check(format!("{{{quoted}:{quoted}}}"), format!("{{? {quoted}:{quoted}}}"));
        let text = format!("{{\"a\":{long}}}");
        check(text.clone(), text);
        check(long.clone(), long);
        check("\"cut".into(), "\"cut".into());
        check("\"cut\\".into(), "\"cut\\".into());
        let beyond = format!("\"{}\"", "\u{85}".repeat(200));
        check(format!("{{{beyond}:1}}"), format!("{{? \"{}\":1}}", "\\u0085".repeat(200)));
    }

    #[test]
    fn invalid_utf8_is_unchanged() {
        assert_eq!(as_yaml(vec![b'"', 0xFF, b'"']), [b'"', 0xFF, b'"']);
    }
}
