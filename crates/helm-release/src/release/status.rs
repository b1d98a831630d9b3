//! The status of a revision: Helm's `pkg/release/common/status.go`.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// The status of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Status {
    /// The current revision: all its objects are applied.
    Deployed,
    /// Uninstalled with its record kept.
    Uninstalled,
    /// Replaced by a later revision.
    Superseded,
    /// The install, upgrade or rollback failed.
    Failed,
    /// Being uninstalled.
    Uninstalling,
    /// An install is in progress.
    PendingInstall,
    /// An upgrade is in progress.
    PendingUpgrade,
    /// A rollback is in progress.
    PendingRollback,
    /// Helm's `unknown`, and any other status.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Status {
    /// Returns Helm's name for it, as in the record's label.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses the record's label; `Unknown` for any other word.
    pub fn parse(word: &str) -> Status {
        word.parse().unwrap_or_default()
    }

    /// Returns whether an action was in progress when the record was written.
    pub fn is_pending(self) -> bool {
        matches!(self, Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback)
    }

    /// Returns whether an action failed, or was in progress when the record was written.
    pub fn is_unsuccessful(self) -> bool {
        self == Status::Failed || self.is_pending()
    }
}
