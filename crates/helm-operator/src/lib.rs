#![doc = include_str!("../README.md")]

pub mod annotations;
pub mod backoff;
pub mod cli;
pub mod context;
pub mod events;
pub mod hooks;
pub mod lease;
mod lookup;
pub mod manager;
pub mod metrics;
pub mod native;
pub mod reconciler;
pub mod report;
pub mod server;
pub mod status;
pub mod telemetry;
pub mod values;
pub mod watches;

/// musl's allocator makes rendering half as slow again; glibc's is fine.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
