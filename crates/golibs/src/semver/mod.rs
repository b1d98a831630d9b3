//! Semantic versions and constraints as Helm reads them: lenient versions, ranges, hyphens and wildcards.
//!
//! Does not explain why a check fails. Counterpart: `version.go` and `constraints.go` of Masterminds/semver v3.5.0.

mod constraint;
mod prerelease;
#[cfg(test)]
mod tests;
mod version;

pub use constraint::{Constraint, MAX_CONSTRAINT_GROUPS, MAX_CONSTRAINT_LENGTH};
pub use version::{MAX_VERSION_LENGTH, Version};

/// The reason why a version or constraint is invalid, in Masterminds' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not have the form of a version.
    #[error("invalid semantic version")]
    InvalidVersion,
    /// The text is empty, in strict parsing.
    #[error("version string empty")]
    Empty,
    /// A segment contains other characters than digits, in strict parsing.
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
    /// The version is longer than [`MAX_VERSION_LENGTH`].
    #[error("version string is too long (max {MAX_VERSION_LENGTH} bytes)")]
    VersionTooLong,
    /// A segment exceeds 64 bits, in lenient parsing.
    #[error("error parsing version segment: strconv.ParseUint: parsing \"{0}\": value out of range")]
    SegmentOutOfRange(String),
    /// A segment exceeds 64 bits, in strict parsing.
    #[error("strconv.ParseUint: parsing \"{0}\": value out of range")]
    OutOfRange(String),
    /// A segment is empty, in strict parsing.
    #[error("strconv.ParseUint: parsing \"\": invalid syntax")]
    EmptySegment,
    /// The constraint is longer than [`MAX_CONSTRAINT_LENGTH`].
    #[error("constraint string is too long (max {MAX_CONSTRAINT_LENGTH} bytes)")]
    ConstraintTooLong,
    /// The constraint has more than [`MAX_CONSTRAINT_GROUPS`] alternatives.
    #[error("too many constraint groups (max {MAX_CONSTRAINT_GROUPS})")]
    TooManyGroups,
    /// The text is not a constraint. Holds it, quoted as in Go.
    #[error("improper constraint: {0}")]
    ImproperConstraint(String),
    /// The constraint contains an invalid version.
    #[error("constraint parser error")]
    ConstraintVersion,
    /// An increment would exceed 64 bits; Masterminds panics.
    #[error("{0} version increment would overflow uint64")]
    Overflow(&'static str),
}
