//! How a long wait pauses, and what it gives up meanwhile.

pub(in crate::kube) mod pause;
pub(in crate::kube) mod slot;
