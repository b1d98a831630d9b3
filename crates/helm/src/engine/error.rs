//! Why a chart does not render, in Helm's words.
//!
//! Go's template errors are one line for a whole chain of includes; Helm v4 shows them as a stack of locations, unless a function's own error is
//! at the end of the chain. Counterpart: `cleanupParseError` and `reformatExecErrorMsg` in Helm's `pkg/engine/engine.go`.

use std::fmt;

use go_template::{Cause, FuncError};

use sprig::{MESSAGE_END, MESSAGE_START};

/// Why a chart does not render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    text: String,
    places: Vec<Place>,
}

/// A place in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The template's name, as `# Source:` has it; that of the set for a text that `tpl` ran.
    pub template: String,
    /// The line, from 1; 0 if not known.
    pub line: usize,
    /// The column in bytes, from 0, where one is known.
    pub column: Option<usize>,
}

/// How many places an error keeps: templates may include each other a thousand times.
const MAX_PLACES: usize = 32;

impl RenderError {
    /// The template that the error is in, or the one that led there.
    pub fn template(&self) -> &str {
        self.places.first().map_or("", |place| &place.template)
    }

    /// The line in it, from 1; 0 if not known.
    pub fn line(&self) -> usize {
        self.places.first().map_or(0, |place| place.line)
    }

    /// Where the error is, and before that what led there, the file that was rendered first. Never empty.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// A template that cannot be parsed.
    pub(super) fn parse(file: &str, error: &str) -> RenderError {
        let tokens: Vec<&str> = error.split(": ").collect();
        let text = match tokens.as_slice() {
            [_, location, .., message] => format!("parse error at ({location}): {message}"),
            [_, message] => format!("parse error at ({message}): {message}"),
            _ => format!("parse error in ({file}): {error}"),
        };
        RenderError::at(text, tokens.get(1).copied().unwrap_or(file), file)
    }

    /// A template that fails while it runs.
    pub(super) fn exec(file: &str, error: &FuncError) -> RenderError {
        let whole = error.to_string();
        if !matches!(error, FuncError::Template(_)) {
            return RenderError::plain(file, whole);
        }
        let mut parts = whole.splitn(3, ": ");
        let (Some(_), Some(location), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return RenderError::at(format!("execution error in ({file}): {whole}"), file, file);
        };
        let text = match marked_message(rest) {
            Some(message) => format!("execution error at ({location}): {message}"),
            None => locations(error).unwrap_or_else(|| whole.clone()),
        };
        let mut failed = RenderError::at(text, location, file);
        failed.places.extend(places(error).skip(1).take(MAX_PLACES));
        failed
    }

    /// A Handlebars template that cannot be parsed.
    pub(super) fn handlebars_parse(template: &str, line: usize, column: usize, message: &str) -> RenderError {
        let location = format!("{template}:{line}:{column}");
        RenderError::at(format!("parse error at ({location}): {message}"), &location, template)
    }

    /// A Handlebars template that fails while it runs.
    pub(super) fn handlebars(template: &str, line: usize, column: usize, message: &str) -> RenderError {
        let location = format!("{template}:{line}:{column}");
        let text = match marked_message(message) {
            Some(message) => format!("execution error at ({location}): {message}"),
            None => format!("{location}\n  executing \"{template}\":\n    {message}"),
        };
        RenderError::at(text, &location, template)
    }

    /// An error that has no place in a template.
    pub(super) fn plain(file: &str, text: impl Into<String>) -> RenderError {
        RenderError { text: text.into(), places: vec![Place { template: file.to_owned(), line: 0, column: None }] }
    }

    fn at(text: String, location: &str, file: &str) -> RenderError {
        let mut parts = location.split(':');
        let template = parts.next().unwrap_or(file).to_owned();
        let mut number = || parts.next().and_then(|number| number.parse().ok());
        let place = Place { template, line: number().unwrap_or(0), column: number() };
        RenderError { text, places: vec![place] }
    }
}

/// Each place of a chain of errors, the outermost first.
fn places(error: &FuncError) -> impl Iterator<Item = Place> {
    std::iter::successors(Some(error), |error| inner(error)).filter_map(|error| match error {
        FuncError::Template(error) => error.location.as_ref().map(|location| Place {
            template: location.name.to_string(),
            line: location.line,
            column: Some(location.column),
        }),
        _ => None,
    })
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for RenderError {}

/// The text between the first start mark and the last end mark.
fn marked_message(text: &str) -> Option<&str> {
    let start = text.find(MESSAGE_START)? + MESSAGE_START.len();
    let end = text.rfind(MESSAGE_END)?;
    text.get(start..end)
}

/// Each error of the chain as a location with what happened there; `None` if one of them is no template error.
fn locations(error: &FuncError) -> Option<String> {
    let mut stack: Vec<Location> = Vec::new();
    let mut current = Some(error);
    while let Some(error) = current {
        let location = Location::read(&error.to_string())?;
        if stack.last() != Some(&location) {
            stack.push(location);
        }
        current = inner(error);
    }
    let text: String = stack.iter().map(Location::to_string).collect();
    Some(text.trim().to_owned())
}

/// The error that this one wraps, as Go's `errors.Unwrap` finds it.
fn inner(error: &FuncError) -> Option<&FuncError> {
    match error {
        FuncError::Template(error) => match &error.cause {
            Cause::Call { error, .. } => Some(error),
            Cause::Eval(_) | Cause::Limit(_) => None,
        },
        FuncError::Context { source, .. } => Some(source),
        _ => None,
    }
}

/// One template error of a chain.
#[derive(Debug, PartialEq, Eq, Default)]
struct Location {
    place: String,
    executing: String,
    message: String,
}

impl Location {
    fn read(text: &str) -> Option<Location> {
        let rest = text.strip_prefix("template: ")?;
        if rest.starts_with("no template ") {
            return Some(Location { message: text.to_owned(), ..Location::default() });
        }
        match rest.split_once(": executing ") {
            Some((place, after)) => Location::executing(place, after),
            None => Location::simple(rest),
        }
    }

    fn executing(place: &str, after: &str) -> Option<Location> {
        let (name, after) = after.strip_prefix('"')?.split_once('"')?;
        let (context, message) = after.strip_prefix(" at <")?.split_once(">: ")?;
        Some(Location {
            place: place.to_owned(),
            executing: format!("executing \"{name}\" at <{context}>:"),
            message: before_next(message).to_owned(),
        })
    }

    fn simple(rest: &str) -> Option<Location> {
        let (place, message) = rest.rsplit_once(": ")?;
        Some(Location { place: place.to_owned(), message: before_next(message).to_owned(), ..Location::default() })
    }
}

/// The message without the next error of the chain, which Go prints behind it.
fn before_next(message: &str) -> &str {
    message.split(" template:").next().unwrap_or(message)
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}\n  ", self.place)?;
        }
        if !self.executing.is_empty() {
            write!(f, "{}\n    ", self.executing)?;
        }
        if !self.message.is_empty() {
            writeln!(f, "{}", self.message)?;
        }
        Ok(())
    }
}
