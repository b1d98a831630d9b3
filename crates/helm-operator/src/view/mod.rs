//! What the process knows without a request: resources, releases, their objects, value sources, and what resources wait
//! for.

pub(crate) mod finalizers;
pub(crate) mod primary;

pub(crate) mod release;

pub(crate) mod competitor;
pub(crate) mod record_cache;
pub(crate) mod releases;

pub(crate) mod dependent;

pub(crate) mod chart_names;
pub(crate) mod informers;
pub(crate) mod served;

pub(crate) mod sources;

pub(crate) mod dependencies;

pub(crate) mod coverage;
pub(crate) mod tombstones;

pub(crate) mod cache;
