//! Shows the lines of a template around an error, with a caret below the position.

use helm::engine::Position;

use crate::plan::diff::Colour;
use crate::terminal::{plain, plain_lines};

/// How many lines to show before and after.
const AROUND: usize = 2;

/// How many characters of a line to show. A template may be one line of megabytes.
const WIDTH: usize = 160;

const RED: &str = "\u{1b}[1;31m";
const BLUE: &str = "\u{1b}[1;34m";
const PLAIN: &str = "\u{1b}[0m";

/// Returns the excerpt for the innermost place that has source text. Text run by `tpl` has none.
pub(super) fn of(places: &[Position], source: &dyn Fn(&str) -> Option<String>, colour: Colour) -> Option<String> {
    let known = places.iter().rev().filter(|place| place.line > 0);
    let (place, text) = known.filter_map(|place| Some((place, source(&place.template)?))).next()?;
    Some(Excerpt { place, text: &text, colour }.show())
}

struct Excerpt<'a> {
    place: &'a Position,
    text: &'a str,
    colour: Colour,
}

impl Excerpt<'_> {
    fn show(&self) -> String {
        let Position { template, line, column } = self.place;
        let column_text = column.map(|column| format!(":{column}")).unwrap_or_default();
        let last = line + AROUND;
        let gutter = last.to_string().len();
        let arrow = self.paint(BLUE, "-->");
        let bar = self.paint(BLUE, "|");
        let mut shown =
            format!("{:gutter$}{arrow} {}:{line}{column_text}\n{:gutter$} {bar}\n", "", plain(template), "");
        let first = line.saturating_sub(AROUND).max(1);
        for (number, text) in (1..).zip(self.text.lines()).skip(first - 1).take(last + 1 - first) {
            let start = self.window(number, text);
            let label = self.paint(BLUE, &format!("{number:>gutter$} |"));
            shown.push_str(format!("{label} {}", cut(text, start)).trim_end());
            shown.push('\n');
            if number == *line {
                shown.push_str(&format!("{:gutter$} {bar} {}\n", "", self.mark(text, start)));
            }
        }
        shown.truncate(shown.trim_end().len());
        shown
    }

    /// Returns the first character to show: 0 unless the position is far to the right.
    fn window(&self, number: usize, text: &str) -> usize {
        let column = self.place.column.filter(|_| number == self.place.line);
        let characters = column.map_or(0, |column| characters_before(text, column));
        if characters < WIDTH { 0 } else { characters - WIDTH / 2 }
    }

    /// Returns a caret below the column, or carets below the whole line if the column is unknown. Tabs stay tabs, so
    /// that it lines up.
    fn mark(&self, text: &str, start: usize) -> String {
        let Some(column) = self.place.column else {
            let width = text.trim().chars().count().clamp(1, WIDTH);
            let indent: String = text.chars().take_while(|c| c.is_whitespace()).take(WIDTH).map(blank).collect();
            return format!("{indent}{}", self.paint(RED, &"^".repeat(width)));
        };
        let before = characters_before(text, column).saturating_sub(start);
        let pad: String = text.chars().skip(start).take(before).map(blank).collect();
        format!("{pad}{}", self.paint(RED, "^"))
    }

    fn paint(&self, code: &str, text: &str) -> String {
        match self.colour {
            Colour::Ansi => format!("{code}{text}{PLAIN}"),
            Colour::Never => text.to_owned(),
        }
    }
}

fn characters_before(text: &str, column: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at < column).count()
}

fn cut(text: &str, start: usize) -> String {
    plain_lines(&text.chars().skip(start).take(WIDTH).collect::<String>())
}

fn blank(c: char) -> char {
    if c == '\t' { '\t' } else { ' ' }
}
