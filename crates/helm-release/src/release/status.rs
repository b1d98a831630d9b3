//! The status of a revision: Helm's `pkg/release/common/status.go`.

use serde::{Deserialize, Serialize};

/// The status of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
        match self {
            Status::Unknown => "unknown",
            Status::Deployed => "deployed",
            Status::Uninstalled => "uninstalled",
            Status::Superseded => "superseded",
            Status::Failed => "failed",
            Status::Uninstalling => "uninstalling",
            Status::PendingInstall => "pending-install",
            Status::PendingUpgrade => "pending-upgrade",
            Status::PendingRollback => "pending-rollback",
        }
    }

    /// Parses the record's label; `Unknown` for any other word.
    pub fn parse(word: &str) -> Status {
        match word {
            "deployed" => Status::Deployed,
            "uninstalled" => Status::Uninstalled,
            "superseded" => Status::Superseded,
            "failed" => Status::Failed,
            "uninstalling" => Status::Uninstalling,
            "pending-install" => Status::PendingInstall,
            "pending-upgrade" => Status::PendingUpgrade,
            "pending-rollback" => Status::PendingRollback,
            _ => Status::Unknown,
        }
    }

    /// Returns whether an action was in progress when the record was written.
    pub fn is_pending(self) -> bool {
        matches!(self, Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback)
    }
}
