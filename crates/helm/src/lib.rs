#![doc = include_str!("../README.md")]

pub mod chart;
pub mod engine;
pub mod manifest;
pub mod release_name;
pub mod template;

pub mod schema;
pub mod strvals;
pub mod values;
pub mod view;
