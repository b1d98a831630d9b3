use serde_json::Value as Json;

use super::*;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn errors_are_gos() {
    for (pattern, problem) in [
        ("\\p{Old_Italic}", "invalid character class range: `\\p{Old_Italic}`"),
        ("\\p{Grek}", "invalid character class range: `\\p{Grek}`"),
        ("\\p", "invalid character class range: `\\p`"),
        ("\\p{", "invalid character class range: `\\p{`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("x{2}*?+", "invalid nested repetition operator: `{2}*?`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(?P<", "invalid or unsupported Perl syntax: `(?P`"),
        ("(?-)a", "invalid or unsupported Perl syntax: `(?-)`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
        ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("a)b", "unexpected ): `a)b`"),
        ("((a)", "missing closing ): `((a)`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("[a-\\d]", "invalid escape sequence: `\\d`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("\\8", "invalid escape sequence: `\\8`"),
        ("\\x{110000}", "invalid escape sequence: `\\x{110000`"),
        ("\\x1", "invalid escape sequence: `\\x1`"),
        ("[]", "missing closing ]: `[]`"),
        ("[\\", "trailing backslash at end of expression: ``"),
    ] {
        let error = Regex::new(pattern.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), format!("error parsing regexp: {problem}"), "{pattern}");
    }
}

#[test]
fn gos_quirks_are_kept() {
    for (pattern, text, expected) in [
        ("^a(?i)*b$", "aaB", true),
        ("x*\\Q\\E?", "", true),
        ("^(?s:a)(?U)+$", "aa", true),
        ("(?P<n>a)(?P<n>b)", "ab", true),
        ("^[a&&b]+$", "a&b", true),
        ("^a{,2}$", "a{,2}", true),
        ("(?i)^\\w$", "\u{212a}", true),
        ("\\s", "\u{b}", false),
        ("\\bé", "é", false),
        ("\\p{lu}", "A", true),
        ("(?ii-s)a", "A", true),
        ("[\\x{D800}]", "a", false),
    ] {
        assert_eq!(Regex::new(pattern.as_bytes()).unwrap().is_match(text.as_bytes()), expected, "{pattern}");
    }
}

#[test]
fn templates_expand_as_in_go() {
    for (pattern, source, template, expected) in [
        ("a(x*)b", "-ab-axxb-", "$1W", "---"),
        ("a(x*)b", "-ab-axxb-", "${1}W", "-W-xxW-"),
        ("a", "banana", "${x", "b${xn${xn${x"),
        ("a", "banana", "$$", "b$n$n$"),
        ("(?P<n>a)|(?P<n>b)", "ab", "[$n]", "[a][b]"),
        ("a*", "日本a語", ".", ".日.本.語."),
    ] {
        assert_eq!(
            text(&Regex::new(pattern.as_bytes()).unwrap().replace_all(source.as_bytes(), template.as_bytes()).unwrap()),
            expected
        );
    }
}

#[test]
fn bytes_that_are_not_utf8_are_searched_too() {
    let regex = Regex::new(b"b").unwrap();
    assert_eq!(regex.find_all(b"\xffb\xff", -1).unwrap(), [(1, 2)]);
    assert_eq!(regex.replace_all(b"\xffb", b"$0$0").unwrap(), b"\xffbb");
}

#[test]
fn patterns_are_limited_in_length_depth_and_size() {
    assert!(Regex::new("a".repeat(1000).as_bytes()).is_ok());
    assert!(Regex::new("a".repeat(MAX_PATTERN_LENGTH + 1).as_bytes()).is_err());
    let nested = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
    assert!(Regex::new(nested(MAX_NESTING).as_bytes()).is_ok());
    assert!(Regex::new(nested(MAX_NESTING + 1).as_bytes()).unwrap_err().to_string().contains("nests too deeply"));
    assert!(
        Regex::new("(\\pL\\PN){500}".repeat(20).as_bytes()).unwrap_err().to_string().contains("expression too large")
    );
}

#[test]
fn empty_text_splits_into_itself_unless_the_pattern_is_empty() {
    assert_eq!(Regex::new(b"(?i)").unwrap().split(b"", -1).unwrap(), [b""]);
    assert!(Regex::new(b"").unwrap().split(b"", -1).unwrap().is_empty());
}

#[test]
fn searches_with_long_lookahead_per_match_are_stopped() {
    let regex = Regex::new(b".*[^a]|a").unwrap();
    let text = vec![b'a'; 300_000];
    assert_eq!(regex.find_all(&text, -1), Err(TooSlow));
    assert_eq!(regex.split(&text, -1), Err(TooSlow));
    assert_eq!(regex.replace_all(&text, b"b"), Err(TooSlow));
    assert_eq!(regex.replace_all(&text, b"$0"), Err(TooSlow));
    assert_eq!(regex.find_all(&text[..100], -1).unwrap().len(), 100);
}

#[test]
fn errors_show_only_the_start_of_a_long_pattern() {
    let error = Regex::new(&vec![b'('; 1_000_000]).unwrap_err().to_string();
    assert!(error.starts_with("error parsing regexp: expression too large: `((((") && error.len() < 5000, "{error}");
}

#[test]
fn special_characters_are_quoted() {
    assert_eq!(text(&quote_meta(b"[a-z]*+?(){}|^$\\.")), "\\[a-z\\]\\*\\+\\?\\(\\)\\{\\}\\|\\^\\$\\\\\\.");
    assert_eq!(text(&quote_meta("é-_/ #".as_bytes())), "é-_/ #");
}

/// Compares with Go's recorded answer; describes the difference, if there is one.
fn difference(case: &Json) -> String {
    let source = case["text"].as_str().unwrap().as_bytes();
    let regex = match (Regex::new(case["regex"].as_str().unwrap().as_bytes()), case.get("error")) {
        (Err(e), Some(_)) if case["errtext"].as_str().is_none_or(|t| t == e.to_string()) => return String::new(),
        (Ok(regex), None) => regex,
        (other, _) => return format!("{other:?}"),
    };
    let found = regex.find_all(source, -1).unwrap();
    let found: Vec<String> = found.into_iter().map(|(s, e)| text(&source[s..e])).collect();
    let found = if found.is_empty() { Json::Null } else { found.into() };
    let replaced = text(&regex.replace_all(source, b"<$0>").unwrap());
    let split: Vec<String> = regex.split(source, -1).unwrap().into_iter().map(text).collect();
    let agrees =
        found == case["find_all"] && replaced == case["replace_all"] && serde_json::json!(split) == case["split"];
    if agrees { String::new() } else { format!("{found} {replaced} {split:?}") }
}

#[test]
fn committed_cases_match_as_in_go() {
    shared_cases::each_committed(include_str!("cases.jsonl"), difference);
}

#[test]
fn shared_cases_match_as_in_go() {
    shared_cases::each_line("vectors/regex.jsonl", difference);
}
