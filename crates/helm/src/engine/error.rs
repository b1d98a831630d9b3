//! The reason why a chart does not render, in Helm's words.
//!
//! For a chain of includes, Go prints a single line. Helm v4 parses this line and prints a stack of locations instead, unless the chain ends in a
//! function's own error. This code derives both from the error's data. Where a part contains Helm's separators, Helm splits the line at the wrong
//! place: comments mark the code that reproduces this. Counterpart: `cleanupParseError` and `reformatExecErrorMsg` in Helm's `pkg/engine/engine.go`.

use std::fmt;

use go_template::{Cause, ExecError, FuncError, Location, ParseError};
use golibs::shorten::{MAX_MESSAGE, shorten};
use golibs::strconv::quote;

use sprig::{MESSAGE_END, MESSAGE_START};

/// The reason why a chart does not render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    text: String,
    places: Vec<Position>,
    /// Whether the template asked for what the cluster cannot tell now.
    is_unanswered: bool,
}

/// A location in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The template's name, as in `# Source:` comments; for text that `tpl` runs, the name of the template set.
    pub template: String,
    /// The line, counted from 1, or 0 if unknown.
    pub line: usize,
    /// The column in bytes, counted from 0, if known.
    pub column: Option<usize>,
}

impl Position {
    fn file(template: &str) -> Position {
        Position { template: template.to_owned(), line: 0, column: None }
    }
}

impl From<&Location> for Position {
    fn from(location: &Location) -> Position {
        Position { template: location.name.to_string(), line: location.line, column: Some(location.column) }
    }
}

/// Maximum number of locations in an error: templates may include each other a thousand times.
const MAX_PLACES: usize = 32;

impl RenderError {
    /// Returns the name of the rendered template that contains the error or led to it.
    pub fn template(&self) -> &str {
        self.places.first().map_or("", |place| &place.template)
    }

    /// Returns the line in that template, counted from 1, or 0 if unknown.
    pub fn line(&self) -> usize {
        self.places.first().map_or(0, |place| place.line)
    }

    /// Returns whether the template asked for what the cluster cannot tell now. The failure then says nothing about the chart.
    pub fn is_unanswered(&self) -> bool {
        self.is_unanswered
    }

    /// Returns the path to the error: the rendered template first, the location of the error last. Never empty.
    pub fn places(&self) -> &[Position] {
        &self.places
    }

    /// Returns the error of a template that asked for what the cluster cannot tell now.
    pub(super) fn unanswered(self) -> RenderError {
        RenderError { is_unanswered: true, ..self }
    }

    /// Creates an error, cutting a long text in the middle.
    fn new(text: &str, places: Vec<Position>) -> RenderError {
        RenderError { text: shorten(text, MAX_MESSAGE).into_owned(), places, is_unanswered: false }
    }

    /// Creates the error of a template that failed to parse.
    pub(super) fn parse(error: &ParseError) -> RenderError {
        let location = first_part(&format!("{}:{}", error.name, error.line)).to_owned();
        // Helm keeps only the part after the last separator.
        let kind = error.kind.to_string();
        let message = kind.rsplit(SEPARATOR).next().unwrap_or(&kind);
        let place = Position { template: error.name.clone(), line: error.line, column: None };
        RenderError::new(&format!("parse error at ({location}): {message}"), vec![place])
    }

    /// Creates the error of a template that failed during execution.
    pub(super) fn exec(file: &str, error: &FuncError) -> RenderError {
        let whole = error.to_string();
        let FuncError::Template(outermost) = error else { return RenderError::plain(file, whole) };
        let location = match &outermost.location {
            Some(location) => place_text(location),
            None => outermost.template.clone(),
        };
        let text = match marked_message(&whole) {
            Some(message) => format!("execution error at ({}): {message}", first_part(&location)),
            None => trace(error).unwrap_or(whole),
        };
        let mut places: Vec<Position> = places(error).take(MAX_PLACES).collect();
        if places.is_empty() {
            places.push(Position::file(&outermost.template));
        }
        RenderError::new(&text, places)
    }

    pub(super) fn handlebars_parse(template: &str, line: usize, column: usize, message: &str) -> RenderError {
        let text = format!("parse error at ({template}:{line}:{column}): {message}");
        RenderError::new(&text, vec![Position { template: template.to_owned(), line, column: Some(column) }])
    }

    /// Creates the error of a Handlebars template that failed during execution.
    pub(super) fn handlebars(template: &str, line: usize, column: usize, message: &str) -> RenderError {
        let location = format!("{template}:{line}:{column}");
        let text = match marked_message(message) {
            Some(message) => format!("execution error at ({location}): {message}"),
            None => format!("{location}\n  executing \"{template}\":\n    {message}"),
        };
        RenderError::new(&text, vec![Position { template: template.to_owned(), line, column: Some(column) }])
    }

    /// Creates an error without a location in the template.
    pub(super) fn plain(file: &str, text: impl AsRef<str>) -> RenderError {
        RenderError::new(text.as_ref(), vec![Position::file(file)])
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for RenderError {}

/// Iterates over the locations of a chain of errors, outermost first.
fn places(error: &FuncError) -> impl Iterator<Item = Position> {
    chain(error).filter_map(|error| match error {
        FuncError::Template(error) => error.location.as_ref().map(Position::from),
        _ => None,
    })
}

/// Iterates over the error and those that it wraps, as Go's `errors.Unwrap` finds them.
fn chain(error: &FuncError) -> impl Iterator<Item = &FuncError> {
    std::iter::successors(Some(error), |error| match error {
        FuncError::Template(error) => match &error.cause {
            Cause::Call { error, .. } => Some(error),
            Cause::Eval(_) | Cause::Limit(_) => None,
        },
        FuncError::Context { source, .. } => Some(source),
        _ => None,
    })
}

/// Returns the message of `fail` or `required`: the text between the first start mark and the last end mark.
fn marked_message(text: &str) -> Option<&str> {
    let start = text.find(MESSAGE_START)? + MESSAGE_START.len();
    let end = text.rfind(MESSAGE_END)?;
    text.get(start..end)
}

/// The separator at which Helm splits errors.
const SEPARATOR: &str = ": ";

/// Returns the part before the separator: for Helm, a name that contains the separator ends there.
fn first_part(text: &str) -> &str {
    text.split(SEPARATOR).next().unwrap_or(text)
}

fn place_text(location: &Location) -> String {
    format!("{}:{}:{}", location.name, location.line, location.column)
}

/// Formats the chain as a stack of locations, or returns `None` if it contains anything but template errors.
fn trace(error: &FuncError) -> Option<String> {
    let mut stack: Vec<Entry> = Vec::new();
    for error in chain(error) {
        let entry = Entry::of(error)?;
        if stack.last() != Some(&entry) {
            stack.push(entry);
        }
    }
    let text: String = stack.iter().map(Entry::to_string).collect();
    Some(text.trim().to_owned())
}

/// A template error of a chain. Parts may be empty.
#[derive(Debug, PartialEq, Eq, Default)]
struct Entry {
    place: String,
    executing: String,
    message: String,
}

impl Entry {
    fn of(error: &FuncError) -> Option<Entry> {
        match error {
            FuncError::Template(error) => match &error.location {
                Some(location) => Entry::executing(error, location),
                None => Some(Entry::simple(&error.template, &cause_text(&error.cause))),
            },
            FuncError::Parse(error) => {
                Some(Entry::simple(&format!("{}:{}", error.name, error.line), &error.kind.to_string()))
            }
            FuncError::NoTemplate { .. } => Some(Entry { message: error.to_string(), ..Entry::default() }),
            FuncError::Message(_) | FuncError::Builtin(_) | FuncError::Context { .. } | FuncError::Limit(_) => None,
        }
    }

    fn executing(error: &ExecError, location: &Location) -> Option<Entry> {
        let (place, name) = (place_text(location), quote(error.template.as_bytes()));
        // Helm does not recognize an error whose names contain what it searches for.
        if place.contains(": executing ") || name.matches('"').count() != 2 {
            return None;
        }
        let cause = cause_text(&error.cause);
        // For Helm, the source of a node ends at its first `>: `.
        let (context, message) = match error.context.split_once(">: ") {
            Some((context, rest)) => (context, format!("{rest}>: {cause}")),
            None => (error.context.as_str(), cause),
        };
        let message = before_next(&message).to_owned();
        Some(Entry { place, executing: format!("executing {name} at <{context}>:"), message })
    }

    /// Creates an entry from a location and a message. For Helm, the location ends at the last separator.
    fn simple(place: &str, message: &str) -> Entry {
        let (place, message) = match message.rsplit_once(SEPARATOR) {
            Some((start, message)) => (format!("{place}: {start}"), message),
            None => (place.to_owned(), message),
        };
        Entry { place, message: before_next(message).to_owned(), ..Entry::default() }
    }
}

/// Returns the cause's text up to the next template error; [`before_next`] removes the rest.
fn cause_text(cause: &Cause) -> String {
    match cause {
        Cause::Call { function, error } => format!("error calling {function}: {}", error_text(error)),
        Cause::Eval(_) | Cause::Limit(_) => cause.to_string(),
    }
}

fn error_text(error: &FuncError) -> String {
    match error {
        FuncError::Template(_) => "template:".to_owned(),
        FuncError::Context { message, source } => format!("{message}: {}", error_text(source)),
        _ => error.to_string(),
    }
}

/// Cuts the message where Go prints the next error of the chain.
fn before_next(message: &str) -> &str {
    message.split(" template:").next().unwrap_or(message)
}

impl fmt::Display for Entry {
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
