//! The operator's native kinds and their controllers. Charts serve the other kinds; see watches.yaml.

pub mod api;
pub mod controllers;
