#![doc = include_str!("../README.md")]

pub mod json;
pub mod toml;
pub mod yaml;
