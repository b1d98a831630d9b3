//! Helm charts and releases: load, merge values, render exactly as Helm v4 does, record, apply.
//!
//! Reaches a cluster only in `storage`, `kube` and `engine::lookup`, each behind a trait with an in-memory twin.

pub mod chart;
pub mod engine;
pub mod manifest;
pub mod template;

pub mod path_match;
pub mod schema;
pub mod strvals;
pub mod values;

pub mod glob;
pub mod json;
pub mod regex;
pub mod semver;
pub mod time;
pub mod toml;
pub mod yaml;

pub mod action;
pub mod kube;
pub mod release;
pub mod storage;

mod processor_time;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod vectors;
