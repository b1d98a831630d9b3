//! JSON, YAML and TOML to and from template values, as Helm reads and writes them.

pub mod json;
pub mod toml;
pub mod yaml;
