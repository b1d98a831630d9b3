//! Follows operator-sdk's tutorial from an empty folder with the real program, and runs the result on a real control
//! plane.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

mod charts;
mod folder;
#[path = "../drop_in/process.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod process;
mod reload;
mod rights;
mod tutorial;
mod undeploy;
