//! The chart controller: keeps each custom resource's release in line with its chart and values.
//!
//! `chart_controller` is the type that an operator's author configures, and `config` its settings. `start` runs it,
//! `pulled` with a chart that is fetched, `watches` and `object_watches` feed it, and `handlers` handles what they report.
//! `cluster` holds what all chart controllers of the process share.

pub(crate) mod chart_controller;
pub mod config;

pub(crate) mod start;

pub(crate) mod pulled;

mod capabilities;

pub(crate) mod handlers;
pub(crate) mod object_watches;
pub(crate) mod resource_census;
pub(crate) mod served_instead;
pub(crate) mod watches;

pub(crate) mod cluster;

pub(crate) mod findings;
pub(crate) mod previews;
pub(crate) mod rehearsals;
pub(crate) mod running;

#[cfg(test)]
pub(crate) mod tests;

pub use crate::hooks::extensions::Wakes;
pub use crate::mask::Published;
pub use crate::rendering::request::{RenderError, Rendered, Renderer, Request};
pub use crate::values::{Error as SpecError, Spec};
pub use chart_controller::ChartController;
pub use config::{ChartConfig, Rendering};
pub use controller::runtime::priority::Priority;
