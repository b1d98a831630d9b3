//! Limits on the work of the validator, which recurses and keeps every error: schemas are untrusted.
//!
//! The validator itself has no limits, so [`outline`](super::outline) and [`cost`](super::cost) estimate its work beforehand
//! (docs/decisions/0034-schema-cost.md).

/// Maximum size of a schema, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 5 << 20;

/// Maximum number of values in a schema, counting strings, numbers and the lists of keywords: each may become an error.
pub const MAX_SCHEMA_NODES: usize = 500_000;

/// Maximum number of subschemas in a schema: the validator compares each with each.
pub const MAX_SUBSCHEMAS: usize = 30_000;

/// Maximum number of names (`$id`, `$anchor`) in a schema: the validator compares each with each.
pub const MAX_NAMES: usize = 2_000;

/// Maximum number of steps of a validation. A step applies a subschema to a value. It costs about 100 ns, and 200 bytes if it fails.
pub const MAX_STEPS: u64 = 1_000_000;

/// Maximum recursion depth of the validator, through values, `$ref`, `allOf` and similar keywords.
pub const MAX_NESTING: usize = 10_000;

/// Stack size that the validator needs per level of recursion in a build without optimisation, in bytes.
const STACK_PER_LEVEL: usize = 12 << 10;

/// Stack size that it needs in addition, in bytes.
const LEAST_STACK: usize = 2 << 20;

/// The reason why validating a schema could take too much time or memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// Values and references nest deeper than [`MAX_NESTING`].
    #[error("unable to validate schema: its references are nested too deep (limit MAX_NESTING: {MAX_NESTING} levels)")]
    TooDeep,
    /// Validation would take more than [`MAX_STEPS`].
    #[error(
        "unable to validate schema: it takes too many steps (limit MAX_STEPS: {MAX_STEPS}); refer to definitions less often, or make lists \
         of allowed values shorter"
    )]
    TooManySteps,
    /// The schema declares more than [`MAX_NAMES`] names.
    #[error("unable to validate schema: it has more than {MAX_NAMES} names (limit MAX_NAMES)")]
    TooManyNames,
    /// The schema contains more than [`MAX_SUBSCHEMAS`].
    #[error("unable to validate schema: it has more than {MAX_SUBSCHEMAS} subschemas (limit MAX_SUBSCHEMAS)")]
    TooManySubschemas,
    /// The schema contains more than [`MAX_SCHEMA_NODES`] values.
    #[error("unable to validate schema: it has more than {MAX_SCHEMA_NODES} values (limit MAX_SCHEMA_NODES)")]
    TooLarge,
    /// The schema extends a metaschema through a dynamic anchor, which makes its cost unknown.
    #[error("unable to validate schema: it extends a metaschema")]
    Metaschema,
}

/// Runs a closure on a stack with room for this many levels of the validator's recursion.
pub(super) fn with_stack<T>(levels: usize, work: impl FnOnce() -> T) -> T {
    stacker::grow(LEAST_STACK + levels * STACK_PER_LEVEL, work)
}
