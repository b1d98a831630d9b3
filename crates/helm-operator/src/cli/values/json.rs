//! Everything that is known about the values, for programs.

use helm::origins::Role;
use serde_json::{Value, json};

use super::shown::Shown;
use super::text::printable_json;
use crate::origins::Given;
use crate::origins::rows::{Cell, From, Row, SetBy};

pub(super) fn of(shown: &Shown) -> String {
    let document = json!({
        "resource": {
            "apiVersion": shown.api_version,
            "kind": shown.kind,
            "namespace": shown.namespace,
            "name": shown.name,
        },
        "chart": shown.chart,
        "values": shown.rows.iter().map(row).collect::<Vec<Value>>(),
        "notes": shown.notes,
    });
    // Line ends are the document's own; those of values are already escaped.
    let lines: Vec<String> = format!("{document:#}").lines().map(printable_json).collect();
    format!("{}\n", lines.join("\n"))
}

fn row(row: &Row) -> Value {
    let mut one = set(&row.value, &row.from);
    one["path"] = row.key().into();
    let replaced: Vec<Value> = row.replaced.iter().map(|(cell, from)| set(cell, from)).collect();
    if !replaced.is_empty() {
        one["replaced"] = replaced.into();
    }
    if row.is_removed {
        one["removed"] = true.into();
    }
    let unread = row.unread.iter().map(
        |unread| json!({"path": unread.path.join("."), "nearest": unread.nearest, "documented": unread.is_documented}),
    );
    let unread: Vec<Value> = unread.collect();
    if !unread.is_empty() {
        one["unread"] = unread.into();
    }
    one
}

fn set(cell: &Cell, from: &From) -> Value {
    match cell {
        Cell::Known(text) => {
            json!({"value": serde_json::from_str::<Value>(text).unwrap_or_default(), "origin": origin(from)})
        }
        Cell::Hidden => json!({"value": super::HIDDEN, "hidden": true, "origin": origin(from)}),
    }
}

fn origin(from: &From) -> Value {
    let mut origin = match &from.set_by {
        SetBy::Chart(default) => {
            let of = match default.role {
                Role::Chart => "chart",
                Role::Subchart => "subchart",
                Role::Parent => "parent",
                Role::Import => "import",
            };
            json!({"from": "default", "of": of, "file": default.file, "line": default.line})
        }
        SetBy::Given(Given::Source(source)) => json!({
            "from": "valuesFrom", "kind": source.key.kind.as_str(), "name": &*source.key.name, "key": source.values_key,
        }),
        SetBy::Given(Given::Spec) => json!({"from": "spec"}),
        SetBy::Given(Given::Override { key, from_environment }) => {
            json!({"from": "overrideValues", "key": key, "environment": from_environment})
        }
        SetBy::Helm => json!({"from": "helm"}),
    };
    origin["text"] = from.text.as_str().into();
    origin
}
