//! The table: a line for each value, and one for each that no template reads.

use helm::reads::Unread;

use super::shown::Shown;
use super::text::{printable, scalar};
use crate::inspect::text::table;
use crate::origins::rows::{Cell, Row};

/// The maximum width of a value. Longer ones are cut.
const MAX_VALUE: usize = 48;

pub(super) fn of(shown: &Shown) -> String {
    let head = ["", "KEY", "VALUE", "FROM", "REPLACES"].map(str::to_owned).to_vec();
    let table = table("", std::iter::once(head).chain(shown.rows.iter().map(line)));
    let unread: Vec<String> = shown.rows.iter().flat_map(|row| &row.unread).map(unread).collect();
    if unread.is_empty() { table } else { format!("{table}\n{}", unique(unread)) }
}

fn line(row: &Row) -> Vec<String> {
    let mark = if row.unread.is_empty() { "" } else { "!" };
    let value = if row.is_removed { "(removed)".to_owned() } else { short(&row.value) };
    let replaced = match &row.replaced[..] {
        [] => String::new(),
        [(value, from), others @ ..] => {
            let more = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
            format!("{} ({}){more}", short(value), printable(&from.text))
        }
    };
    vec![mark.to_owned(), printable(&row.key()), value, printable(&row.from.text), replaced]
}

fn short(cell: &Cell) -> String {
    let Cell::Known(json) = cell else { return super::HIDDEN.to_owned() };
    let text = scalar(json);
    match text.char_indices().nth(MAX_VALUE) {
        Some(_) => text.chars().take(MAX_VALUE - 1).chain(['…']).collect(),
        None => text,
    }
}

/// Describes a value that no template reads.
pub(super) fn unread(unread: &Unread) -> String {
    let meant = match (&unread.nearest, unread.is_documented) {
        (Some(nearest), _) => format!("; did you mean {}?", printable(nearest)),
        (None, true) => ", although the chart documents it".to_owned(),
        (None, false) => String::new(),
    };
    format!("! {}: no template reads it{meant}\n", printable(&unread.path.join(".")))
}

fn unique(mut lines: Vec<String>) -> String {
    lines.dedup();
    lines.concat()
}
