//! Helm charts and releases: load, merge values, render exactly as Helm v4 does, record, apply.
//!
//! Reaches a cluster only in `storage`, `kube` and `engine::lookup`, each behind a trait with an in-memory twin.

pub mod chart;
pub mod engine;
pub mod manifest;
pub mod template;

pub mod schema;
pub mod strvals;
pub mod values;

pub mod action;
pub mod kube;
pub mod release;
pub mod storage;

#[cfg(test)]
mod sample;
