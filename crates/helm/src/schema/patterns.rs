//! Limits the regular expressions of a schema. The validator compiles all of them, and panics on one that it cannot compile. With `"format":
//! "regex"`, values are regular expressions too.

use regex::RegexBuilder;
use regex_syntax::ast::parse::Parser;
use serde_json::Value as Json;

use golibs::regex::Regex;

/// Maximum length of a pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// Maximum memory of all compiled patterns of a schema, in bytes.
pub const MAX_PATTERNS_SIZE: usize = 64 << 20;

/// Maximum number of bytes of patterns to read: the validator rereads a pattern for each escape in it.
pub const MAX_PATTERNS_READ: usize = 20 << 20;

/// The possible sizes of a compiled pattern, tried in this order. The largest is far below the validator's own limit.
const SIZES: [usize; 4] = [8 << 10, 64 << 10, 512 << 10, 4 << 20];

/// Maximum length of a text that the validator substitutes for an escape such as `\s`, in bytes.
const LONGEST_CLASS: usize = 40;

/// The reason why the validator could not compile a regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A limit is exceeded.
    #[error("unable to validate schema: its patterns are too large, with '{start}' (limit {limit}: {most} bytes)")]
    TooLarge {
        /// The start of the pattern that exceeds the limit.
        start: String,
        /// The limit's name.
        limit: &'static str,
        /// The limit.
        most: usize,
    },
    /// The pattern is malformed. Holds the pattern and the reason.
    #[error("the schema is not valid: '{0}' is not valid regex{1}")]
    Malformed(String, String),
}

/// Checks all patterns of the schema's documents.
pub(super) fn check<'a>(documents: impl IntoIterator<Item = &'a Json>) -> Result<(), PatternError> {
    let mut total = Total { size: 0, read: 0 };
    documents.into_iter().try_for_each(|document| total.visit(document))
}

/// Returns whether the schema may require values to be patterns, through a format or a reference to a metaschema.
pub(super) fn asks_for_patterns(document: &Json) -> bool {
    match document {
        Json::Array(items) => items.iter().any(asks_for_patterns),
        Json::Object(entries) => entries.iter().any(|(keyword, value)| match (keyword.as_str(), value) {
            ("format", Json::String(format)) => format == "regex",
            ("$ref" | "$dynamicRef" | "$recursiveRef", Json::String(target)) => target.contains("json-schema.org"),
            (_, value) => asks_for_patterns(value),
        }),
        _ => false,
    }
}

/// Checks that all strings in the values are small enough to be treated as patterns.
pub(super) fn check_values(values: &Json) -> Result<(), PatternError> {
    Total { size: 0, read: 0 }.values(values)
}

/// The cost of the patterns so far.
struct Total {
    size: usize,
    read: usize,
}

impl Total {
    fn visit(&mut self, value: &Json) -> Result<(), PatternError> {
        match value {
            Json::Array(items) => items.iter().try_for_each(|item| self.visit(item)),
            Json::Object(entries) => entries.iter().try_for_each(|(keyword, value)| {
                match (keyword.as_str(), value) {
                    ("pattern", Json::String(pattern)) => self.pattern(pattern)?,
                    ("patternProperties", Json::Object(properties)) => {
                        properties.keys().try_for_each(|pattern| self.pattern(pattern))?;
                    }
                    _ => {}
                }
                self.visit(value)
            }),
            _ => Ok(()),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), PatternError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(too_large(pattern, "MAX_PATTERN_BYTES", MAX_PATTERN_BYTES));
        }
        self.read(pattern)?;
        self.size += size(pattern)?;
        if self.size > MAX_PATTERNS_SIZE {
            return Err(too_large(pattern, "MAX_PATTERNS_SIZE", MAX_PATTERNS_SIZE));
        }
        Ok(())
    }
}

impl Total {
    fn values(&mut self, value: &Json) -> Result<(), PatternError> {
        match value {
            Json::String(text) => self.read(text),
            Json::Array(items) => items.iter().try_for_each(|item| self.values(item)),
            Json::Object(entries) => entries.values().try_for_each(|entry| self.values(entry)),
            _ => Ok(()),
        }
    }

    fn read(&mut self, pattern: &str) -> Result<(), PatternError> {
        let escapes = pattern.bytes().filter(|byte| *byte == b'\\').count();
        let read = (1 + escapes).saturating_mul(pattern.len() + escapes * LONGEST_CLASS);
        self.read = self.read.saturating_add(read);
        if self.read > MAX_PATTERNS_READ {
            return Err(too_large(pattern, "MAX_PATTERNS_READ", MAX_PATTERNS_READ));
        }
        Ok(())
    }
}

/// Returns the size of the compiled pattern, rounded up. The result exceeds [`MAX_PATTERNS_SIZE`] if no size suffices.
fn size(pattern: &str) -> Result<usize, PatternError> {
    for size in SIZES {
        match RegexBuilder::new(pattern).size_limit(size).build() {
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) if passes_syntax_check(pattern) => return Err(malformed(pattern)),
            _ => return Ok(size),
        }
    }
    Ok(MAX_PATTERNS_SIZE + 1)
}

/// Returns whether the validator detects a malformed pattern only when it compiles it. Its earlier check sees only the syntax, and interprets `\c`
/// differently.
fn passes_syntax_check(pattern: &str) -> bool {
    pattern.contains("\\c") || Parser::new().parse(pattern).is_ok()
}

fn malformed(pattern: &str) -> PatternError {
    let problem = Regex::new(pattern.as_bytes()).err().map(|error| format!(": {error}")).unwrap_or_default();
    PatternError::Malformed(pattern.to_owned(), problem)
}

fn too_large(pattern: &str, limit: &'static str, most: usize) -> PatternError {
    PatternError::TooLarge { start: pattern[..pattern.floor_char_boundary(100)].to_owned(), limit, most }
}
