//! Limits on the work of the validator, which recurses: schemas are untrusted.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

/// The size limit of a schema, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 5 << 20;

/// How deep schemas that apply to one value may be nested, through `$ref`, `allOf` and similar keywords.
pub const MAX_CHAIN: usize = 500;

/// How many schemas may apply to one value. A schema that several branches reach counts each time.
pub const MAX_STEPS: usize = 1_000_000;

/// How many names (`$id`, `$anchor`) a schema may declare: the validator compares each with each.
pub const MAX_NAMES: usize = 2_000;

/// How deep the validator may recurse. [`STACK`] has room for it.
const MAX_CALLS: usize = 40_000;

/// The stack of the validator, in bytes. Unused pages cost nothing.
const STACK: usize = 512 << 20;

/// A schema whose validation could take too long or too much memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// Schemas are nested deeper than [`MAX_CHAIN`], or more than [`MAX_STEPS`] apply to one value.
    #[error("unable to validate schema: its references are nested too deep")]
    TooDeep,
    /// The schema declares more than [`MAX_NAMES`] names.
    #[error("unable to validate schema: it has more than {MAX_NAMES} names (limit MAX_NAMES)")]
    TooManyNames,
}

/// Runs the work on a stack of size [`STACK`].
pub(super) fn on_large_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::grow(STACK, work)
}

/// Checks that values of this depth are within bounds for a schema with this chain.
pub(super) fn check(chain: usize, values: &Json) -> Result<(), BoundError> {
    match chain.saturating_mul(depth(values)) <= MAX_CALLS {
        true => Ok(()),
        false => Err(BoundError::TooDeep),
    }
}

fn depth(value: &Json) -> usize {
    let below = match value {
        Json::Array(items) => items.iter().map(depth).max(),
        Json::Object(entries) => entries.values().map(depth).max(),
        _ => None,
    };
    1 + below.unwrap_or_default()
}

/// The length of the longest chain of schemas that apply to the same value, or an upper bound if it is unknown.
pub(super) fn chain(document: &Json) -> Result<usize, BoundError> {
    let mut walk = Walk { document, anchors: HashMap::new(), names: 0, done: HashMap::new(), unclear: false };
    walk.collect_anchors(document);
    if walk.names > MAX_NAMES {
        return Err(BoundError::TooManyNames);
    }
    let mut longest = 0;
    walk.every(document, &mut longest)?;
    // No chain contains a schema twice: the validator rejects that as a cycle.
    Ok(if walk.unclear { walk.done.len() } else { longest })
}

/// The length of a chain, and how many schemas apply along all branches.
#[derive(Clone, Copy)]
struct Reach {
    chain: usize,
    steps: usize,
}

struct Walk<'a> {
    document: &'a Json,
    anchors: HashMap<&'a str, &'a Json>,
    names: usize,
    /// By address. `None` while the walk is inside the schema.
    done: HashMap<*const Json, Option<Reach>>,
    /// Whether the document contains a cycle or a reference by URL.
    unclear: bool,
}

impl<'a> Walk<'a> {
    fn collect_anchors(&mut self, value: &'a Json) {
        match value {
            Json::Array(items) => items.iter().for_each(|item| self.collect_anchors(item)),
            Json::Object(entries) => {
                for (keyword, name) in entries {
                    let Some(name) = name.as_str() else { continue };
                    self.names += usize::from(matches!(keyword.as_str(), "$anchor" | "$dynamicAnchor" | "$id" | "id"));
                    match keyword.as_str() {
                        "$anchor" | "$dynamicAnchor" => self.anchors.insert(name, value),
                        "$id" | "id" => name.strip_prefix('#').and_then(|name| self.anchors.insert(name, value)),
                        _ => None,
                    };
                }
                entries.values().for_each(|entry| self.collect_anchors(entry));
            }
            _ => {}
        }
    }

    fn every(&mut self, value: &'a Json, longest: &mut usize) -> Result<(), BoundError> {
        match value {
            Json::Array(items) => items.iter().try_for_each(|item| self.every(item, longest)),
            Json::Object(entries) => {
                *longest = (*longest).max(self.reach(value, 0)?.chain);
                entries.values().try_for_each(|entry| self.every(entry, longest))
            }
            _ => Ok(()),
        }
    }

    fn reach(&mut self, schema: &'a Json, depth: usize) -> Result<Reach, BoundError> {
        let mut total = Reach { chain: 1, steps: 1 };
        let Json::Object(entries) = schema else { return Ok(total) };
        match self.done.get(&std::ptr::from_ref(schema)) {
            Some(Some(reach)) => return Ok(*reach),
            Some(None) => {
                self.unclear = true;
                return Ok(total);
            }
            None => {}
        }
        let applied = self.applied(entries);
        if applied.is_empty() {
            return Ok(total);
        }
        if depth >= MAX_CHAIN {
            return Err(BoundError::TooDeep);
        }
        self.done.insert(schema, None);
        for inner in applied {
            let below = self.reach(inner, depth + 1)?;
            total.chain = total.chain.max(below.chain + 1);
            total.steps = total.steps.saturating_add(below.steps);
        }
        if total.steps > MAX_STEPS {
            return Err(BoundError::TooDeep);
        }
        self.done.insert(schema, Some(total));
        Ok(total)
    }

    /// The subschemas that apply to the same value.
    fn applied(&mut self, entries: &'a Map<String, Json>) -> Vec<&'a Json> {
        let mut schemas = Vec::new();
        for (keyword, value) in entries {
            match (keyword.as_str(), value) {
                ("not" | "if" | "then" | "else", schema) => schemas.push(schema),
                ("allOf" | "anyOf" | "oneOf", Json::Array(items)) => schemas.extend(items),
                ("dependencies" | "dependentSchemas", Json::Object(entries)) => schemas.extend(entries.values()),
                ("$ref" | "$dynamicRef" | "$recursiveRef", Json::String(reference)) => {
                    schemas.extend(self.target(reference));
                }
                _ => {}
            }
        }
        schemas
    }

    /// The target of a reference inside the document, by pointer or anchor.
    fn target(&mut self, reference: &str) -> Option<&'a Json> {
        let Some(fragment) = reference.strip_prefix('#') else {
            self.unclear = true;
            return None;
        };
        let fragment = percent_decoded(fragment);
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.document.pointer(&fragment);
        }
        self.anchors.get(fragment.as_str()).copied()
    }
}

pub(super) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
