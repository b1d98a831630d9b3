//! What the process knows about the objects of `dependsOn`, and the watches that keep it current.

mod kind;
pub(crate) mod lists;
pub(crate) mod registry;
pub(crate) mod seen;
mod served;
mod state;
mod watch;

#[cfg(test)]
mod tests;
