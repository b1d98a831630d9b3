//! The runtime of a Helm operator, native controllers beside chart controllers: watches.yaml, manager, reconciler, command line.
//!
//! Start at [`manager::Manager`] (the library) or [`cli::main_with`] (a whole program). A chart controller serves each entry of
//! watches.yaml ([`watches::Watch`]); a native one implements [`native::Controller`]. Both get a [`context::Context`].

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
