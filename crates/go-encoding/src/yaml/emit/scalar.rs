//! Chooses the style of a string and writes it. Follows libyaml's analysis and yaml.v2's rule that text which would parse as another type is quoted.

use super::super::resolve::{Scalar, is_base60, is_odd_octal, resolve};
use super::Dialect;
use super::writer::{INDENT, Level, Writer};

/// The position of a scalar or list.
#[derive(Clone, Copy, Default)]
pub(super) struct Context {
    /// Whether the scalar is a key or value of a map.
    pub(super) mapping: bool,
    /// Whether the scalar is a key on the same line as its colon.
    pub(super) simple_key: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Whether a scalar may continue on another line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    AtWidth,
    Never,
}

pub(super) fn write(writer: &mut Writer, text: &str, context: Context, dialect: Dialect) {
    if is_word(text) && reads_as_itself(text, dialect) {
        writer.word(text);
        return;
    }
    let outer = writer.increase_indent(Level::Scalar);
    let fold = if context.simple_key { Fold::Never } else { Fold::AtWidth };
    match choose(text, context, dialect) {
        Style::Plain => write_plain(writer, text, fold),
        Style::Single => write_single(writer, text, fold),
        Style::Double => write_double(writer, text, fold),
        Style::Literal => write_literal(writer, text),
    }
    writer.restore_indent(outer);
}

/// Finds the first line break, of any kind; returns its offset.
pub(super) fn find_break(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let begins_break = |at: &usize| match bytes[*at] {
        b'\n' | b'\r' => true,
        0xC2 | 0xE2 => text[*at..].starts_with(is_break),
        _ => false,
    };
    (0..bytes.len()).find(begins_break)
}

/// Returns whether the text consists of letters, digits and a few characters without a meaning in YAML. A fast path for most strings.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'/')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/'))
}

fn reads_as_itself(text: &str, dialect: Dialect) -> bool {
    resolve(text) == Scalar::Str && (dialect == Dialect::V2 || !is_odd_octal(text))
}

fn choose(text: &str, context: Context, dialect: Dialect) -> Style {
    let analysis = Analysis::of(text, dialect);
    let wanted = if text.contains('\n') {
        Style::Literal
    } else if reads_as_itself(text, dialect) && !is_base60(text) {
        Style::Plain
    } else {
        Style::Double
    };
    match wanted {
        _ if context.simple_key && analysis.multiline => Style::Double,
        Style::Plain if analysis.plain => Style::Plain,
        Style::Plain if analysis.single => Style::Single,
        Style::Literal if analysis.block && !context.simple_key => Style::Literal,
        _ => Style::Double,
    }
}

/// The styles that can represent a scalar, found by libyaml's analysis.
struct Analysis {
    multiline: bool,
    plain: bool,
    single: bool,
    block: bool,
}

impl Analysis {
    fn of(text: &str, dialect: Dialect) -> Analysis {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut breaks, mut special, mut break_space, mut space_break) = (false, false, false, false);
        let mut tabs = false;
        for (at, byte) in text.bytes().enumerate() {
            // After the first character, most characters have no meaning in any style.
            if at > 0 && (is_ordinary(byte) || !text.is_char_boundary(at)) {
                continue;
            }
            let (previous, mut rest) = (text[..at].chars().next_back(), text[at..].chars());
            let (Some(c), next) = (rest.next(), rest.next()) else { break };
            indicators |= is_indicator(c, previous, next);
            tabs |= c == '\t';
            special |= !is_printable(c) && (c != '\t' || dialect == Dialect::V2);
            break_space |= c == ' ' && previous.is_some_and(is_break);
            space_break |= is_break(c) && previous == Some(' ');
            breaks |= is_break(c);
        }
        let (first, last) = (text.chars().next(), text.chars().next_back());
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let special = special || space_break;
        Analysis {
            multiline: breaks,
            plain: !indicators && !breaks && !tabs && !special && !edge(first) && !edge(last),
            single: !special && !tabs && !break_space,
            block: !special && last.is_some_and(|c| c != ' '),
        }
    }
}

/// Returns whether this is a printable ASCII character that is neither a blank nor an indicator after other characters.
fn is_ordinary(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'#' | b':')
}

/// Returns whether the character has a meaning in a plain scalar in block context.
fn is_indicator(c: char, previous: Option<char>, next: Option<char>) -> bool {
    let blank_follows = next.is_none_or(|c| c == ' ' || c == '\t' || is_break(c));
    match (c, previous) {
        ('#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`', None) => true,
        ('?' | '-', None) => blank_follows,
        (':', _) => blank_follows,
        ('#', Some(before)) => before == ' ' || before == '\t' || is_break(before),
        _ => false,
    }
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns whether libyaml writes the character unescaped. Beyond the basic plane it escapes all characters.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FEFE}' | '\u{FF00}'..='\u{FFFD}')
}

pub(super) fn write_plain(writer: &mut Writer, text: &str, fold: Fold) {
    writer.blank();
    write_words(writer, text, fold);
    writer.end_scalar();
}

/// Writes text without line breaks. Where allowed, folds it at single spaces past the width.
fn write_words(writer: &mut Writer, text: &str, fold: Fold) {
    if fold == Fold::Never || writer.has_room(text.len()) {
        writer.text(text);
        return;
    }
    let mut after_space = false;
    let mut rest = text;
    while !rest.is_empty() {
        let word = memchr::memchr(b' ', rest.as_bytes()).unwrap_or(rest.len());
        if word > 0 {
            writer.text(&rest[..word]);
        } else if !after_space && writer.is_wide() && !rest[1..].starts_with(' ') {
            writer.indent_line();
        } else {
            writer.byte(b' ');
        }
        after_space = word == 0;
        writer.end_indention();
        rest = &rest[word.max(1)..];
    }
}

/// Returns the number of leading characters that need no escape in either kind of quotes and are not blanks.
fn ordinary_run(text: &str) -> usize {
    let ordinary = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\' | b'\'');
    text.bytes().position(|b| !ordinary(&b)).unwrap_or(text.len())
}

fn write_single(writer: &mut Writer, text: &str, fold: Fold) {
    writer.indicator("'");
    let (mut spaces, mut breaks) = (false, false);
    let mut rest = text.chars();
    let mut first = true;
    loop {
        let run = ordinary_run(rest.as_str());
        if run > 0 {
            if breaks {
                writer.indent_line();
            }
            writer.text(&rest.as_str()[..run]);
            writer.end_indention();
            rest = rest.as_str()[run..].chars();
            (spaces, breaks, first) = (false, false, false);
        }
        let Some(c) = rest.next() else { break };
        let next = rest.as_str().chars().next();
        if c == ' ' {
            let inside = !first && next.is_some_and(|c| c != ' ');
            if fold == Fold::AtWidth && !spaces && writer.is_wide() && inside {
                writer.indent_line();
            } else {
                writer.byte(b' ');
            }
            spaces = true;
        } else if is_break(c) {
            if !breaks && c == '\n' {
                writer.line_break();
            }
            writer.break_char(c);
            breaks = true;
        } else {
            if breaks {
                writer.indent_line();
            }
            if c == '\'' {
                writer.byte(b'\'');
            }
            writer.char(c);
            writer.end_indention();
            (spaces, breaks) = (false, false);
        }
        first = false;
    }
    writer.attached_indicator("'");
    writer.end_scalar();
}

fn write_double(writer: &mut Writer, text: &str, fold: Fold) {
    writer.indicator("\"");
    // libyaml looks for a byte order mark at the start of the text instead of here, and then escapes everything.
    let escape_all = text.starts_with('\u{FEFF}');
    let mut spaces = false;
    let mut rest = text.chars();
    let mut first = true;
    loop {
        let run = if escape_all { 0 } else { ordinary_run(rest.as_str()) };
        if run > 0 {
            writer.text(&rest.as_str()[..run]);
            rest = rest.as_str()[run..].chars();
            (spaces, first) = (false, false);
        }
        let Some(c) = rest.next() else { break };
        let next = rest.as_str().chars().next();
        if escape_all || !is_printable(c) || is_break(c) || c == '"' || c == '\\' {
            write_escape(writer, c);
            spaces = false;
        } else if c == ' ' {
            if fold == Fold::AtWidth && !spaces && writer.is_wide() && !first && next.is_some() {
                writer.indent_line();
                if next == Some(' ') {
                    writer.byte(b'\\');
                }
            } else {
                writer.byte(b' ');
            }
            spaces = true;
        } else {
            writer.char(c);
            spaces = false;
        }
        first = false;
    }
    writer.attached_indicator("\"");
    writer.end_scalar();
}

fn write_escape(writer: &mut Writer, c: char) {
    let short = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0B' => 'v',
        '\x0C' => 'f',
        '\r' => 'r',
        '\x1B' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{A0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(c);
            let escape = match code {
                0..=0xFF => format!("\\x{code:02X}"),
                0x100..=0xFFFF => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
            writer.text(&escape);
            return;
        }
    };
    writer.byte(b'\\');
    writer.char(short);
}

fn write_literal(writer: &mut Writer, text: &str) {
    writer.indicator("|");
    write_block_hints(writer, text);
    writer.begin_block();
    let mut breaks = true;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if is_break(c) {
            writer.break_char(c);
            breaks = true;
            rest = &rest[c.len_utf8()..];
        } else {
            if breaks {
                writer.indent_line();
            }
            let end = find_break(rest).unwrap_or(rest.len());
            writer.text(&rest[..end]);
            writer.end_indention();
            breaks = false;
            rest = &rest[end..];
        }
    }
}

/// Writes the header of a block scalar: the indentation, unless the first line shows it, and the treatment of final line breaks.
fn write_block_hints(writer: &mut Writer, text: &str) {
    if text.starts_with(|c| c == ' ' || is_break(c)) {
        writer.attached_indicator(&INDENT.to_string());
    }
    let mut from_end = text.chars().rev();
    match (from_end.next(), from_end.next()) {
        (Some(last), before) if is_break(last) => {
            if before.is_none_or(is_break) {
                writer.attached_indicator("+");
            }
        }
        _ => writer.attached_indicator("-"),
    }
}
