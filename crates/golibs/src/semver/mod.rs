//! Semantic versions and constraints as Helm reads them: lenient versions, ranges, hyphens and wildcards.
//!
//! Leaves out explanations of failed checks. Counterpart: Masterminds/semver v3.5.0, `version.go` and `constraints.go`.

mod constraint;
mod prerelease;
#[cfg(test)]
mod tests;
mod version;

pub use constraint::{Constraint, MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LENGTH};
pub use version::{MAX_VERSION_LENGTH, Version};

/// Why a version or constraint is invalid, in Masterminds' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a version at all.
    #[error("invalid semantic version")]
    InvalidVersion,
    /// Strict parsing of empty text.
    #[error("version string empty")]
    Empty,
    /// Strict parsing of a segment that is not all digits.
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
    /// A segment beyond 64 bits, in lenient parsing.
    #[error("error parsing version segment: strconv.ParseUint: parsing \"{0}\": value out of range")]
    SegmentOutOfRange(String),
    /// A segment beyond 64 bits, in strict parsing.
    #[error("strconv.ParseUint: parsing \"{0}\": value out of range")]
    OutOfRange(String),
    /// Strict parsing of an empty segment.
    #[error("strconv.ParseUint: parsing \"\": invalid syntax")]
    EmptySegment,
    /// Longer than [`MAX_CONSTRAINT_LENGTH`].
    #[error("constraint string is too long (max {MAX_CONSTRAINT_LENGTH} bytes)")]
    ConstraintTooLong,
    /// More than [`MAX_CONSTRAINT_GROUPS`] alternatives.
    #[error("too many constraint groups (max {MAX_CONSTRAINT_GROUPS})")]
    TooManyGroups,
    /// Not a constraint. Holds the text, quoted as in Go.
    #[error("improper constraint: {0}")]
    ImproperConstraint(String),
    /// A constraint with an invalid version.
    #[error("constraint parser error")]
    ConstraintVersion,
    /// An increment beyond 64 bits, on which Go panics.
    #[error("{0} version increment would overflow uint64")]
    Overflow(&'static str),
}
