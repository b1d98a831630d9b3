//! The values as a values file, each line with its origin as a comment.

use helm::origins::Key;
use serde_json::value::RawValue;

use super::HIDDEN;
use super::shown::Shown;
use super::table::unread;
use super::text::{printable, printable_json, scalar, word};
use crate::origins::rows::{Cell, Row};

pub(super) fn of(shown: &Shown) -> String {
    let head = format!("# {} {}, chart {}", shown.kind, shown.name, shown.chart);
    let mut out = format!("{}\n", printable(&head));
    if shown.rows.iter().all(|row| row.is_removed) {
        out.push_str("{}\n");
    }
    block(&shown.rows, 0, "", &mut out);
    out
}

/// Writes rows that have the same path up to this depth.
fn block(rows: &[Row], depth: usize, indent: &str, out: &mut String) {
    for group in rows.chunk_by(|a, b| a.path.get(depth) == b.path.get(depth)) {
        let Some((key, first)) = group.first().and_then(|row| Some((row.path.get(depth)?, row))) else { continue };
        if group.iter().all(|row| row.is_removed) {
            group.iter().for_each(|row| removed(row, indent, out));
            continue;
        }
        let start = match key {
            Key::Name(name) => format!("{indent}{}:", word(&name.to_text())),
            Key::Index(_) => format!("{indent}-"),
        };
        let deeper = format!("{indent}  ");
        if first.path.len() == depth + 1 {
            leaf(first, &start, &deeper, out);
            group[1..].iter().for_each(|row| removed(row, &deeper, out));
        } else {
            out.push_str(&format!("{start}\n"));
            block(group, depth + 1, &deeper, out);
        }
    }
}

fn leaf(row: &Row, start: &str, deeper: &str, out: &mut String) {
    let comment = comment(row);
    let Cell::Known(json) = &row.value else {
        out.push_str(&format!("{start} \"{HIDDEN}\"  # {comment}\n"));
        return;
    };
    match serde_json::from_str::<Vec<Box<RawValue>>>(json) {
        Ok(items) if !items.is_empty() => {
            out.push_str(&format!("{start}  # {comment}\n"));
            for item in items {
                out.push_str(&format!("{deeper}- {}  # {}\n", scalar(item.get()), printable(&row.from.text)));
            }
        }
        _ => out.push_str(&format!("{start} {}  # {comment}\n", scalar(json))),
    }
}

/// Writes a key that a null removed. It must stay a comment, because templates do not see it.
fn removed(row: &Row, indent: &str, out: &mut String) {
    out.push_str(&format!("{indent}# {}: removed by {}\n", printable(&row.key()), comment(row)));
}

fn comment(row: &Row) -> String {
    let value = |cell: &Cell| match cell {
        Cell::Known(json) => printable_json(json),
        Cell::Hidden => HIDDEN.to_owned(),
    };
    let replaced = row.replaced.iter().map(|(cell, from)| format!(" < {} ({})", value(cell), printable(&from.text)));
    let unread: String = row.unread.iter().map(|one| format!(" {}", unread(one).trim_end())).collect();
    format!("{}{}{unread}", printable(&row.from.text), replaced.collect::<String>())
}
