//! Decodes `renderOn`: what besides a resource's own inputs lets its chart be rendered again.

use super::Error;
use super::decode::wrong;
use super::node::{Entry, Node};
use crate::spelling::nearest;

/// The words.
const TRIGGERS: [&str; 1] = ["capabilities"];

/// What lets a chart be rendered again: `renderOn` in watches.yaml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderOn {
    /// The kinds that the cluster serves, and its version.
    pub capabilities: bool,
}

/// Decodes `renderOn: [capabilities]`.
pub(super) fn render_on(entry: &Entry) -> Result<RenderOn, Error> {
    let bad = |what: String| Err(wrong(entry, what));
    let Node::List(items) = &entry.value else {
        return bad(format!("expected a list, found {}", entry.value.type_name()));
    };
    let mut triggers = RenderOn::default();
    for item in items {
        match item {
            Node::String(word) if word == "capabilities" => triggers.capabilities = true,
            Node::String(other) => {
                let meant = nearest(other, TRIGGERS).map(|meant| format!("; did you mean {meant:?}?"));
                return bad(format!(
                    "unknown trigger {other:?}; the only one is capabilities{}",
                    meant.unwrap_or_default()
                ));
            }
            other => return bad(format!("expected a string, found {}", other.type_name())),
        }
    }
    Ok(triggers)
}
