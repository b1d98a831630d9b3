//! The Secrets and ConfigMaps of `valuesFrom`: what the process knows of them, the watches that keep it current, and their place in a reconcile.

mod registry;
mod values;
mod watch;

pub(crate) use registry::Sources;
pub(super) use values::Loaded;
#[cfg(test)]
pub(super) use watch::{SourceMeta, SourceSink};
