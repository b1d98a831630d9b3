//! Shows a release as people ask about it: what is deployed, why it is not ready, what happened, and what is next.
//!
//! Pure. A caller reads ([`seen`] is what it has read), [`build`] makes one model of it, and every view renders that
//! [`model`]: [`text`] for a terminal, serde for machines.

pub(crate) mod seen;

pub(crate) mod model;
pub(crate) mod state;

pub(crate) mod cause;
pub(crate) mod hooks;
pub(crate) mod nodes;

pub(crate) mod build;

pub(crate) mod overview;
pub(crate) mod revisions;

pub(crate) mod text;
