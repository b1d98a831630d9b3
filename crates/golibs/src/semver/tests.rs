use serde_json::Value as Json;

use super::*;

fn check(constraint: &str, version: &str) -> Result<bool, Error> {
    Ok(Constraint::parse(constraint)?.check(&Version::parse(version)?))
}

#[test]
fn constraints_allow_what_masterminds_allows() {
    for (constraint, version, expected) in [
        (">=1.19-0", "v1.36.0", true),
        ("1.2", "1.2.9", true),
        ("1.2.3", "1.2.4", false),
        ("^1.2.3", "1.9.0", true),
        ("^0.2.3", "0.3.0", false),
        ("^0.0.3", "0.0.4", false),
        ("~1.2.3", "1.2.9", true),
        ("~1", "1.9.9", true),
        ("*", "7.1.2", true),
        ("~0.0.0", "5.0.0", true),
        ("1.2 - 1.4.5", "1.4.5", true),
        ("1.2 - 1.4.5", "1.4.6", false),
        (">1.2", "1.2.9", false),
        ("<=1.x", "1.9.9", true),
        ("!=1.2.x", "1.2.5", false),
        ("!=1.2.x", "1.3.5", true),
        (">=1.0.0-0 <2.0.0", "1.5.0-beta", true),
        (">=1.0.0 || >=9-0", "1.5.0-beta", false),
        ("^0", "0.9.0", true),
        ("^*", "3.0.0", false),
    ] {
        assert_eq!(check(constraint, version), Ok(expected), "{constraint} on {version}");
    }
}

#[test]
fn errors_quote_the_invalid_constraint() {
    for (constraint, message) in [
        ("", "improper constraint: \"\""),
        ("==1.2.3", "improper constraint: \"==1.2.3\""),
        ("1.2,,1.3", "improper constraint: \"1.2,,1.3\""),
        (">=1.2 - 1.4", "improper constraint: \">=>= 1.2, <= 1.4 \""),
        ("1|2", "constraint parser error"),
        ("1.2.99999999999999999999", "constraint parser error"),
    ] {
        assert_eq!(Constraint::parse(constraint).unwrap_err().to_string(), message, "{constraint}");
    }
}

#[test]
fn lengths_are_limited() {
    let long = |n: usize| format!("1.2.3+{}", "a".repeat(n - 6));
    assert!(Version::parse(&long(MAX_VERSION_LENGTH)).is_ok());
    assert_eq!(Version::parse(&long(MAX_VERSION_LENGTH + 1)), Err(Error::VersionTooLong));
    assert_eq!(Constraint::parse(&" ".repeat(MAX_CONSTRAINT_LENGTH + 1)).unwrap_err(), Error::ConstraintTooLong);
    assert!(Constraint::parse(&vec!["1"; MAX_CONSTRAINT_GROUPS].join("||")).is_ok());
    assert_eq!(Constraint::parse(&vec!["1"; MAX_CONSTRAINT_GROUPS + 1].join("||")).unwrap_err(), Error::TooManyGroups);
}

#[test]
fn versions_print_in_canonical_form_and_keep_their_text() {
    for (text, expected) in
        [("1", "1.0.0"), ("v1.2", "1.2.0"), ("01.2.3", "1.2.3"), ("1.2.3-rc.1+b.5", "1.2.3-rc.1+b.5")]
    {
        let version = Version::parse(text).unwrap();
        assert_eq!((version.to_string().as_str(), version.original()), (expected, text));
    }
}

#[test]
fn strict_parsing_requires_three_plain_numbers() {
    for (text, error) in [
        ("", Error::Empty),
        ("1.2", Error::InvalidVersion),
        ("v1.2.3", Error::InvalidCharacters),
        ("01.2.3", Error::LeadingZero),
        ("1..3", Error::EmptySegment),
        ("1.2.3-", Error::InvalidPrerelease),
        ("1.2.3+", Error::InvalidMetadata),
    ] {
        assert_eq!(Version::parse_strict(text).unwrap_err(), error, "{text}");
    }
}

#[test]
fn prereleases_order_numbers_before_words() {
    let order = ["1.0.0-1", "1.0.0-9", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0"];
    for pair in order.windows(2) {
        assert!(Version::parse(pair[0]).unwrap() < Version::parse(pair[1]).unwrap(), "{pair:?}");
    }
}

#[test]
fn increments_reset_lower_segments_and_keep_the_v() {
    let version = Version::parse("v1.2.3-rc.1+b").unwrap();
    assert_eq!(version.inc_patch().unwrap().original(), "v1.2.3");
    assert_eq!(version.inc_minor().unwrap().original(), "v1.3.0");
    assert_eq!(version.inc_major().unwrap().original(), "v2.0.0");
    let last = Version::parse("18446744073709551615.0.0").unwrap();
    assert_eq!(last.inc_major().unwrap_err().to_string(), "major version increment would overflow uint64");
}

/// Compares with Masterminds' recorded answer; describes the difference, if there is one.
fn difference(case: &Json) -> String {
    let text = |key: &str| case[key].as_str().unwrap_or_default();
    let ours = check(text("constraint"), text("version"));
    let matches = match &ours {
        Ok(allowed) => text("out") == if *allowed { "true" } else { "false" },
        Err(error) => text("error").ends_with(&format!("error calling semverCompare: {error}")),
    };
    if matches { String::new() } else { format!("{ours:?}") }
}

#[test]
fn committed_cases_are_checked_as_in_masterminds() {
    shared_cases::each_committed(include_str!("cases.jsonl"), difference);
}

#[test]
fn shared_cases_are_checked_as_in_masterminds() {
    shared_cases::each_line("vectors/semver.jsonl", difference);
}
