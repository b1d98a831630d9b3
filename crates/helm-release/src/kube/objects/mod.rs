//! The objects of a manifest: parsed, ordered, and decorated with a release's metadata; and the requests in their
//! annotations.

pub(in crate::kube) mod aggregated;
pub(in crate::kube) mod ca_bundle;
pub(in crate::kube) mod decoded;
pub(in crate::kube) mod decorate;
pub(in crate::kube) mod documents;
pub(in crate::kube) mod duplicate;
pub(in crate::kube) mod expiry;
pub(in crate::kube) mod object;
pub(in crate::kube) mod order;
pub(in crate::kube) mod pointer;
pub(in crate::kube) mod rules;
