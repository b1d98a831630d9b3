//! Limits on the work of the validator, which recurses and keeps every error: schemas are untrusted.
//!
//! The validator itself has no limits, so that [`outline`](super::outline) and [`cost`](super::cost) count its work beforehand
//! (docs/decisions/0034-schema-cost.md).

/// The size limit of a schema, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 5 << 20;

/// How many values a schema may consist of, counting strings, numbers and keywords' lists: each may become an error.
pub const MAX_SCHEMA_NODES: usize = 500_000;

/// How many subschemas a schema may use: the validator compares each with each.
pub const MAX_SUBSCHEMAS: usize = 30_000;

/// How many names (`$id`, `$anchor`) a schema may declare: the validator compares each with each.
pub const MAX_NAMES: usize = 2_000;

/// How many steps a validation may take. A step applies one subschema to one value, and costs about 100 ns and 200 bytes if it fails.
pub const MAX_STEPS: u64 = 1_000_000;

/// How deep the validator may recurse, through values, `$ref`, `allOf` and similar keywords.
pub const MAX_NESTING: usize = 10_000;

/// The stack that the validator needs per level of recursion, in bytes, in a build without optimisation.
const STACK_PER_LEVEL: usize = 12 << 10;

/// The stack that it needs besides.
const LEAST_STACK: usize = 2 << 20;

/// A schema whose validation could take too long or too much memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// Values and references nest deeper than [`MAX_NESTING`].
    #[error("unable to validate schema: its references are nested too deep (limit MAX_NESTING: {MAX_NESTING} levels)")]
    TooDeep,
    /// Validation takes more than [`MAX_STEPS`].
    #[error(
        "unable to validate schema: it takes too many steps (limit MAX_STEPS: {MAX_STEPS}); refer to definitions less often, or make lists \
         of allowed values shorter"
    )]
    TooManySteps,
    /// The schema declares more than [`MAX_NAMES`] names.
    #[error("unable to validate schema: it has more than {MAX_NAMES} names (limit MAX_NAMES)")]
    TooManyNames,
    /// The schema uses more than [`MAX_SUBSCHEMAS`].
    #[error("unable to validate schema: it has more than {MAX_SUBSCHEMAS} subschemas (limit MAX_SUBSCHEMAS)")]
    TooManySubschemas,
    /// The schema has more than [`MAX_SCHEMA_NODES`] values.
    #[error("unable to validate schema: it has more than {MAX_SCHEMA_NODES} values (limit MAX_SCHEMA_NODES)")]
    TooLarge,
    /// The schema extends a metaschema through a dynamic anchor, so that its cost is unknown.
    #[error("unable to validate schema: it extends a metaschema")]
    Metaschema,
}

/// Runs the work on a stack for this many levels of the validator's recursion.
pub(super) fn with_stack<T>(levels: usize, work: impl FnOnce() -> T) -> T {
    stacker::grow(LEAST_STACK + levels * STACK_PER_LEVEL, work)
}
