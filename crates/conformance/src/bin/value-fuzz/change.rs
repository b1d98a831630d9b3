//! Random changes to values.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Returns values to merge over `values`: one to three random changes to existing places.
pub(crate) fn overlay(values: &Value, rng: &mut Rng) -> Value {
    let mut all = json!({});
    for _ in 0..rng.usize(1..=3) {
        let change = part(values, rng);
        merge(&mut all, if change.is_object() { change } else { json!({}) });
    }
    all
}

/// Returns an overlay that changes one place of the value.
fn part(value: &Value, rng: &mut Rng) -> Value {
    match value {
        Value::Object(map) if !map.is_empty() => {
            // Below the top level, maps themselves change too, but rarely: changes inside them reveal more.
            let Some(key) = rng.choice(map.keys()) else { return odd(rng) };
            let inner = &map[key];
            let new = if is_table(inner) && rng.u8(..5) > 0 { part(inner, rng) } else { changed(inner, rng) };
            json!({ key.as_str(): new })
        }
        Value::Object(_) => json!({ "added": odd(rng) }),
        other => changed(other, rng),
    }
}

/// Returns the value with one place in it changed.
fn changed(value: &Value, rng: &mut Rng) -> Value {
    if rng.u8(..6) == 0 {
        return odd(rng);
    }
    match value {
        Value::Bool(flag) => Value::Bool(!flag),
        Value::Number(number) => near(number, rng),
        Value::String(text) => spelled(text, rng),
        Value::Array(items) => items_changed(items, rng),
        Value::Object(map) => table_changed(map, rng),
        Value::Null => odd(rng),
    }
}

fn near(number: &serde_json::Number, rng: &mut Rng) -> Value {
    let whole = number.as_i64().unwrap_or_default();
    rng.choice([
        json!(whole.saturating_add(1)),
        json!(whole.saturating_sub(1)),
        json!(whole.to_string()),
        json!(0),
        json!(-1),
        json!(0.5),
        json!(1e21),
        json!(9_007_199_254_740_993_i64),
    ])
    .unwrap_or_default()
}

fn spelled(text: &str, rng: &mut Rng) -> Value {
    rng.choice([
        json!(""),
        json!(format!("{text}-x")),
        json!(text.to_uppercase()),
        json!(format!("{text}: {text}")),
        json!(format!("{text}\nline")),
        json!([text]),
        json!({ "name": text }),
    ])
    .unwrap_or_default()
}

fn items_changed(items: &[Value], rng: &mut Rng) -> Value {
    let mut items = items.to_vec();
    if items.is_empty() || rng.u8(..4) == 0 {
        items.push(odd(rng));
        return items.into();
    }
    let at = rng.usize(..items.len());
    match rng.u8(..4) {
        0 => _ = items.remove(at),
        1 => items.push(items[at].clone()),
        _ => items[at] = changed(&items[at], rng),
    }
    items.into()
}

fn table_changed(map: &Map<String, Value>, rng: &mut Rng) -> Value {
    let mut map = map.clone();
    let key = rng.choice(map.keys()).cloned();
    match key {
        Some(key) if rng.u8(..3) > 0 => {
            let new = changed(&map[&key], rng);
            map.insert(key, new);
        }
        Some(key) if rng.bool() => map[&key] = Value::Null,
        _ => _ = map.insert("added".into(), odd(rng)),
    }
    map.into()
}

/// Returns a value that templates often do not expect, or that YAML writes in a special way.
fn odd(rng: &mut Rng) -> Value {
    const TEXTS: [&str; 22] = [
        "",
        " ",
        "0",
        "true",
        "no",
        "null",
        "~",
        "1e3",
        "0x1F",
        "1_000",
        "2024-01-01",
        "a: b",
        "- x",
        "# x",
        "{{ .Release.Name }}",
        "{{",
        "one\ntwo\n",
        "ünïcode",
        "'\"",
        "100m",
        "1Gi",
        "a/b:c@d",
    ];
    match rng.u8(..10) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(rng.i64(-2..100)),
        3 => json!({}),
        4 => json!([]),
        5 => json!({ "a": rng.choice(TEXTS), "b": [1, true, null] }),
        6 => json!([{ "name": rng.choice(TEXTS), "value": 1.0 }]),
        _ => json!(rng.choice(TEXTS)),
    }
}

fn is_table(value: &Value) -> bool {
    value.as_object().is_some_and(|map| !map.is_empty())
}

/// Merges maps key by key, as Helm merges `-f` files.
pub(crate) fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                match below.get_mut(&key) {
                    Some(known) if known.is_object() && value.is_object() => merge(known, value),
                    _ => _ = below.insert(key, value),
                }
            }
        }
        (below, above) => *below = above,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // Tests may panic.
mod tests {
    use super::*;

    fn sample() -> Value {
        json!({ "image": { "tag": "1", "pull": true }, "ports": [{ "port": 80 }, { "port": 81 }], "replicas": 1, "empty": {} })
    }

    #[test]
    fn one_seed_gives_one_change() {
        for seed in 0..50 {
            let of = || overlay(&sample(), &mut Rng::with_seed(seed));
            assert_eq!(of(), of());
        }
    }

    #[test]
    fn every_place_is_reached_and_every_change_is_a_table() {
        let mut reached = std::collections::BTreeSet::new();
        for seed in 0..500 {
            let change = overlay(&sample(), &mut Rng::with_seed(seed));
            for (key, value) in change.as_object().unwrap() {
                reached.insert(key.clone());
                reached.extend(value.as_object().into_iter().flatten().map(|(inner, _)| format!("{key}.{inner}")));
            }
        }
        for place in ["image", "image.tag", "image.pull", "ports", "replicas", "empty", "empty.added"] {
            assert!(reached.contains(place), "{place} is never changed: {reached:?}");
        }
    }

    #[test]
    fn a_chart_without_values_gets_one() {
        let change = overlay(&json!({}), &mut Rng::with_seed(1));
        assert!(change.get("added").is_some(), "{change}");
    }

    #[test]
    fn tables_merge_and_everything_else_replaces() {
        let mut below = json!({ "a": { "b": 1, "c": [1] }, "d": 1 });
        merge(&mut below, json!({ "a": { "c": [2] }, "d": {} }));
        assert_eq!(below, json!({ "a": { "b": 1, "c": [2] }, "d": {} }));
    }
}
