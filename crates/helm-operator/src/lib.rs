#![doc = include_str!("../README.md")]

mod annotations;
mod cause;
mod cel;
pub mod charts;
pub mod cli;
mod client;
pub mod context;
mod events;
mod findings;
pub mod hooks;
mod lease;
mod lookup;
pub mod manager;
mod mask;
pub mod metrics;
pub mod native;
mod operator;
mod preflight;
mod reconcile;
mod record_key;
mod rendering;
pub mod report;
mod runtime;
mod server;
mod spelling;
mod status;
pub mod telemetry;
pub mod testing;
mod values;
mod values_from;
mod view;
pub mod watches;

pub use charts::Wakes;
pub use operator::Operator;
pub use runtime::backoff;
pub use view::primary::ResourceKey;

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
