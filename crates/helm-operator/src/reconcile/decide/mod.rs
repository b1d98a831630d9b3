//! Decides what to do about a resource.

pub(crate) mod causes;
pub(crate) mod compare;
pub(crate) mod health;
pub(crate) mod interruption;
pub(crate) mod memory;
pub(crate) mod override_types;
pub(crate) mod recorded;
pub(crate) mod rollout;
pub(crate) mod schedule;
pub(crate) mod state;
pub(crate) mod triggers;
pub(crate) mod unproven;
pub(crate) mod unserved;
