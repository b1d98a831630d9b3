//! To come: toml.
