//! Argo CD's view of our resources: runs `config/argocd/health.lua` with Lua 5.1, as Argo CD does.

use mlua::{Lua, LuaSerdeExt as _, Table};
use serde_json::{Value, json};

const SCRIPT: &str = include_str!("../config/argocd/health.lua");

/// Returns the health of a resource: status and message.
fn health(resource: &Value) -> (String, String) {
    let lua = Lua::new();
    lua.globals().set("obj", lua.to_value(resource).unwrap()).unwrap();
    let health: Table = lua.load(SCRIPT).eval().unwrap();
    (health.get("status").unwrap(), health.get("message").unwrap())
}

#[test]
fn health_follows_the_conditions_as_kstatus_does() {
    let of = |conditions: &[(&str, &str, &str, &str)]| {
        let conditions = conditions.iter().map(|(kind, status, reason, message)| {
            json!({"type": kind, "status": status, "reason": reason, "message": message})
        });
        let status = json!({"observedGeneration": 2, "conditions": conditions.collect::<Vec<_>>()});
        health(&json!({"metadata": {"generation": 2}, "status": status}))
    };
    let ready = |status| ("Ready", status, "Why", "text");
    for (conditions, status, message) in [
        (&[][..], "Progressing", "waiting for the operator"),
        (&[ready("True")], "Healthy", "Why: text"),
        (&[("Ready", "True", "Ready", "")], "Healthy", "Ready"),
        (&[ready("False")], "Progressing", "Why: text"),
        (&[ready("Unknown")], "Progressing", "Why: text"),
        (&[("Reconciling", "True", "Progressing", "pod"), ready("False")], "Progressing", "Why: text"),
        (&[ready("False"), ("Stalled", "True", "ProgressTimeout", "pod")], "Degraded", "Why: text"),
        (&[ready("True"), ("Stalled", "False", "", "")], "Healthy", "Why: text"),
        (&[ready("True"), ("Suspended", "True", "", "")], "Suspended", "an annotation suspends the resource"),
        (&[ready("True"), ("Paused", "True", "", "")], "Suspended", "an annotation suspends the resource"),
        (&[ready("True"), ("Planned", "True", "WouldChange", "+1 ~0 -0")], "Suspended", "WouldChange: +1 ~0 -0"),
    ] {
        assert_eq!(of(conditions), (status.to_owned(), message.to_owned()), "{conditions:?}");
    }
}

#[test]
fn a_resource_that_the_operator_has_not_seen_is_progressing() {
    let unseen = [
        json!({"metadata": {"generation": 1}}),
        json!({"metadata": {"generation": 1}, "status": {"observedGeneration": -1}}),
        json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True"}]}}),
    ];
    for resource in &unseen {
        assert_eq!(health(resource).0, "Progressing", "{resource}");
    }
}
