//! Shows the hooks of a recorded revision.

use helm_release::release::{Hook as RecordedHook, HookEvent};
use serde_json::Value;

use super::model::Hook;

/// Returns the hooks, without those that only `helm test` runs.
pub(crate) fn hooks(recorded: &[RecordedHook]) -> Vec<Hook> {
    recorded.iter().filter(|hook| !is_test(hook)).map(hook).collect()
}

fn is_test(hook: &RecordedHook) -> bool {
    hook.events.iter().all(|event| *event == HookEvent::Test)
}

fn hook(hook: &RecordedHook) -> Hook {
    let words = |value: Result<Value, serde_json::Error>| {
        value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    Hook {
        object: format!("{} {:?}", hook.kind, hook.name),
        events: hook.events.iter().map(|event| words(serde_json::to_value(event))).collect(),
        phase: words(serde_json::to_value(hook.last_run.phase)),
        started: hook.last_run.started_at,
        completed: hook.last_run.completed_at,
    }
}
