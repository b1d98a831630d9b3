//! The part of a version after `-`: which ones are valid and which comes first.

use std::cmp::Ordering;

use super::Error;

/// Fails unless the identifiers are what semver allows in a prerelease.
pub(super) fn validate(prerelease: &str) -> Result<(), Error> {
    for part in prerelease.split('.') {
        if part.is_empty() || !part.bytes().all(is_identifier) {
            return Err(Error::InvalidPrerelease);
        }
        if part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Error::LeadingZero);
        }
    }
    Ok(())
}

/// Fails unless the identifiers are what semver allows in metadata.
pub(super) fn validate_metadata(metadata: &str) -> Result<(), Error> {
    let valid = metadata.split('.').all(|part| !part.is_empty() && part.bytes().all(is_identifier));
    if valid { Ok(()) } else { Err(Error::InvalidMetadata) }
}

/// Which of two prereleases comes first. No prerelease at all comes before any here; versions treat that case themselves.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    loop {
        let (l, r) = (left.next(), right.next());
        if l.is_none() && r.is_none() {
            return Ordering::Equal;
        }
        let order = compare_part(l.unwrap_or(""), r.unwrap_or(""));
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Numbers come before words, and are compared as numbers as long as they fit 64 bits.
fn compare_part(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    if a.is_empty() || b.is_empty() {
        return a.len().cmp(&b.len());
    }
    match (number(a), number(b)) {
        (None, None) => a.cmp(b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        // Masterminds calls the left one smaller when two texts are the same number.
        (Some(x), Some(y)) => x.cmp(&y).then(Ordering::Less),
    }
}

/// The number as Go's `ParseUint` reads it, which takes no sign.
fn number(part: &str) -> Option<u64> {
    part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten()
}

fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}
