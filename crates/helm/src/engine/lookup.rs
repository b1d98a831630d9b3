//! `lookup`: how templates read the cluster. Counterpart: Helm's `pkg/engine/lookup_func.go`.

use go_template::Value;

/// Why the cluster cannot be read. The template fails with the same text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LookupError(String);

impl LookupError {
    /// An error with this message. The message must not contain values of the object, which may be a Secret.
    pub fn new(message: impl Into<String>) -> LookupError {
        LookupError(message.into())
    }
}

/// A cluster that templates can read.
///
/// Templates call it while they run, so an implementation over the network blocks the rendering thread.
pub trait Lookup: Send + Sync {
    /// Returns the object, or the list if `name` is empty. Returns an empty map if there is none.
    ///
    /// # Errors
    /// The cluster does not answer, does not know the kind, or forbids the read.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, LookupError>;
}
