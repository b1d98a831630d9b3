//! Live objects: their metadata, owners and readiness.

mod bounds;
pub(in crate::kube) mod live;
pub(in crate::kube) mod ownership;
pub(in crate::kube) mod readiness;
pub(in crate::kube) mod whole;
