//! Enforces limits that the `handlebars` crate does not: on nesting, nested partials, steps and bytes.
//!
//! Inserts a hidden call at the beginning of each block of a parsed template. The call charges for the block, so that all loops are counted.

use std::io::{self, Write};

use go_template::LimitError;
use handlebars::Template;
use handlebars::template::{DecoratorTemplate, HelperTemplate, Parameter, TemplateElement};

use super::{RenderError, handlebars_panics};

/// Maximum nesting of blocks and subexpressions in a template.
pub(super) const MAX_NESTING: usize = 32;

/// Maximum nesting of partials.
pub(super) const MAX_PARTIALS: usize = 32;

/// Maximum number of tags and parentheses that a template may open, which limits the parser's recursion.
pub(super) const MAX_OPENERS: usize = 10_000;

/// Maximum length of a file's output, in bytes: the same as for all templates of a release.
pub(super) const MAX_OUTPUT: usize = go_template::Limits::OUTPUT;

/// The names of the helper calls that are inserted into templates, hidden from their authors: one per block, and two around each partial.
pub(super) const TICK: &str = "__tick";
pub(super) const ENTER: &str = "__enter";
pub(super) const LEAVE: &str = "__leave";

/// The reason why a template cannot be bounded.
#[derive(Debug, thiserror::Error)]
enum BoundError {
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// `{{> @partial-block}}`.
    #[error("@partial-block is not supported: use an inline partial")]
    PartialBlock,
    /// `{{> (name)}}`.
    #[error("a partial's name cannot be computed")]
    ComputedPartial,
    /// The hidden call cannot be parsed. Holds the parser's text.
    #[error("{0}")]
    Hidden(String),
}

fn too_nested() -> BoundError {
    let message = format!("{MAX_NESTING} nested blocks or subexpressions");
    LimitError { name: "nesting", message }.into()
}

/// Parses a template and inserts the hidden calls.
pub(super) fn parse(name: &str, text: &str) -> Result<Template, RenderError> {
    let failed = |message: String| RenderError::plain(name, format!("parse error in ({name}): {message}"));
    if text.bytes().filter(|b| matches!(b, b'(' | b'[' | b'{')).count() > 2 * MAX_OPENERS {
        return Err(failed(format!("limit openers exceeded: {MAX_OPENERS} tags and parentheses")));
    }
    let parsed = handlebars_panics(|| Template::compile_with_name(text, name.to_owned()))
        .ok_or_else(|| failed("the handlebars parser failed".to_owned()))?;
    let mut template = parsed.map_err(|error| match error.pos() {
        Some((line, column)) => {
            RenderError::handlebars_parse(name, line, column.saturating_sub(1), &error.reason().to_string())
        }
        None => failed(error.reason().to_string()),
    })?;
    partial(&mut template, 0).map_err(|error| failed(error.to_string()))?;
    Ok(template)
}

/// Inserts the calls that count nested partials, and those that count blocks.
fn partial(template: &mut Template, depth: usize) -> Result<(), BoundError> {
    block(template, depth)?;
    let leave = hidden(LEAVE, 0)?;
    template.elements.insert(0, hidden(ENTER, 0)?);
    if let Some(first) = template.mapping.first().cloned() {
        template.mapping.insert(0, first);
    }
    template.elements.push(leave);
    Ok(())
}

fn block(template: &mut Template, depth: usize) -> Result<(), BoundError> {
    if depth > MAX_NESTING {
        return Err(too_nested());
    }
    let mut bytes = 0;
    for element in &mut template.elements {
        if let TemplateElement::RawString(text) = element {
            bytes += text.len();
        }
        visit(element, depth + 1)?;
    }
    template.elements.insert(0, hidden(TICK, bytes)?);
    if let Some(first) = template.mapping.first().cloned() {
        template.mapping.insert(0, first);
    }
    Ok(())
}

fn visit(element: &mut TemplateElement, depth: usize) -> Result<(), BoundError> {
    // The escape function, which only counts here, is called for expressions in two braces but not for those in three.
    if let TemplateElement::HtmlExpression(call) = element {
        *element = TemplateElement::Expression(call.clone());
    }
    match element {
        TemplateElement::Expression(call) | TemplateElement::HelperBlock(call) => helper(call, depth),
        TemplateElement::DecoratorBlock(inline) | TemplateElement::DecoratorExpression(inline) => {
            decorator(inline, depth)?;
            inline.template.as_mut().map_or(Ok(()), |template| partial(template, depth))
        }
        TemplateElement::PartialExpression(call) | TemplateElement::PartialBlock(call) => {
            // The repeated output of a partial's block would not be counted.
            match call.name.as_name() {
                Some("@partial-block") => return Err(BoundError::PartialBlock),
                None => return Err(BoundError::ComputedPartial),
                Some(_) => {}
            }
            decorator(call, depth)?;
            call.template.as_mut().map_or(Ok(()), |template| partial(template, depth))
        }
        _ => Ok(()),
    }
}

fn helper(call: &mut HelperTemplate, depth: usize) -> Result<(), BoundError> {
    parameter(&call.name, depth)?;
    call.params.iter().chain(call.hash.values()).try_for_each(|param| parameter(param, depth))?;
    call.template.as_mut().map_or(Ok(()), |template| block(template, depth))?;
    call.inverse.as_mut().map_or(Ok(()), |template| block(template, depth))
}

fn decorator(call: &DecoratorTemplate, depth: usize) -> Result<(), BoundError> {
    parameter(&call.name, depth)?;
    call.params.iter().chain(call.hash.values()).try_for_each(|param| parameter(param, depth))
}

fn parameter(of: &Parameter, depth: usize) -> Result<(), BoundError> {
    if depth > MAX_NESTING {
        return Err(too_nested());
    }
    let Parameter::Subexpression(inner) = of else { return Ok(()) };
    let TemplateElement::Expression(call) = inner.as_element() else { return Ok(()) };
    parameter(&call.name, depth + 1)?;
    call.params.iter().chain(call.hash.values()).try_for_each(|param| parameter(param, depth + 1))
}

fn hidden(name: &str, bytes: usize) -> Result<TemplateElement, BoundError> {
    let compiled =
        Template::compile(&format!("{{{{{name} {bytes}}}}}")).map_err(|error| BoundError::Hidden(error.to_string()))?;
    compiled.elements.into_iter().next().ok_or_else(|| BoundError::Hidden("no hidden call".to_owned()))
}

/// The output of a file. Checks the limit again, because partials are indented after their output is counted.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!("limit output exceeded: {MAX_OUTPUT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
