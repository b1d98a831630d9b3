//! Which kinds the server serves, and at which paths.

pub(in crate::kube) mod mapping;
pub(in crate::kube) mod resource;
