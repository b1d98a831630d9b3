//! Long waits: the pauses between reads, and the slot that is released while waiting.

pub(in crate::kube) mod pause;
pub(in crate::kube) mod slot;
