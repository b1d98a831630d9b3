//! Compiles a schema and validates values against it.

use std::error::Error;
use std::fmt;

use boon::{CompileError, Compiler, Schemas, UrlLoader};
use go_template::{Map, Str, Value};
use serde_json::Value as Json;

use super::bounds::BoundError;
use super::documents::{Documents, MAX_DOCUMENTS, ROOT};
use super::outline::Outline;
use super::patterns::PatternError;
use super::tree::Show;
use super::{bounds, cost, patterns, text, tree};
use go_encoding::json;

/// Maximum recursion depth of the compiler: the decoder rejects schemas that nest deeper than 128, and a metaschema has several levels for each.
const COMPILE_LEVELS: usize = 2_000;

/// A compiled schema, which many threads can use at once.
pub struct Schema {
    /// The schema, followed by the documents that it refers to.
    documents: Vec<Document>,
    schemas: Schemas,
    root: boon::SchemaIndex,
    /// The parts that determine the work of a validation.
    outline: Outline,
    /// Whether the schema may require values to be regular expressions.
    asks_for_patterns: bool,
}

pub(super) struct Document {
    /// Its URL, without the fragment.
    pub(super) url: String,
    pub(super) json: Json,
}

/// The reason why a `values.schema.json` cannot be compiled. The texts are those of Helm's validator, except for limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchema {
    /// It is larger than [`MAX_SCHEMA_BYTES`](bounds::MAX_SCHEMA_BYTES).
    #[error("schema is larger than {} bytes (limit MAX_SCHEMA_BYTES)", bounds::MAX_SCHEMA_BYTES)]
    TooLarge,
    /// It refers to more than [`MAX_DOCUMENTS`] documents, or their total size exceeds [`MAX_SCHEMA_BYTES`](bounds::MAX_SCHEMA_BYTES).
    #[error(
        "schema refers to more than {MAX_DOCUMENTS} documents (limit MAX_DOCUMENTS), or they exceed {} bytes (limit MAX_SCHEMA_BYTES)",
        bounds::MAX_SCHEMA_BYTES
    )]
    TooManyDocuments,
    /// It refers to a document that was not read. Holds the document's URL.
    #[error("failing loading {}: it is not a file of the chart", golibs::strconv::quote(.0))]
    NotRead(String),
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
    /// Compiles a `values.schema.json` of any draft from 4 to 2020-12, which is the default.
    ///
    /// # Errors
    /// The text is not JSON or not a schema, a reference leaves the document or has no target, or a limit is exceeded.
    pub fn compile(text: &[u8]) -> Result<Schema, InvalidSchema> {
        Schema::compile_with(text, &Documents::default())
    }

    /// Compiles a schema that refers to these documents.
    ///
    /// # Errors
    /// Fails like [`compile`](Schema::compile), for any of the documents.
    pub fn compile_with(text: &[u8], others: &Documents) -> Result<Schema, InvalidSchema> {
        if text.len() > bounds::MAX_SCHEMA_BYTES {
            return Err(InvalidSchema::TooLarge);
        }
        if others.is_cut {
            return Err(InvalidSchema::TooManyDocuments);
        }
        let json = serde_json::from_slice(text).map_err(|e| InvalidSchema::Json(json_problem(text, &e)))?;
        let mut documents = vec![Document { url: ROOT.to_owned(), json }];
        for (url, text) in others.iter() {
            documents.push(Document { url: url.to_owned(), json: decode(url, text)? });
        }
        let outline = Outline::of(&documents)?;
        patterns::check(documents.iter().map(|document| &document.json))?;
        let (schemas, root) = bounds::with_stack(COMPILE_LEVELS, || validator(&documents))?;
        let asks_for_patterns = documents.iter().any(|document| patterns::asks_for_patterns(&document.json));
        Ok(Schema { documents, schemas, root, outline, asks_for_patterns })
    }

    /// Validates the values.
    ///
    /// # Errors
    /// Fails with the violations, one per line: `- at '/a': got number, want string`.
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
                    tree::lines(&error, &self.documents, show)
                        .iter()
                        .map(|line| format!("{line}\n"))
                        .collect::<String>()
                };
                Err(Violations { text: text(Show::Values), without_values: text(Show::Rules) })
            }
        })
    }
}

/// The violations of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations {
    /// The text of Helm's validator, which quotes values.
    pub text: String,
    /// The same text without values, which may be secret.
    pub without_values: String,
}

impl From<String> for Violations {
    fn from(text: String) -> Violations {
        Violations { without_values: text.clone(), text }
    }
}

/// Compiles the first document.
fn validator(documents: &[Document]) -> Result<(Schemas, boon::SchemaIndex), InvalidSchema> {
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.use_loader(Box::new(Closed));
    for Document { url, json } in documents {
        compiler.add_resource(url, json.clone()).map_err(|error| invalid(&error))?;
    }
    let root = compiler.compile(ROOT, &mut schemas).map_err(|error| invalid(&error))?;
    Ok((schemas, root))
}

/// A loader that loads nothing, because all documents are already there.
struct Closed;

/// The only error of [`Closed`].
#[derive(Debug, thiserror::Error)]
#[error("not read")]
struct Refused;

impl UrlLoader for Closed {
    fn load(&self, url: &str) -> Result<Json, Box<dyn Error>> {
        if url.starts_with("urn:") { Ok(Json::Bool(true)) } else { Err(Refused.into()) }
    }
}

fn decode(url: &str, text: &Str) -> Result<Json, InvalidSchema> {
    serde_json::from_slice(text).map_err(|error| {
        let problem = json_problem(text, &error);
        InvalidSchema::Schema(format!("failing loading {}: {problem}", golibs::strconv::quote(url)))
    })
}

fn invalid(error: &CompileError) -> InvalidSchema {
    match error {
        CompileError::LoadUrlError { url, src } if src.is::<Refused>() => InvalidSchema::NotRead(url.clone()),
        error => InvalidSchema::Schema(schema_problem(error)),
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
            std::iter::once(head).chain(tree::lines(src, &[], Show::Values)).collect::<Vec<_>>().join("\n")
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
