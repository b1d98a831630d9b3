//! What goes wrong, as data: template, line, column, context and cause.

/// Why a function or method failed. The executor adds which function it was and where.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FuncError {
    /// The function's own message, as Go's `error.Error()` has it.
    #[error("{0}")]
    Message(String),
}

impl FuncError {
    /// An error with Go's text.
    pub fn new(message: impl Into<String>) -> FuncError {
        FuncError::Message(message.into())
    }
}

impl From<String> for FuncError {
    fn from(message: String) -> Self {
        FuncError::Message(message)
    }
}

impl From<&str> for FuncError {
    fn from(message: &str) -> Self {
        FuncError::Message(message.into())
    }
}
