//! The lookups of a render, so that each is sent to the server once.

use std::collections::HashMap;
use std::sync::Mutex;

use go_template::Value;
use helm::engine::LookupError;
use outside::sync::lock;

use crate::rendering::lookup::{Query, value};

/// The maximum size, in bytes, of the responses that a render keeps.
const KEPT: usize = 4 << 20;

/// The kept responses of one render. They are kept as text, because templates may modify decoded values.
#[derive(Default)]
pub(crate) struct Repeated {
    answers: HashMap<Query, Option<Box<[u8]>>>,
    bytes: usize,
}

impl Repeated {
    fn keep(&mut self, query: Query, json: Option<Vec<u8>>) {
        let bytes = json.as_ref().map_or(0, Vec::len);
        if self.bytes + bytes <= KEPT {
            self.bytes += bytes;
            self.answers.insert(query, json.map(Vec::into_boxed_slice));
        }
    }
}

/// Returns the result of a lookup for templates, and calls `ask` unless the response is kept.
///
/// # Errors
/// Fails if `ask` fails, or if the response is not JSON.
pub(crate) fn once(
    kept: &Mutex<Repeated>,
    query: Query,
    ask: impl FnOnce(&Query) -> Result<Option<Vec<u8>>, LookupError>,
) -> Result<Value, LookupError> {
    if let Some(json) = lock(kept).answers.get(&query) {
        return value(json.as_deref());
    }
    let json = ask(&query)?;
    let found = value(json.as_deref())?;
    lock(kept).keep(query, json);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use go_encoding::json;

    use super::*;

    #[test]
    fn an_answer_is_asked_for_once_and_templates_change_only_their_own_copy() {
        let (kept, mut asked) = (Mutex::default(), 0);
        let mut ask = |name: &str, answer: Option<&str>| {
            once(&kept, Query::new("v1", "ConfigMap", "ns", name), |_| {
                asked += 1;
                Ok(answer.map(|json| json.as_bytes().to_vec()))
            })
            .unwrap()
        };
        let Value::Map(first) = ask("a", Some(r#"{"x":1}"#)) else { panic!("no map") };
        first.insert("x", Value::from("changed"));
        assert_eq!(json::to_serde(&ask("a", None)), serde_json::json!({"x": 1}));
        assert_eq!(json::to_serde(&ask("b", None)), serde_json::json!({}));
        assert_eq!(json::to_serde(&ask("b", Some("{}"))), serde_json::json!({}));
        let large = format!("\"{}\"", "x".repeat(KEPT));
        ask("c", Some(&large));
        ask("c", Some(&large));
        assert_eq!(asked, 4, "what is too large to keep is asked for again");
    }
}
