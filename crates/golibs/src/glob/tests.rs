use serde_json::Value as Json;

use super::*;

fn is_match(pattern: &str, path: &str) -> Result<bool, Error> {
    Glob::new(pattern)?.is_match(path, &mut Work::default())
}

#[test]
fn patterns_match_whole_paths() {
    for (pattern, path, expected) in [
        ("conf/*", "conf/a.txt", true),
        ("conf/*", "conf/b/a.txt", false),
        ("conf/**", "conf/b/a.txt", true),
        ("**.txt", "a/b.txt", true),
        ("**/*.txt", "a.txt", false),
        ("{a,b}.txt", "b.txt", true),
        ("{a", "a", true),
        ("[!a]", "/", true),
        ("[a-c]x", "bx", true),
        ("\\*", "*", true),
        ("?", "/", false),
        ("a}b,c", "a}b,c", true),
        ("?.txt", "é.txt", false),
        ("a?", "aé", true),
        ("*.{yml,yaml}", "x.yaml", true),
        // Beside text, alternatives count as long as the last one.
        ("files/{a*,b}", "files/b", true),
        ("files/{a*,b}", "files/a", true),
        ("files/{a*,b}", "files/ab", false),
        ("files/{b,a*}", "files/ab", true),
        ("*/{a*,b}", "x/ab", false),
        ("**{a*,b}**", "xab", true),
        ("{dev-*,prod}.yaml", "dev-eu.yaml", false),
        ("{a*,b*}/c", "ab/c", true),
        ("{a*b,c}*", "ab", false),
        // A row of such lists rejects text that contains their characters in this order.
        ("[!ab][!ab]", "ba", true),
        ("[!ab][!ab]", "ab", false),
        ("[!ab][!ab]", "aa", true),
        ("*?", "", false),
    ] {
        assert_eq!(is_match(pattern, path), Ok(expected), "{pattern} on {path}");
    }
}

#[test]
fn panics_of_gobwas_become_gos_error() {
    let error = is_match("a{}", "a").unwrap_err();
    assert_eq!(error.to_string(), "runtime error: slice bounds out of range [:2] with length 1");
}

#[test]
fn malformed_patterns_are_errors() {
    for (pattern, message) in [
        ("[", "unexpected end of input"),
        ("[ab", "unexpected end of input"),
        ("[b-a]", "hi character 'a' should be greater than lo 'b'"),
        ("[a-bc]", "expected close range character"),
        ("[]", "could not parse range"),
    ] {
        assert_eq!(Glob::new(pattern).unwrap_err().to_string(), message, "{pattern}");
    }
}

#[test]
fn length_and_nesting_are_limited() {
    assert!(Glob::new(&"a".repeat(MAX_PATTERN_LENGTH)).is_ok());
    assert_eq!(Glob::new(&"a".repeat(MAX_PATTERN_LENGTH + 1)).unwrap_err(), Error::TooLarge);
    assert!(Glob::new(&"{".repeat(parse::MAX_DEPTH)).is_ok());
    assert_eq!(Glob::new(&"{".repeat(parse::MAX_DEPTH + 1)).unwrap_err(), Error::TooDeep);
}

#[test]
fn many_stars_end_at_a_limit() {
    let pattern = format!("{}b", "*a".repeat(2000));
    assert_eq!(is_match(&pattern, &"a".repeat(10_000)), Ok(false));
    assert_eq!(is_match(&format!("{pattern}*"), &"a".repeat(10_000)), Ok(false));
    assert_eq!(is_match(&"?".repeat(MAX_PATTERN_LENGTH), &"a".repeat(MAX_PATTERN_LENGTH)), Ok(true));
    assert_eq!(is_match(&"{a*,b}x*".repeat(500), &"a".repeat(10_000)), Ok(false));
    assert_eq!(is_match("x*a*a*a*a*a*a", &"a".repeat(200)), Err(Error::TooMuchWork));
}

/// Compares with gobwas' recorded answer; describes the difference, if there is one.
fn difference(case: &Json) -> String {
    let ours = is_match(case["pattern"].as_str().unwrap(), case["path"].as_str().unwrap());
    match (&ours, case.get("error")) {
        (Ok(found), None) if case["out"] == *found => String::new(),
        (Err(_), Some(_)) => String::new(),
        _ => format!("{ours:?}"),
    }
}

#[test]
fn committed_cases_match_as_in_gobwas() {
    shared_cases::each_committed(include_str!("cases.jsonl"), difference);
}

#[test]
fn shared_cases_match_as_in_gobwas() {
    shared_cases::each_line("vectors/glob.jsonl", difference);
}
