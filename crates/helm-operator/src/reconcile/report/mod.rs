//! Reports a reconcile: status, events and log. Redacts values.

pub(crate) mod faults;
pub(crate) mod other_operator;

pub(crate) mod blame;
pub(crate) mod headline;
pub(crate) mod redact;

pub(crate) mod diagnose;
pub(crate) mod hook_log;
pub(crate) mod pods;
pub(crate) mod rollout;

pub(crate) mod fields;
pub(crate) mod history;
pub(crate) mod unread_values;

pub(crate) mod status_events;
pub(crate) mod status_requests;
pub(crate) mod status_writer;
