//! Answers the API server's questions about objects before it stores them, and converts them between versions.
//!
//! [`Validate`] and [`Mutate`] are admission webhooks of one kind; a conversion is a pair of [`TryFrom`] between the
//! Rust types of two versions. [`Webhooks`] collects them. Every replica answers; the leader keeps the API server's
//! configuration current.

mod abandoned;
mod admission;
mod answer;
mod certificate;
mod configuration;
mod conversion;
mod deep;
mod disputes;
mod files;
mod follow;
mod growth;
mod in_memory;
mod inherited;
mod keeper;
mod merge;
mod publish;
mod published;
mod registry;
mod review;
mod serve;
mod settings;
#[cfg(test)]
mod tests;
mod unknown;
#[cfg(test)]
pub(crate) mod watched;
mod weight;

pub use admission::{Admission, FailurePolicy, Mutate, Operation, Rejection, Request, Validate, Warnings};
pub(crate) use follow::Certificates;
pub(crate) use keeper::NeedsCertificate;
pub(crate) use publish::Publisher;
pub use registry::Webhooks;
pub(crate) use serve::router;
pub use settings::Settings;
pub(crate) use settings::{Endpoint, Replicas};
