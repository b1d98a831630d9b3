use super::*;

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
    ] {
        assert_eq!(Glob::new(pattern).unwrap().is_match(path), expected, "{pattern} on {path}");
    }
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
fn many_stars_take_linear_time() {
    let pattern = format!("{}b", "*a".repeat(1000));
    assert!(!Glob::new(&pattern).unwrap().is_match("a".repeat(10_000)));
}

#[test]
fn shared_vectors_agree_with_gobwas() {
    crate::vectors::each("glob.jsonl", |case| {
        let ours = Glob::new(case["pattern"].as_str().unwrap()).map(|g| g.is_match(case["path"].as_str().unwrap()));
        match (&ours, case.get("error")) {
            (Ok(found), None) if case["out"] == *found => String::new(),
            (Err(_), Some(_)) => String::new(),
            _ => format!("{ours:?}"),
        }
    });
}
