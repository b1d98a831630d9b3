//! Parses, prints, orders and increments versions.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::{Error, prerelease};

/// Maximum length of a version, in bytes: Masterminds' `MaxVersionLen`.
pub const MAX_VERSION_LENGTH: usize = 256;

/// A semantic version. Displays in canonical form (`v1.2` as `1.2.0`); comparisons ignore metadata.
#[derive(Clone, Debug, Default)]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    prerelease: String,
    metadata: String,
    original: String,
}

impl Version {
    /// Parses a version leniently, as Helm does almost everywhere: accepts a leading `v`, missing segments and leading zeros. Counterpart:
    /// `NewVersion`.
    ///
    /// # Errors
    /// The text does not have the lenient form, or is longer than [`MAX_VERSION_LENGTH`].
    pub fn parse(text: &str) -> Result<Version, Error> {
        if text.len() > MAX_VERSION_LENGTH {
            return Err(Error::VersionTooLong);
        }
        let (core, prerelease, metadata) = split_lenient(text).ok_or(Error::InvalidVersion)?;
        let mut segments = [0; 3];
        for (segment, digits) in segments.iter_mut().zip(core.split('.')) {
            *segment = digits.parse().map_err(|_| Error::SegmentOutOfRange(digits.to_owned()))?;
        }
        if !prerelease.is_empty() {
            prerelease::validate(prerelease)?;
        }
        Ok(Version::from_parts(segments, prerelease, metadata, text))
    }

    /// Parses a complete version exactly as SemVer specifies it. Counterpart: `StrictNewVersion`.
    pub fn parse_strict(text: &str) -> Result<Version, Error> {
        if text.is_empty() {
            return Err(Error::Empty);
        }
        if text.len() > MAX_VERSION_LENGTH {
            return Err(Error::VersionTooLong);
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else { return Err(Error::InvalidVersion) };
        let (rest, metadata) = rest.split_once('+').map_or((rest, None), |(r, m)| (r, Some(m)));
        metadata.map_or(Ok(()), prerelease::validate_metadata)?;
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(r, p)| (r, Some(p)));
        pre.map_or(Ok(()), prerelease::validate)?;
        let numbers = [major, minor, patch];
        numbers.iter().try_for_each(|n| check_strict_segment(n))?;
        let mut segments = [0; 3];
        for (segment, digits) in segments.iter_mut().zip(numbers) {
            *segment = parse_strict_segment(digits)?;
        }
        Ok(Version::from_parts(segments, pre.unwrap_or(""), metadata.unwrap_or(""), text))
    }

    fn from_parts([major, minor, patch]: [u64; 3], prerelease: &str, metadata: &str, original: &str) -> Version {
        Version {
            major,
            minor,
            patch,
            prerelease: prerelease.to_owned(),
            metadata: metadata.to_owned(),
            original: original.to_owned(),
        }
    }

    /// Returns the major version.
    pub fn major(&self) -> u64 {
        self.major
    }

    /// Returns the minor version.
    pub fn minor(&self) -> u64 {
        self.minor
    }

    /// Returns the patch version.
    pub fn patch(&self) -> u64 {
        self.patch
    }

    /// Returns the prerelease, the part after `-`, which may be empty.
    pub fn prerelease(&self) -> &str {
        &self.prerelease
    }

    /// Returns the metadata, the part after `+`, which may be empty.
    pub fn metadata(&self) -> &str {
        &self.metadata
    }

    /// Returns the text that the version was parsed from.
    pub fn original(&self) -> &str {
        &self.original
    }

    /// Returns the next major version.
    pub fn inc_major(&self) -> Result<Version, Error> {
        let major = self.major.checked_add(1).ok_or(Error::Overflow("major"))?;
        Ok(self.successor([major, 0, 0]))
    }

    /// Returns the next minor version.
    pub fn inc_minor(&self) -> Result<Version, Error> {
        let minor = self.minor.checked_add(1).ok_or(Error::Overflow("minor"))?;
        Ok(self.successor([self.major, minor, 0]))
    }

    /// Returns the next patch version, or for a prerelease the version that it precedes.
    pub fn inc_patch(&self) -> Result<Version, Error> {
        let step = u64::from(self.prerelease.is_empty());
        let patch = self.patch.checked_add(step).ok_or(Error::Overflow("patch"))?;
        Ok(self.successor([self.major, self.minor, patch]))
    }

    /// Returns this version with another prerelease; an empty one removes it.
    pub fn with_prerelease(&self, prerelease: &str) -> Result<Version, Error> {
        if !prerelease.is_empty() {
            prerelease::validate(prerelease)?;
        }
        Ok(self.renamed(Version { prerelease: prerelease.to_owned(), ..self.clone() }))
    }

    /// Returns this version with this metadata instead of its own; an empty text removes it.
    pub fn with_metadata(&self, metadata: &str) -> Result<Version, Error> {
        if !metadata.is_empty() {
            prerelease::validate_metadata(metadata)?;
        }
        Ok(self.renamed(Version { metadata: metadata.to_owned(), ..self.clone() }))
    }

    fn successor(&self, segments: [u64; 3]) -> Version {
        self.renamed(Version::from_parts(segments, "", "", ""))
    }

    /// Sets the original text of `next` to its canonical form, with a leading `v` if this version has one.
    fn renamed(&self, next: Version) -> Version {
        let prefix = if self.original.starts_with('v') { "v" } else { "" };
        Version { original: format!("{prefix}{next}"), ..next }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl FromStr for Version {
    type Err = Error;
    fn from_str(text: &str) -> Result<Version, Error> {
        Version::parse(text)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let numbers = |v: &Version| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => prerelease::compare(&self.prerelease, &other.prerelease),
            }
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

/// Splits text in the lenient form into its numbers, prerelease and metadata.
fn split_lenient(text: &str) -> Option<(&str, &str, &str)> {
    let rest = text.strip_prefix('v').unwrap_or(text);
    let (rest, metadata) = rest.split_once('+').map_or((rest, None), |(r, m)| (r, Some(m)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(r, p)| (r, Some(p)));
    let is_core = core.split('.').count() <= 3 && core.split('.').all(is_number);
    let are_identifiers = |s: &str| prerelease::validate_metadata(s).is_ok();
    (is_core && pre.is_none_or(are_identifiers) && metadata.is_none_or(are_identifiers))
        .then(|| (core, pre.unwrap_or(""), metadata.unwrap_or("")))
}

fn is_number(segment: &str) -> bool {
    !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit())
}

fn check_strict_segment(segment: &str) -> Result<(), Error> {
    if !segment.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Error::InvalidCharacters);
    }
    if segment.len() > 1 && segment.starts_with('0') {
        return Err(Error::LeadingZero);
    }
    Ok(())
}

fn parse_strict_segment(digits: &str) -> Result<u64, Error> {
    if digits.is_empty() {
        return Err(Error::EmptySegment);
    }
    digits.parse().map_err(|_| Error::OutOfRange(digits.to_owned()))
}
