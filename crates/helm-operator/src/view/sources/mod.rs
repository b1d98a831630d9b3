//! The Secrets and ConfigMaps of `valuesFrom`: what the process knows of them, and the watches that keep it current.

pub(crate) mod registry;
pub(crate) mod watch;
