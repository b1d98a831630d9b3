//! What the process knows without a request: resources, releases, their objects, and the sources of values.

pub(crate) mod cache;
pub(crate) mod dependents;
pub(crate) mod primary;
pub(crate) mod record_cache;
pub(crate) mod release;
pub(crate) mod releases;
pub(crate) mod sources;
pub(crate) mod tombstones;
