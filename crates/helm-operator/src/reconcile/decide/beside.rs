//! Judges the records that a release left in its own namespace when `storageNamespace` moved them to another. Pure.

use crate::reconcile::decide::recorded::was_never_deployed;
use crate::status::condition;
use crate::view::primary::Primary;
use crate::view::release::ReleaseRecords;

/// What records in the release's own namespace tell about the release of a resource that has no records here and whose
/// status names no release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nothing: there are no such records, or the release may have been uninstalled since then.
    Nothing,
    /// An action was at work when they moved, or had deployed the release before the status said so.
    AtWork,
    /// An install was begun. It did not succeed yet, or it was continued and undone since then.
    Begun,
}

/// Judges the records that this operator wrote for a resource. They stay when the release is uninstalled, but the status says
/// then that nothing is installed.
pub(crate) fn judge(release: &ReleaseRecords, primary: &Primary) -> Beside {
    let status = &primary.status;
    let ready = status.find(condition::READY);
    let is_at_work = status.is_unwritten() || ready.is_some_and(|ready| *ready.status == *"Unknown");
    if is_at_work {
        return Beside::AtWork;
    }
    let says_nothing = status.says_nothing_is_installed();
    match was_never_deployed(release) {
        // It can be continued or deleted again without harm.
        true if primary.deleting || !says_nothing => Beside::Begun,
        // The attempt after the one that failed, or the one whose answer was lost, may have deployed it.
        false if !says_nothing => Beside::AtWork,
        _ => Beside::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use helm_release::release::Status;
    use helm_release::storage::Marks;
    use serde_json::{Value, json};

    use super::Beside::{AtWork, Begun, Nothing};
    use super::*;
    use crate::view::primary::Received;

    fn primary(conditions: &Value, is_deleting: bool) -> Primary {
        let mut object = json!({
            "apiVersion": "example.com/v1", "kind": "Shop", "spec": {}, "status": {"conditions": conditions},
            "metadata": {"name": "a", "namespace": "ns", "uid": "u1"},
        });
        if is_deleting {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        serde_json::from_str::<Received>(&object.to_string()).unwrap().primary
    }

    #[test]
    fn the_status_shows_whether_a_release_that_it_does_not_name_is_what_the_records_beside_it_say() {
        let ready = |status: &str, reason: &str| json!([{"type": "Ready", "status": status, "reason": reason}]);
        let (at_work, gone) = (ready("Unknown", "Progressing"), ready("False", "NotInstalled"));
        let (none, failed) = (json!([]), ready("False", "InstallError"));
        let others = json!([{"type": "Backup", "status": "True"}]);
        for (conditions, recorded, alive, deleted) in [
            (&none, Status::PendingInstall, AtWork, AtWork),
            (&none, Status::Deployed, AtWork, AtWork),
            (&others, Status::PendingInstall, AtWork, AtWork),
            (&at_work, Status::PendingInstall, AtWork, AtWork),
            (&at_work, Status::Deployed, AtWork, AtWork),
            (&failed, Status::PendingInstall, Begun, Begun),
            (&failed, Status::Failed, Begun, Begun),
            (&failed, Status::Deployed, AtWork, AtWork),
            (&gone, Status::PendingInstall, Nothing, Begun),
            (&gone, Status::Deployed, Nothing, Nothing),
        ] {
            let release = ReleaseRecords::written_by_us(&[(recorded, Marks::default())]);
            let judged = [false, true].map(|is_deleting| judge(&release, &primary(conditions, is_deleting)));
            assert_eq!(judged, [alive, deleted], "{conditions}, {recorded:?}");
        }
    }
}
