//! Where a revision is in its life: Helm's `pkg/release/common/status.go`.

use serde::{Deserialize, Serialize};

/// Where a revision is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Its objects were applied: the current revision.
    Deployed,
    /// Uninstalled, its record kept.
    Uninstalled,
    /// A later revision took its place.
    Superseded,
    /// Install or upgrade failed.
    Failed,
    /// Being uninstalled.
    Uninstalling,
    /// The first revision is being applied.
    PendingInstall,
    /// A later revision is being applied.
    PendingUpgrade,
    /// An earlier revision is being applied again.
    PendingRollback,
    /// Not known; also what a status that we don't know is read as.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Status {
    /// Helm's word for it, as in the record's label.
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

    /// Reads the record's label; `Unknown` for any other word.
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

    /// Whether an action was under way when the record was written.
    pub fn is_pending(self) -> bool {
        matches!(self, Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback)
    }
}
