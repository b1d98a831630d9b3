//! Formats the tree of errors as lines. Counterpart: `output.go` of santhosh-tekuri/jsonschema v6.
//!
//! If only one branch of an `allOf`, `anyOf` or `oneOf` fails, boon drops the keyword's own error, which Go keeps; the path of the inner error's
//! schema still contains the keyword. boon also prints patterns as it translated them, so the original is looked up. Known difference: boon numbers
//! items after a tuple from the tuple's end.

use boon::{ErrorKind, InstanceToken, ValidationError};

use super::compile::Document;
use super::{index, text};

/// Whether messages quote the offending values.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Show {
    /// Quote values, as Helm does.
    Values,
    /// Show only the location and the rule, because values may be secret.
    Rules,
}

/// Returns the lines below the root error. `documents` are those of the schema.
pub(super) fn lines(root: &ValidationError<'_, '_>, documents: &[Document], show: Show) -> Vec<String> {
    let mut lines = Lines { lines: Vec::new(), bytes: 0, is_cut: false, documents, show };
    for cause in &root.causes {
        lines.add(cause, root.schema_url, false, 0);
    }
    if root.causes.is_empty() {
        lines.push(0, "", root);
    }
    if lines.is_cut {
        lines.lines.push("- and more".to_owned());
    }
    lines.lines
}

/// Total length of lines after which no more are collected, in bytes: a longer message would not be read.
const MAX_BYTES: usize = 64 << 10;

struct Lines<'a> {
    lines: Vec<String>,
    /// The total length of the lines.
    bytes: usize,
    /// Whether lines are missing.
    is_cut: bool,
    documents: &'a [Document],
    show: Show,
}

impl Lines<'_> {
    fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES
    }

    fn push(&mut self, indent: usize, place: &str, error: &ValidationError<'_, '_>) {
        let message = self.message(error);
        self.push_message(indent, place, &message);
    }

    fn push_message(&mut self, indent: usize, place: &str, message: &str) {
        let line = format!("{}- at {}: {message}", "  ".repeat(indent), text::quoted(place));
        self.bytes += line.len();
        self.lines.push(line);
    }

    fn message(&self, error: &ValidationError<'_, '_>) -> String {
        let original = || {
            let (url, pointer) = error.schema_url.split_once('#')?;
            let document = self.documents.iter().find(|document| document.url == url)?;
            document.json.pointer(&format!("{}/pattern", index::percent_decoded(pointer)))?.as_str()
        };
        match &error.kind {
            kind if self.show == Show::Rules => text::without_value(kind),
            ErrorKind::Pattern { got, want } => text::pattern(got, original().unwrap_or(want)),
            kind => text::message(kind),
        }
    }

    /// Adds the error and its causes. `base` is the schema that contains the error's schema. `known` is true if the first keyword between them
    /// already has a line.
    fn add(&mut self, error: &ValidationError<'_, '_>, base: &str, known: bool, mut indent: usize) {
        if self.is_full() {
            self.is_cut = true;
            return;
        }
        let route = Route::between(base, error.schema_url);
        let tokens = tokens(error);
        let start = tokens.len().saturating_sub(route.depth);
        for (depth, message) in route.keywords.iter().skip(usize::from(known)) {
            let end = (start + depth).min(tokens.len());
            self.push_message(indent, &pointer(&tokens[..end]), message);
            indent += 1;
        }
        let (inner_base, skipped) = match &error.kind {
            ErrorKind::Reference { url, .. } => (*url, error.causes.len() == 1),
            _ => (error.schema_url, false),
        };
        if !skipped {
            let place = match &error.kind {
                ErrorKind::PropertyName { .. } => pointer(&route.properties),
                _ => pointer(&tokens),
            };
            self.push(indent, &place, error);
            indent += 1;
        }
        let known = matches!(error.kind, ErrorKind::AllOf | ErrorKind::AnyOf | ErrorKind::OneOf(None));
        for cause in &error.causes {
            self.add(cause, inner_base, known, indent);
        }
    }
}

fn tokens(error: &ValidationError<'_, '_>) -> Vec<String> {
    error
        .instance_location
        .tokens
        .iter()
        .map(|token| match token {
            InstanceToken::Prop(name) => name.to_string(),
            InstanceToken::Item(index) => index.to_string(),
        })
        .collect()
}

fn pointer(tokens: &[String]) -> String {
    tokens.iter().map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect()
}

/// The path from a schema to one inside it.
#[derive(Default)]
struct Route {
    /// The number of levels that it descends in the value.
    depth: usize,
    /// Keywords that combine schemas, with their level in the value and their message.
    keywords: Vec<(usize, &'static str)>,
    /// The names of properties on the path.
    properties: Vec<String>,
}

impl Route {
    fn between(base: &str, schema: &str) -> Route {
        let mut route = Route::default();
        let Some(path) = schema.strip_prefix(base) else { return route };
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        while let Some(keyword) = parts.next() {
            match keyword {
                "allOf" => route.keywords.push((route.depth, "'allOf' failed")),
                "anyOf" => route.keywords.push((route.depth, "'anyOf' failed")),
                "oneOf" => route.keywords.push((route.depth, "'oneOf' failed, none matched")),
                "not" | "if" | "then" | "else" => continue,
                "dependencies" | "dependentSchemas" => {}
                "propertyNames" | "contentSchema" => {
                    route = Route::default();
                    continue;
                }
                _ => route.depth += 1,
            }
            let has_name = match keyword {
                "items" => parts.peek().is_some_and(|next| next.bytes().all(|b| b.is_ascii_digit())),
                "additionalItems"
                | "additionalProperties"
                | "contains"
                | "unevaluatedItems"
                | "unevaluatedProperties" => false,
                _ => true,
            };
            let name = if has_name { parts.next().unwrap_or_default() } else { "" };
            if keyword == "properties" {
                route.properties.push(name.replace("~1", "/").replace("~0", "~"));
            }
        }
        route
    }
}
