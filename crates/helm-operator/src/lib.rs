#![doc = include_str!("../README.md")]

mod cause;
pub mod report;
mod spelling;

mod mask;
mod values;
mod values_from;

mod cel;
pub mod watches;

pub mod metrics;
pub mod telemetry;

mod runtime;

mod client;
mod events;
mod lease;
mod server;

mod status;

mod preflight;
mod record_key;

mod rendering;

mod view;

pub mod context;

pub mod native;
pub mod testing;

pub mod hooks;

mod reconcile;

pub mod charts;

pub mod manager;

pub mod cli;

pub use charts::Wakes;
pub use manager::Operator;
pub use runtime::backoff;
pub use runtime::key::ResourceKey;

/// glibc's allocator keeps what large lists took, and musl's makes rendering half as slow again (docs/decisions/0030-memory-per-resource.md).
#[cfg(all(target_os = "linux", feature = "mimalloc"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The guide's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/hybrid.md")]
struct Guide;

/// The tutorial's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reconciler.md")]
struct Tutorial;
