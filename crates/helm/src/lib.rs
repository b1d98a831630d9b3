//! Helm charts as Helm v4 reads and renders them: load, merge values, validate, render.
//!
//! Reaches no cluster: what templates look up comes through [`engine::Lookup`].

pub mod chart;
pub mod engine;
pub mod manifest;
pub mod release_name;
pub mod template;

pub mod schema;
pub mod strvals;
pub mod values;
pub mod view;
