//! Limits that the `handlebars` crate has not: nesting, partials in partials, steps and bytes.
//!
//! Each block of a parsed template gets a hidden call in front that counts a step and the block's text, so that no loop runs uncounted.

use std::io::{self, Write};

use handlebars::Template;
use handlebars::template::{DecoratorTemplate, HelperTemplate, Parameter, TemplateElement};

use super::{RenderError, handlebars_panics};

/// How deep blocks and subexpressions may nest in a template.
pub(super) const MAX_NESTING: usize = 32;

/// How many partials may be inside each other.
pub(super) const MAX_PARTIALS: usize = 32;

/// How much of a template may open something: bounds the parser's recursion, which follows the text.
pub(super) const MAX_OPENERS: usize = 10_000;

/// What a file may print, in bytes: as much as all templates of a release together.
pub(super) const MAX_OUTPUT: usize = go_template::Limits::OUTPUT;

/// The hidden calls.
pub(super) const TICK: &str = "__tick";
pub(super) const ENTER: &str = "__enter";
pub(super) const LEAVE: &str = "__leave";

/// Parses a template and puts the hidden calls into it.
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
    partial(&mut template, 0).map_err(failed)?;
    Ok(template)
}

/// A template that can be called: it counts how deep calls are.
fn partial(template: &mut Template, depth: usize) -> Result<(), String> {
    block(template, depth)?;
    let leave = hidden(LEAVE, 0)?;
    template.elements.insert(0, hidden(ENTER, 0)?);
    if let Some(first) = template.mapping.first().cloned() {
        template.mapping.insert(0, first);
    }
    template.elements.push(leave);
    Ok(())
}

fn block(template: &mut Template, depth: usize) -> Result<(), String> {
    if depth > MAX_NESTING {
        return Err(format!("limit nesting exceeded: {MAX_NESTING} blocks or subexpressions inside each other"));
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

fn visit(element: &mut TemplateElement, depth: usize) -> Result<(), String> {
    // Nothing is escaped, and what passes the function that would escape is counted: so three braces become two.
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
            // What a partial's block printed can be repeated without being counted, so it has no name here.
            match call.name.as_name() {
                Some("@partial-block") => {
                    return Err("@partial-block is not supported: use an inline partial".to_owned());
                }
                None => return Err("a partial's name cannot be computed".to_owned()),
                Some(_) => {}
            }
            decorator(call, depth)?;
            call.template.as_mut().map_or(Ok(()), |template| partial(template, depth))
        }
        _ => Ok(()),
    }
}

fn helper(call: &mut HelperTemplate, depth: usize) -> Result<(), String> {
    parameter(&call.name, depth)?;
    call.params.iter().chain(call.hash.values()).try_for_each(|param| parameter(param, depth))?;
    call.template.as_mut().map_or(Ok(()), |template| block(template, depth))?;
    call.inverse.as_mut().map_or(Ok(()), |template| block(template, depth))
}

fn decorator(call: &DecoratorTemplate, depth: usize) -> Result<(), String> {
    parameter(&call.name, depth)?;
    call.params.iter().chain(call.hash.values()).try_for_each(|param| parameter(param, depth))
}

fn parameter(parameter_: &Parameter, depth: usize) -> Result<(), String> {
    if depth > MAX_NESTING {
        return Err(format!("limit nesting exceeded: {MAX_NESTING} blocks or subexpressions inside each other"));
    }
    let Parameter::Subexpression(inner) = parameter_ else { return Ok(()) };
    let TemplateElement::Expression(call) = inner.as_element() else { return Ok(()) };
    parameter(&call.name, depth + 1)?;
    call.params.iter().chain(call.hash.values()).try_for_each(|param| parameter(param, depth + 1))
}

fn hidden(name: &str, bytes: usize) -> Result<TemplateElement, String> {
    let compiled = Template::compile(&format!("{{{{{name} {bytes}}}}}")).map_err(|error| error.to_string())?;
    compiled.elements.into_iter().next().ok_or_else(|| "no hidden call".to_owned())
}

/// What a file prints, up to the limit: partials are indented after they were counted.
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
