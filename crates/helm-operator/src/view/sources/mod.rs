//! What the process knows about the Secrets and ConfigMaps of `valuesFrom`, and the watches that keep it current.

pub(crate) mod named;
pub(crate) mod registry;
pub(crate) mod watch;
