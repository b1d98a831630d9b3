#![doc = include_str!("../README.md")]

pub mod report;

pub mod metrics;

pub mod runtime;

pub mod events;
pub mod lease;

pub mod client;
pub mod notifications;
pub mod server;
pub mod shards;
pub mod traces;

pub mod rights;

pub mod context;

pub mod reconciler;
pub mod webhooks;

pub mod testing;

pub mod manager;

pub use manager::Manager;
pub use runtime::backoff;
pub use runtime::key::ResourceKey;
