//! The names of actions.

use strum::IntoStaticStr;

/// What an action does with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
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
        self.into()
    }
}
