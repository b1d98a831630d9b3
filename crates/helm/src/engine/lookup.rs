//! `lookup`: how templates read the cluster. Counterpart: Helm's `pkg/engine/lookup_func.go`.

use go_template::Value;

/// The reason why the cluster cannot be read. The template fails with the same text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LookupError(String);

impl LookupError {
    /// Creates an error with this message, which must not contain values of the object, because it may be a Secret.
    pub fn new(message: impl Into<String>) -> LookupError {
        LookupError(message.into())
    }
}

/// A cluster that templates can read.
///
/// Templates call it during a render, so an implementation that uses the network blocks the rendering thread.
pub trait Lookup: Send + Sync {
    /// Returns the object, or the list of objects if `name` is empty. Returns an empty map if there is no such object.
    ///
    /// # Errors
    /// The cluster does not respond, does not know the kind, or forbids the read.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, LookupError>;
}
