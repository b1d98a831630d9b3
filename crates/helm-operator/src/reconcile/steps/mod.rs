//! The steps of a reconcile, one file each, in the order in which a resource encounters them.

pub(crate) mod dependencies;
pub(crate) mod override_types;
pub(crate) mod resource;
pub(crate) mod sources;
pub(crate) mod triggers;

pub(crate) mod competitor;
pub(crate) mod impersonation;
pub(crate) mod namespace_age;
pub(crate) mod plan;
pub(crate) mod release_namespace;

pub(crate) mod causes;
pub(crate) mod compare;
pub(crate) mod decorate;
pub(crate) mod extensions;
pub(crate) mod hidden_kinds;
pub(crate) mod queues;
pub(crate) mod render;
pub(crate) mod rollout;
pub(crate) mod unproven;
pub(crate) mod unserved;

pub(crate) mod action_room;
pub(crate) mod begun_uninstall;
pub(crate) mod deploy;

pub(crate) mod chart_tests;
pub(crate) mod remediate;
pub(crate) mod supersede;

pub(crate) mod detect;
pub(crate) mod marks;
pub(crate) mod repair;
pub(crate) mod resync;

pub(crate) mod finalizer;
pub(crate) mod give_up;
pub(crate) mod uninstall;
pub(crate) mod uninstall_revision;
pub(crate) mod uninstall_stop;
pub(crate) mod uninstall_wait;
pub(crate) mod unrecorded;
