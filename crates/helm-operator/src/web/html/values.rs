//! Writes the values of a release, each with its origin. What comes from Secrets stays masked.

use maud::{Markup, html};

use super::{Frame, LINE, TEXT, back, full_name, table, text};
use crate::origins::rows::{Cell, Row};
use crate::web::address::{ValueRows, link};
use crate::web::values::Values;

/// In place of a value that may not be shown.
const HIDDEN: &str = "****";

pub(crate) fn values(of: &Values) -> Markup {
    let name = full_name(&of.resource);
    let rows = html! { @for one in &of.rows { (row(one)) } };
    let content = html! {
        (back(&of.resource))
        h1 #values { "Values" }
        @for note in &of.notes { p.note { (text(note, TEXT)) } }
        p {
            @match of.which {
                ValueRows::All => { "With the charts' defaults. " a href={ (link(&of.resource)) "?view=values" } { "Only what differs" } },
                ValueRows::Changed => {
                    "What the charts' defaults do not set. "
                    a href={ (link(&of.resource)) "?view=values&all=1" } { "With the defaults" }
                },
            }
        }
        @if of.rows.is_empty() { p { "none" } } @else {
            (table("values", &["Key", "Value", "From", "In place of"], &rows))
        }
        @if of.omitted > 0 {
            p.note { "and " (of.omitted) " more: " code { "helm-operator values" } " shows them" }
        }
    };
    Frame::of(&format!("{name}: values")).around(&html! {}, &content)
}

fn row(row: &Row) -> Markup {
    html! {
        tr {
            th scope="row" { (text(&row.key(), LINE)) }
            td {
                @if row.is_removed { "(removed)" } @else { (cell(&row.value)) }
                @for unread in &row.unread {
                    p.waiting {
                        "no template reads " (text(&unread.path.join("."), LINE))
                        @if let Some(nearest) = &unread.nearest { "; did you mean " (text(nearest, LINE)) "?" }
                    }
                }
            }
            td { (text(&row.from.text, LINE)) }
            td { @if let [(value, from), others @ ..] = &row.replaced[..] {
                (cell(value)) " (" (text(&from.text, LINE)) ")"
                @if !others.is_empty() { " and " (others.len()) " more" }
            } }
        }
    }
}

fn cell(cell: &Cell) -> Markup {
    match cell {
        Cell::Known(json) => html! { code { (text(json, LINE)) } },
        Cell::Hidden => html! { (HIDDEN) },
    }
}
