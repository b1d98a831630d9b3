//! One schema: compiled once, applied many times.

use std::error::Error;
use std::fmt;

use boon::{CompileError, Compiler, Schemas, UrlLoader};
use go_template::{Map, Value};
use serde_json::Value as Json;

use super::tree::Show;
use super::{bounds, patterns, text, tree};
use go_encoding::json;

/// The name that Helm gives to a chart's schema.
const URL: &str = "file:///values.schema.json";

/// A schema that values can be held against, by many threads at once.
pub struct Schema {
    document: Json,
    schemas: Schemas,
    root: boon::SchemaIndex,
    /// How many schemas can apply to one value, one inside the other.
    chain: usize,
    /// Whether values may have to be patterns.
    asks_for_patterns: bool,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("schemas", &self.schemas.size()).finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles the bytes of a `values.schema.json`, of any draft from 4 to 2020-12 (the default).
    ///
    /// # Errors
    /// With the text of Helm's validator: no JSON, no schema, a reference that leads nowhere or out of the document, or past our bounds.
    pub fn compile(text: &[u8]) -> Result<Schema, String> {
        if text.len() > bounds::MAX_SCHEMA_BYTES {
            return Err(format!("schema is larger than {} bytes (limit MAX_SCHEMA_BYTES)", bounds::MAX_SCHEMA_BYTES));
        }
        let document: Json = serde_json::from_slice(text).map_err(|e| not_json(text, &e))?;
        let chain = bounds::chain(&document)?;
        patterns::check(&document)?;
        bounds::on_large_stack(|| {
            let mut schemas = Schemas::new();
            let mut compiler = Compiler::new();
            compiler.use_loader(Box::new(Closed));
            compiler.add_resource(URL, document.clone()).map_err(|error| not_a_schema(&error))?;
            let root = compiler.compile(URL, &mut schemas).map_err(|error| not_a_schema(&error))?;
            let asks_for_patterns = patterns::asks_for_patterns(&document);
            Ok(Schema { document, schemas, root, chain, asks_for_patterns })
        })
    }

    /// Holds the values against the schema.
    ///
    /// # Errors
    /// What is wrong, a line for each: `- at '/a': got number, want string`.
    pub fn validate(&self, values: &Map) -> Result<(), Complaint> {
        let values = json::to_serde(&Value::Map(values.clone()));
        bounds::check(self.chain, &values)?;
        if self.asks_for_patterns {
            patterns::check_values(&values).map_err(|text| Complaint {
                text,
                without_values: "unable to validate schema: a value is too large a pattern\n".to_owned(),
            })?;
        }
        bounds::on_large_stack(|| match self.schemas.validate(&values, self.root) {
            Ok(()) => Ok(()),
            Err(error) => {
                let text = |show| {
                    tree::lines(&error, &self.document, show).iter().map(|line| format!("{line}\n")).collect::<String>()
                };
                Err(Complaint { text: text(Show::Values), without_values: text(Show::Rules) })
            }
        })
    }
}

/// What is wrong with values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// In the words of Helm's validator, which quote values.
    pub text: String,
    /// Without any value: they may be secret.
    pub without_values: String,
}

impl From<String> for Complaint {
    fn from(text: String) -> Complaint {
        Complaint { without_values: text.clone(), text }
    }
}

/// Reads nothing.
struct Closed;

impl UrlLoader for Closed {
    fn load(&self, url: &str) -> Result<Json, Box<dyn Error>> {
        if url.starts_with("urn:") {
            return Ok(Json::Bool(true));
        }
        Err("schemas outside of values.schema.json are not read".into())
    }
}

fn not_json(text: &[u8], error: &serde_json::Error) -> String {
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

fn not_a_schema(error: &CompileError) -> String {
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
