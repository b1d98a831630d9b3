//! Determines the effect of the writes to one object, in the same way for rehearsed and for sent writes.

use super::ChangeKind;

/// What is known of the writes to an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteFacts {
    /// The HTTP status of the final refusal; 0 if there was no response.
    pub(super) refused: Option<u16>,
    pub(super) is_hook: bool,
    /// Whether the object existed before the first write.
    pub(super) existed: bool,
    /// Whether it exists after the last one.
    pub(super) exists: bool,
    pub(super) was_deleted: bool,
    /// Whether it leaves the release and stays.
    pub(super) is_left: bool,
    /// Whether its content differs after the last write.
    pub(super) differs: bool,
    /// Whether any write changes it, even if a later one restores it.
    pub(super) differed: bool,
    pub(super) changes_managers: bool,
}

impl WriteFacts {
    /// Returns what happens to the object; `None` if nothing does.
    pub(super) fn action(self) -> Option<ChangeKind> {
        Some(match (self.existed, self.exists, self.refused) {
            (_, _, Some(409)) => ChangeKind::Conflict,
            (_, _, Some(_)) => ChangeKind::Refused,
            _ if self.is_hook => ChangeKind::Hook,
            (false, false, _) => ChangeKind::Revert,
            (false, true, _) => ChangeKind::Create,
            (true, false, _) => ChangeKind::Delete,
            _ if self.was_deleted => ChangeKind::Recreate,
            _ if self.is_left => ChangeKind::Keep,
            _ if self.differs => ChangeKind::Update,
            _ if self.differed => ChangeKind::Revert,
            _ if self.changes_managers => ChangeKind::Own,
            _ => return None,
        })
    }
}
