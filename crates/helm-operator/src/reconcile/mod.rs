//! Keeps one resource's release in line with its chart and values.
//!
//! `observe` reads what is true, `decide` says what to do, `context` loops; `steps` act; `report` records the outcome once.
//! Counterpart: operator-sdk's `internal/helm/controller` and helm-operator-plugins' `pkg/reconciler`.

pub(crate) mod context;
pub(crate) mod decide;
pub(crate) mod failure;
pub(crate) mod observe;
pub(crate) mod report;
pub(crate) mod shared;
pub(crate) mod steps;
