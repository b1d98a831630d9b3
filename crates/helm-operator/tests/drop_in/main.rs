//! Tests of an unmodified project of operator-sdk's Helm plugin with this `helm-operator` instead of upstream's:
//! deployed by its manifests, by its OLM bundle, by `make run` and from its image. And tests of the examples without
//! code.
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
