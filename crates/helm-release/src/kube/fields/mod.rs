//! Who owns which fields of an object: other managers, older managers of ours, autoscalers.

pub(in crate::kube) mod handover;
pub(in crate::kube) mod migrate;
pub(in crate::kube) mod omitted;
pub(in crate::kube) mod ownership_loss;
pub(in crate::kube) mod replaced;
pub(in crate::kube) mod unapplied;
pub(in crate::kube) mod unowned;
