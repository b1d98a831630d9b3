//! The chart controller: keeps each custom resource's release in line with its chart and values.
//!
//! `controller` is what an operator's author holds; `start` runs it, `watches` feeds it, `accept` judges what it receives. `cluster` is what all chart
//! controllers of the process share.

pub(crate) mod accept;
pub(crate) mod cluster;
pub(crate) mod controller;
pub(crate) mod previews;
pub(crate) mod served_instead;
pub(crate) mod start;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod versions;
pub(crate) mod watches;

pub use crate::mask::Published;
pub use crate::rendering::request::{RenderError, Renderer, Request};
pub use crate::values::{Error as SpecError, Spec};
pub use controller::{ChartController, Wakes};
