//! `lookup`: what a chart may ask of the cluster while it renders. Counterpart: Helm's `pkg/engine/lookup_func.go`.

use go_template::Value;

/// A cluster that templates may read.
///
/// Called while a template runs, so an implementation over the network blocks the thread that renders.
pub trait Lookup: Send + Sync {
    /// The object, or without a name the list; an empty map if there is none.
    ///
    /// # Errors
    /// Why the cluster cannot be asked, such as an unknown kind or a forbidden read.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String>;
}
