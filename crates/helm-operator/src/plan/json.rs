//! Prints plans as JSON.

use serde_json::{Value, json};

use super::text::differences;
use super::{Change, Plan};
use crate::mask::Mask;

/// Returns a plan as JSON: `resource`, `summary`, `changes`, `writes`, and `notice` if the reconcile fails or waits.
/// Each change has its object, `action` and `diff`, and perhaps `refused`, `losers`, `round` and `unchecked`.
pub(crate) fn json(plan: &Plan, mask: &Mask) -> Value {
    let mut json = json!({
        "resource": plan.resource,
        "summary": plan.summary(),
        "changes": plan.changes.iter().map(|one| change(one, mask)).collect::<Vec<_>>(),
        "writes": plan.writes,
    });
    if let Some(notice) = &plan.notice {
        json["notice"] = json!({
            "fails": notice.is_failure, "reason": notice.reason, "message": mask.hide(notice.message.clone()),
        });
    }
    json
}

fn change(change: &Change, mask: &Mask) -> Value {
    let mut json = json!({
        "object": change.object, "action": change.action, "diff": mask.hide(differences(change)),
    });
    if let Some(refused) = &change.refused {
        json["refused"] = mask.hide(refused.clone()).into();
    }
    if !change.losers.is_empty() {
        json["losers"] = change.losers.clone().into();
    }
    if let Some(round) = change.round {
        json["round"] = round.into();
    }
    if change.is_unchecked {
        json["unchecked"] = true.into();
    }
    json
}
