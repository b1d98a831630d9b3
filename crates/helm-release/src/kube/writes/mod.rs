//! Every write to an object: apply, create, recreate, delete, leave behind.

pub(in crate::kube) mod apply;
pub(in crate::kube) mod autoscaler;
pub(in crate::kube) mod check;
pub(in crate::kube) mod client_side;
pub(in crate::kube) mod definition;
pub(in crate::kube) mod delete;
pub(in crate::kube) mod failures;
pub(in crate::kube) mod form;
pub(in crate::kube) mod found;
pub(in crate::kube) mod inspect;
pub(in crate::kube) mod leave;
pub(in crate::kube) mod limit;
pub(in crate::kube) mod managed_fields;
pub(in crate::kube) mod reach;
pub(in crate::kube) mod read;
pub(in crate::kube) mod recreate;
pub(in crate::kube) mod write;
