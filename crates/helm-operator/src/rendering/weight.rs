//! How much memory the objects of a render take in the manager, found out by the worker: a small text can hold very many values.

use helm_release::kube::objects_of;
use serde_json::Value;

use super::message::{Failure, Reason};
use super::output::Output;

/// Texts up to this size are not parsed twice: whatever they hold takes a few megabytes.
const LIGHT: usize = 256 << 10;

/// What a value, or a key with its place in a map, takes beside its text, in bytes.
const NODE: u64 = 64;

/// Checks that the objects take at most `most` bytes.
///
/// # Errors
/// They take more.
pub(super) fn check(output: &Output, most: u64) -> Result<(), Failure> {
    let hooks = output.hooks.iter().map(|hook| &hook.manifest);
    let texts =
        || std::iter::once(&output.manifest).chain(hooks.clone()).chain(output.crds.iter().map(|(_, text)| text));
    let is_light = texts().map(String::len).sum::<usize>() <= LIGHT && !texts().any(|text| has_aliases(text));
    if is_light || texts().map(|text| weight_of(text)).sum::<u64>() <= most {
        return Ok(());
    }
    let message = format!(
        "the rendered objects take more than {} MiB in memory (limit: a quarter of --render-memory)",
        most >> 20
    );
    Err(Failure { reason: Reason::RenderLimit, message })
}

/// YAML's aliases repeat whole values.
fn has_aliases(text: &str) -> bool {
    text.contains('&') && text.contains('*')
}

/// The manager reports text that is not a manifest.
fn weight_of(text: &str) -> u64 {
    let objects = objects_of(text).unwrap_or_default();
    objects.iter().map(|object| weight(&object.body)).sum::<u64>() + text.len() as u64
}

/// The reader bounds how deep values nest.
fn weight(value: &Value) -> u64 {
    NODE + match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| NODE + key.len() as u64 + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn checked(data: &str, most: u64) -> Result<(), Failure> {
        let manifest = format!("apiVersion: v1\nkind: X\nmetadata: {{name: a}}\ndata: {data}\n");
        check(&Output { manifest, ..Output::default() }, most)
    }

    #[test]
    fn a_value_weighs_its_text_and_its_place() {
        assert_eq!(weight(&serde_json::json!({"a": ["bc", 1]})), NODE * 5 + 3);
    }

    #[test]
    fn many_small_values_are_too_heavy_and_one_long_text_is_not() {
        let list = format!("[{}1]", "1,".repeat(500_000));
        assert!(checked(&list, 20 * MIB).unwrap_err().message.contains("more than 20 MiB in memory"));
        assert!(checked(&list, 64 * MIB).is_ok());
        assert!(checked(&"x".repeat(1_000_000), 20 * MIB).is_ok());
        assert!(checked("1", 0).is_ok(), "small texts are not weighed");
    }

    #[test]
    fn values_that_aliases_repeat_count_each_time() {
        let lists: String = ('b'..='f')
            .zip('a'..)
            .map(|(to, from)| format!("{to}: &{to} [{}]\n", vec![format!("*{from}"); 10].join(",")))
            .collect();
        let bomb = format!("apiVersion: v1\nkind: X\nmetadata: {{name: a}}\na: &a [1,1,1,1,1,1,1,1,1,1]\n{lists}");
        let output = Output { manifest: bomb, ..Output::default() };
        let refused = objects_of(&output.manifest).is_err() || check(&output, 20 * MIB).is_err();
        assert!(refused);
    }
}
