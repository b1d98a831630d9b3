//! Parses versions and constraints; a printed version must parse to the same. Input: a version, a newline, a constraint.
#![no_main]

use golibs::semver::{Constraint, MAX_VERSION_LENGTH, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (version, constraint) = text.split_once('\n').unwrap_or((text, text));
    let _ = Version::parse_strict(version);
    let constraint = Constraint::parse(constraint);
    let Ok(version) = Version::parse(version) else { return };
    let shown = version.to_string();
    if shown.len() > MAX_VERSION_LENGTH {
        return;
    }
    let again = Version::parse(&shown).expect("printed versions parse");
    assert_eq!(again.to_string(), shown);
    let _ = (version.inc_major(), version.inc_minor(), version.inc_patch());
    if let Ok(constraint) = constraint {
        assert_eq!(constraint.check(&version), constraint.check(&again));
    }
});
