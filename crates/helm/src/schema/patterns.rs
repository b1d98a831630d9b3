//! How much the patterns of a schema may ask for: the validator compiles them all, and takes one that it cannot compile for a fault of its own.
//! Values may have to be patterns too, through `"format": "regex"`.

use regex::RegexBuilder;
use regex_syntax::ast::parse::Parser;
use serde_json::Value as Json;

use golibs::regex::Regex;

/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// How much memory all patterns of a schema may take once they are compiled, in bytes.
pub const MAX_PATTERNS_SIZE: usize = 64 << 20;

/// How many bytes of patterns may be read: the validator reads a pattern again for each escape in it.
pub const MAX_PATTERNS_READ: usize = 20 << 20;

/// What a pattern may take, tried in turn: the first that suffices counts. The last is below what the validator takes, by far.
const SIZES: [usize; 4] = [8 << 10, 64 << 10, 512 << 10, 4 << 20];

/// What the validator puts in place of an escape such as `\s`, at most, in bytes.
const LONGEST_CLASS: usize = 40;

/// Fails if a pattern of the schema is too large, or all together are.
pub(super) fn check(document: &Json) -> Result<(), String> {
    Total { size: 0, read: 0 }.visit(document)
}

/// Whether the schema may want a value to be a pattern, by a format, or by what the drafts say of schemas.
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

/// Fails if texts among the values are too large to be read as patterns.
pub(super) fn check_values(values: &Json) -> Result<(), String> {
    Total { size: 0, read: 0 }.values(values)
}

/// What the patterns so far take.
struct Total {
    size: usize,
    read: usize,
}

impl Total {
    fn visit(&mut self, value: &Json) -> Result<(), String> {
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

    fn pattern(&mut self, pattern: &str) -> Result<(), String> {
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
    fn values(&mut self, value: &Json) -> Result<(), String> {
        match value {
            Json::String(text) => self.read(text).map_err(|error| format!("{error}\n")),
            Json::Array(items) => items.iter().try_for_each(|item| self.values(item)),
            Json::Object(entries) => entries.values().try_for_each(|entry| self.values(entry)),
            _ => Ok(()),
        }
    }

    fn read(&mut self, pattern: &str) -> Result<(), String> {
        let escapes = pattern.bytes().filter(|byte| *byte == b'\\').count();
        let read = (1 + escapes).saturating_mul(pattern.len() + escapes * LONGEST_CLASS);
        self.read = self.read.saturating_add(read);
        if self.read > MAX_PATTERNS_READ {
            return Err(too_large(pattern, "MAX_PATTERNS_READ", MAX_PATTERNS_READ));
        }
        Ok(())
    }
}

/// More than there may be, for a pattern that no size suffices for.
fn size(pattern: &str) -> Result<usize, String> {
    for size in SIZES {
        match RegexBuilder::new(pattern).size_limit(size).build() {
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) if passes_for_a_pattern(pattern) => return Err(no_pattern(pattern)),
            _ => return Ok(size),
        }
    }
    Ok(MAX_PATTERNS_SIZE + 1)
}

/// Whether the validator notices only when it compiles the pattern that it is none: it reads the syntax alone before, and `\c` in its own way.
fn passes_for_a_pattern(pattern: &str) -> bool {
    pattern.contains("\\c") || Parser::new().parse(pattern).is_ok()
}

fn no_pattern(pattern: &str) -> String {
    let problem = Regex::new(pattern.as_bytes()).err().map(|error| format!(": {error}")).unwrap_or_default();
    format!("the schema is not valid: '{pattern}' is not valid regex{problem}")
}

fn too_large(pattern: &str, limit: &str, most: usize) -> String {
    let start = &pattern[..pattern.floor_char_boundary(100)];
    format!("unable to validate schema: its patterns are too large, with '{start}' (limit {limit}: {most} bytes)")
}
