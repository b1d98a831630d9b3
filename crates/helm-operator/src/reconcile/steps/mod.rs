//! The steps of a reconcile, one file each, in the order in which a resource meets them.

pub(crate) mod competitor;
pub(crate) mod deploy;
pub(crate) mod detect;
pub(crate) mod extensions;
pub(crate) mod impersonation;
pub(crate) mod remediate;
pub(crate) mod render;
pub(crate) mod repair;
pub(crate) mod resync;
pub(crate) mod sources;
pub(crate) mod spec;
pub(crate) mod supersede;
pub(crate) mod uninstall;
pub(crate) mod uninstall_wait;
