//! Decodes `renderOn`: what besides a resource's own inputs lets its chart be rendered again.

use super::node::Node;
use crate::spelling::nearest;

const TRIGGERS: [&str; 1] = ["capabilities"];

/// The events that trigger a new render: `renderOn` in watches.yaml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderOn {
    /// The kinds that the cluster serves, and its version.
    pub capabilities: bool,
}

/// Decodes `renderOn: [capabilities]`.
pub(super) fn render_on(value: &Node) -> Result<RenderOn, String> {
    let mut triggers = RenderOn::default();
    for item in value.list()? {
        match item.string()? {
            "capabilities" => triggers.capabilities = true,
            other => {
                let meant = nearest(other, TRIGGERS).map(|meant| format!("; did you mean {meant:?}?"));
                let meant = meant.unwrap_or_default();
                return Err(format!("unknown trigger {other:?}; the only one is capabilities{meant}"));
            }
        }
    }
    Ok(triggers)
}
