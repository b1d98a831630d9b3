//! Compiles a schema and validates values against it.

use std::error::Error;
use std::fmt;

use boon::{CompileError, Compiler, Schemas, UrlLoader};
use go_template::{Map, Value};
use serde_json::Value as Json;

use super::bounds::BoundError;
use super::outline::Outline;
use super::patterns::PatternError;
use super::tree::Show;
use super::{bounds, cost, patterns, text, tree};
use go_encoding::json;

/// The name that Helm gives to a chart's schema.
const URL: &str = "file:///values.schema.json";

/// How deep the compiler may recurse: the decoder refuses schemas that nest deeper than 128, and a metaschema has several levels for each.
const COMPILE_LEVELS: usize = 2_000;

/// A compiled schema. Many threads can use it at once.
pub struct Schema {
    document: Json,
    schemas: Schemas,
    root: boon::SchemaIndex,
    /// What decides how much work a validation is.
    outline: Outline,
    /// Whether the schema may require values to be regular expressions.
    asks_for_patterns: bool,
}

/// A `values.schema.json` that cannot be compiled. The texts are those of Helm's validator, except for limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchema {
    /// It is larger than [`MAX_SCHEMA_BYTES`](bounds::MAX_SCHEMA_BYTES).
    #[error("schema is larger than {} bytes (limit MAX_SCHEMA_BYTES)", bounds::MAX_SCHEMA_BYTES)]
    TooLarge,
    /// It is not valid JSON. Holds the decoder's text.
    #[error("{0}")]
    Json(String),
    /// Its references exceed a limit.
    #[error(transparent)]
    Bound(#[from] BoundError),
    /// One of its patterns is malformed or too large.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// It is not a valid schema, or a reference has no target. Holds the validator's text.
    #[error("{0}")]
    Schema(String),
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("schemas", &self.schemas.size()).finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles a `values.schema.json` of any draft from 4 to 2020-12, the default.
    ///
    /// # Errors
    /// The text is not JSON or not a schema, a reference leaves the document or has no target, or a limit is exceeded.
    pub fn compile(text: &[u8]) -> Result<Schema, InvalidSchema> {
        if text.len() > bounds::MAX_SCHEMA_BYTES {
            return Err(InvalidSchema::TooLarge);
        }
        let document: Json = serde_json::from_slice(text).map_err(|e| InvalidSchema::Json(json_problem(text, &e)))?;
        let outline = Outline::of(&document)?;
        patterns::check(&document)?;
        bounds::with_stack(COMPILE_LEVELS, || {
            let mut schemas = Schemas::new();
            let mut compiler = Compiler::new();
            compiler.use_loader(Box::new(Closed));
            compiler
                .add_resource(URL, document.clone())
                .map_err(|error| InvalidSchema::Schema(schema_problem(&error)))?;
            let root =
                compiler.compile(URL, &mut schemas).map_err(|error| InvalidSchema::Schema(schema_problem(&error)))?;
            let asks_for_patterns = patterns::asks_for_patterns(&document);
            Ok(Schema { document, schemas, root, outline, asks_for_patterns })
        })
    }

    /// Validates the values.
    ///
    /// # Errors
    /// The violations, one per line: `- at '/a': got number, want string`.
    pub fn validate(&self, values: &Map) -> Result<(), Violations> {
        let values = json::to_serde(&Value::Map(values.clone()));
        let nesting = cost::nesting(&self.outline, &values).map_err(|error| Violations::from(format!("{error}\n")))?;
        if self.asks_for_patterns {
            patterns::check_values(&values).map_err(|error| Violations {
                text: format!("{error}\n"),
                without_values: "unable to validate schema: a value is too large a pattern\n".to_owned(),
            })?;
        }
        bounds::with_stack(nesting, || match self.schemas.validate(&values, self.root) {
            Ok(()) => Ok(()),
            Err(error) => {
                let text = |show| {
                    tree::lines(&error, &self.document, show).iter().map(|line| format!("{line}\n")).collect::<String>()
                };
                Err(Violations { text: text(Show::Values), without_values: text(Show::Rules) })
            }
        })
    }
}

/// How values violate a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations {
    /// The text of Helm's validator, which quotes values.
    pub text: String,
    /// The same without values, which may be secret.
    pub without_values: String,
}

impl From<String> for Violations {
    fn from(text: String) -> Violations {
        Violations { without_values: text.clone(), text }
    }
}

/// A loader that refuses to load.
struct Closed;

impl UrlLoader for Closed {
    fn load(&self, url: &str) -> Result<Json, Box<dyn Error>> {
        if url.starts_with("urn:") {
            return Ok(Json::Bool(true));
        }
        Err("schemas outside of values.schema.json are not read".into())
    }
}

fn json_problem(text: &[u8], error: &serde_json::Error) -> String {
    if text.trim_ascii().is_empty() {
        return "EOF".to_owned();
    }
    match json::decode(text) {
        Err(json::DecodeError::End) => "unexpected EOF".to_owned(),
        Err(error) if error.to_string().ends_with("after top-level value") => {
            "invalid character after top-level value".to_owned()
        }
        Err(error) => error.to_string(),
        Ok(_) => error.to_string(),
    }
}

fn schema_problem(error: &CompileError) -> String {
    let quoted = |url: &str| golibs::strconv::quote(url);
    match error {
        CompileError::ValidationError { url, src } => {
            let head = format!("{} is not valid against metaschema: {}", quoted(&with_fragment(url)), text::root(src));
            std::iter::once(head).chain(tree::lines(src, &Json::Null, Show::Values)).collect::<Vec<_>>().join("\n")
        }
        CompileError::LoadUrlError { url, src } => format!("failing loading {}: {src}", quoted(url)),
        CompileError::JsonPointerNotFound(url) => format!("json-pointer in {} not found", quoted(url)),
        CompileError::InvalidJsonPointer(url) => format!("invalid json-pointer {}", quoted(url)),
        CompileError::AnchorNotFound { url, reference } => {
            format!("anchor in {} not found in schema {}", quoted(reference), quoted(url))
        }
        CompileError::UnsupportedDraft { url } => format!("draft {} is not supported", quoted(url)),
        CompileError::ParseUrlError { url, src } => format!("error in parsing {}: {src}", quoted(url)),
        CompileError::MetaSchemaCycle { url } => format!("cycle in resolving $schema in {}", quoted(url)),
        other => other.to_string(),
    }
}

fn with_fragment(url: &str) -> String {
    if url.contains('#') { url.to_owned() } else { format!("{url}#") }
}
