//! The names of actions.

/// What an action does with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Creates its first revision.
    Install,
    /// Creates a further revision.
    Upgrade,
    /// Returns to an earlier revision.
    Rollback,
    /// Runs the tests of its deployed revision.
    Test,
    /// Deletes it.
    Uninstall,
}

impl Action {
    /// Returns the name in annotations and metrics, such as `install`.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Install => "install",
            Action::Upgrade => "upgrade",
            Action::Rollback => "rollback",
            Action::Test => "test",
            Action::Uninstall => "uninstall",
        }
    }
}
