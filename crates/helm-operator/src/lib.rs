#![doc = include_str!("../README.md")]

mod spelling;
mod terminal;

mod mask;
mod values;
mod values_from;

mod cel;
mod dependencies;
pub mod watches;

mod origins;

mod chart_metrics;
pub mod telemetry;

mod status;

mod plan;

mod preflight;
mod record_key;

mod pull;

mod rendering;

mod view;

pub mod hooks;

mod reconcile;

mod inspect;

pub mod charts;

mod web;

pub mod manager;

pub mod cli;

pub use charts::Wakes;
/// The crate [`controller`] provides controllers in Rust; an operator needs no other dependency for them.
pub use controller::{ResourceKey, backoff, context, metrics, reconciler, report, testing, webhooks};
pub use manager::Operator;

/// glibc's allocator does not return the memory of large lists, and with musl's, rendering takes half as long again
/// (docs/decisions/0030-memory-per-resource.md).
#[cfg(all(target_os = "linux", feature = "mimalloc"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compiles the guide's examples.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/hybrid.md")]
struct Guide;

/// Compiles the tutorial's examples.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reconciler.md")]
struct Tutorial;

/// Compiles the examples of the page on webhooks.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/webhooks.md")]
struct WebhooksGuide;
