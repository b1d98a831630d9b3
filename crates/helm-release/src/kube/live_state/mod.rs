//! Live objects: their metadata, whose they are, whether they are ready.

mod bounds;
pub(in crate::kube) mod live;
pub(in crate::kube) mod ownership;
pub(in crate::kube) mod readiness;
pub(in crate::kube) mod whole;
