//! Semantic versions and constraints on them, as Helm reads them: lenient versions, ranges, hyphens and wildcards.
//!
//! Leaves out the explanations of a failed check. Counterpart: Masterminds/semver v3.5.0, `version.go` and `constraints.go`.

mod constraint;
mod prerelease;
#[cfg(test)]
mod tests;
mod version;

pub use constraint::{Constraint, MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LENGTH};
pub use version::{MAX_VERSION_LENGTH, Version};

/// Why a version or a constraint cannot be read. The texts are Masterminds'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a version at all.
    #[error("invalid semantic version")]
    InvalidVersion,
    /// The strict reader was given nothing.
    #[error("version string empty")]
    Empty,
    /// The strict reader found something else than digits in a segment.
    #[error("invalid characters in version")]
    InvalidCharacters,
    /// A numeric segment has a leading zero.
    #[error("version segment starts with 0")]
    LeadingZero,
    /// The part after `+` is malformed.
    #[error("invalid metadata string")]
    InvalidMetadata,
    /// The part after `-` is malformed.
    #[error("invalid prerelease string")]
    InvalidPrerelease,
    /// Longer than [`MAX_VERSION_LENGTH`].
    #[error("version string is too long (max {MAX_VERSION_LENGTH} bytes)")]
    VersionTooLong,
    /// A segment does not fit 64 bits; the lenient reader's text.
    #[error("error parsing version segment: strconv.ParseUint: parsing \"{0}\": value out of range")]
    SegmentOutOfRange(String),
    /// A segment does not fit 64 bits; the strict reader's text.
    #[error("strconv.ParseUint: parsing \"{0}\": value out of range")]
    OutOfRange(String),
    /// A segment of the strict reader is empty.
    #[error("strconv.ParseUint: parsing \"\": invalid syntax")]
    EmptySegment,
    /// Longer than [`MAX_CONSTRAINT_LENGTH`].
    #[error("constraint string is too long (max {MAX_CONSTRAINT_LENGTH} bytes)")]
    ConstraintTooLong,
    /// More than [`MAX_CONSTRAINT_GROUPS`] alternatives.
    #[error("too many constraint groups (max {MAX_CONSTRAINT_GROUPS})")]
    TooManyGroups,
    /// Not a constraint; the text is quoted as Go quotes it.
    #[error("improper constraint: {0}")]
    ImproperConstraint(String),
    /// A constraint whose version cannot be read.
    #[error("constraint parser error")]
    ConstraintVersion,
    /// A number that cannot be incremented: Go panics.
    #[error("{0} version increment would overflow uint64")]
    Overflow(&'static str),
}
