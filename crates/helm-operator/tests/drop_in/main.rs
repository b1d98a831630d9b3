//! Tests that a project of operator-sdk's Helm plugin runs, unmodified, on this `helm-operator` in place of upstream's:
//! from its manifests, its OLM bundle, `make run` and its image. Also tests the examples without code.
//!
//! The project is upstream's sample, outside this repository; without it, or without a control plane, the tests print a
//! message and pass.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

mod bundle;
mod dockerfile;
mod e2e;
mod examples;
mod handlebars;
mod image;
mod make;
mod process;
mod project;
mod pulled;
