//! Tests of resources whose content no schema bounds, besides a valid one.

use super::*;

/// Returns nested lists of this depth.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!([]), |inner, _| json!([inner]))
}

/// Returns statuses that no version of this operator wrote.
fn statuses() -> Vec<Value> {
    vec![
        Value::Null,
        json!("text"),
        json!([1]),
        json!({"conditions": "text", "deployedRelease": 7}),
        json!({"conditions": [null, 1, {"type": 1, "status": {}}], "deployedRelease": {"manifest": {}, "name": []}}),
        json!({"conditions": [{"type": "ReleaseFailed", "status": "True", "lastTransitionTime": "no time"}]}),
        json!({"other": nested(400), "lastHandled": nested(60)}),
        json!({"deployedRelease": {"revision": -1, "version": 1e300}, "objects": vec![0; 100_000]}),
    ]
}

#[tokio::test(start_paused = true)]
async fn resources_and_statuses_of_any_shape_stop_no_other_and_are_served() {
    let world = World::new(spec());
    let mut keys = Vec::new();
    let specs = [json!("text"), json!([1]), Value::Null, json!({"x": nested(100)}), json!({"x": vec![0; 100_000]})];
    for (n, body) in specs.into_iter().enumerate() {
        keys.push(world.add("ns", &format!("spec{n}"), body));
    }
    for (n, status) in statuses().into_iter().enumerate() {
        let name = format!("status{n}");
        let (path, mut odd) = primary("ns", &name, json!({}));
        odd["status"] = status;
        odd["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/reconcile-period": "60s"});
        world.server.put(&path, odd, "user");
        keys.push(ResourceKey::new("ns", &name));
    }
    for key in [key()].iter().chain(&keys) {
        world.reconcile_one(key).await;
        let condition = world.condition_of(key, "Ready").or(world.condition_of(key, "Irreconcilable"));
        assert!(condition.is_some(), "{key} has no condition of ours");
    }
    assert_eq!(world.state("Ready"), "True/Ready");
}
