//! Validates and orders prereleases.

use std::cmp::Ordering;

use super::Error;

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

pub(super) fn validate_metadata(metadata: &str) -> Result<(), Error> {
    let valid = metadata.split('.').all(|part| !part.is_empty() && part.bytes().all(is_identifier));
    if valid { Ok(()) } else { Err(Error::InvalidMetadata) }
}

/// Compares two prereleases. An empty one sorts first here; the comparison of versions handles that case.
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

/// Compares two identifiers. Numbers sort before words and are compared as numbers, up to 64 bits.
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
        // Like Masterminds, sorts the left one first if two different texts are the same number.
        (Some(x), Some(y)) => x.cmp(&y).then(Ordering::Less),
    }
}

/// Parses an unsigned number. Counterpart: `strconv.ParseUint`.
fn number(part: &str) -> Option<u64> {
    part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten()
}

fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}
