//! Decides what to do about a resource. Pure.

pub(crate) mod held;
pub(crate) mod recorded;

pub(crate) mod beside;
pub(crate) mod left_alone;

pub(crate) mod additions;
pub(crate) mod arrivals;
pub(crate) mod drift;
pub(crate) mod last_failure;
pub(crate) mod memory;
pub(crate) mod remembered;
pub(crate) mod uninstall_notes;

pub(crate) mod quotations;

pub(crate) mod health;

pub(crate) mod action_room;
pub(crate) mod rollout;

pub(crate) mod milestones;
pub(crate) mod progression;
pub(crate) mod turns;
pub(crate) mod unseen;

pub(crate) mod gate;

pub(crate) mod alike;
pub(crate) mod hidden;
pub(crate) mod inputs;
pub(crate) mod state;

pub(crate) mod interruption;
pub(crate) mod schedule;
