//! Integration tests in one binary: the manifests in `config`, and the running operator.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

mod account;
mod architecture;
mod argocd;
mod canary;
mod chart;
mod chart_kinds;
mod client_side;
mod config;
mod docs;
mod drift;
mod generated;
mod hooks;
mod hostile;
mod identity;
mod inputs;
mod model;
mod native;
mod node;
mod operator;
mod ownership;
mod parity;
mod policies;
mod quiet;
mod ready;
mod recorded;
mod recreate;
mod rendered;
mod resource;
mod rights;
mod scaffold;
mod scopes;
mod take_over;
mod time;
mod values;
mod webhook;
