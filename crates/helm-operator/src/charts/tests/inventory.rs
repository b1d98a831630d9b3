//! Tests of `status.inventory` and `status.history`: what they say, and that they cost no write of their own.

use super::failure_policy::{refuse, retry};
use super::*;

fn status(world: &World) -> Value {
    world.server.object(PRIMARY).unwrap()["status"].clone()
}

/// Returns `REVISION CHART ACTION OUTCOME` for each entry.
fn history(world: &World) -> Vec<String> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("-").to_owned();
    let line =
        |e: &Value| format!("{} {} {} {}", e["revision"], text(e, "chart"), text(e, "action"), text(e, "outcome"));
    status(world)["history"].as_array().into_iter().flatten().map(line).collect()
}

fn ids(world: &World) -> Vec<Value> {
    let entries = status(world)["inventory"]["entries"].clone();
    entries.as_array().into_iter().flatten().map(|entry| entry["id"].clone()).collect()
}

fn status_writes(world: &World) -> usize {
    world.server.log().iter().filter(|line| line.contains("/status")).count()
}

#[tokio::test(start_paused = true)]
async fn a_status_lists_objects_and_revisions_without_a_write_of_their_own() {
    let world = World::new(spec());
    world.reconcile().await;
    assert_eq!(status_writes(&world), 1, "an install writes one status, as without them");
    assert_eq!(ids(&world), ["ns_a__ConfigMap", "ns_b__ConfigMap", "ns_c__ConfigMap"]);
    assert_eq!(history(&world), ["1 memcached-0.1.0 install deployed"]);
    let text = status(&world).to_string();
    assert!(text.contains("\"digest\":\"") && text.contains("\"updated\":\""), "{text}");
    world.edit(|p| p["spec"] = json!({"maps": ["a", "d"], "value": "2"}));
    world.reconcile().await;
    assert_eq!(status_writes(&world), 2);
    assert_eq!(ids(&world), ["ns_a__ConfigMap", "ns_d__ConfigMap"]);
    assert_eq!(history(&world), ["2 memcached-0.1.0 upgrade deployed", "1 memcached-0.1.0 install superseded"]);
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_history_says_why_each_upgrade_was_made() {
    let causes = |world: &World| -> Vec<String> {
        let of = |entry: &Value| format!("{} {}", entry["revision"], entry["cause"].as_str().unwrap_or("-"));
        status(world)["history"].as_array().into_iter().flatten().map(of).collect()
    };
    let world = World::new(spec());
    world.reconcile().await;
    for value in ["2", "3"] {
        world.edit(|p| p["spec"]["value"] = value.into());
        // The process ends before it writes the status of the last one.
        if value == "3" {
            world.server.refuse(|call| call.path.ends_with("/status").then(|| Error::from_status(500, "", "no")));
        }
        world.reconcile().await;
    }
    world.server.accept();
    let restarted = World::on(world.server.clone());
    restarted.reconcile().await;
    let expected = ["3 spec changed (generation 3)", "2 spec changed (generation 2)", "1 -"];
    assert_eq!(causes(&restarted), expected);
}

#[tokio::test(start_paused = true)]
async fn a_failed_upgrade_and_its_rollback_are_in_the_history_with_their_charts() {
    let world = World::new(spec());
    world.reconcile().await;
    refuse(&world, 422);
    world.edit(|p| p["spec"]["value"] = "bad".into());
    world.reconcile().await;
    let failed = [
        "3 memcached-0.1.0 rollback deployed",
        "2 memcached-0.1.0 upgrade failed",
        "1 memcached-0.1.0 install superseded",
    ];
    assert_eq!(history(&world), failed);
    let next: jiff::Timestamp = serde_json::from_value(status(&world)["nextAttempt"].clone()).unwrap();
    assert!(next.duration_since(outside::now()).abs() < jiff::SignedDuration::from_secs(30), "{next}");
    world.server.accept();
    retry(&world).await;
    assert_eq!(status(&world)["nextAttempt"], Value::Null);
    assert_eq!(history(&world)[0], "4 memcached-0.1.0 upgrade deployed");
    assert_eq!(history(&world)[1], "3 memcached-0.1.0 rollback superseded");
    assert_eq!(history(&world)[2..], failed[1..], "the record of revision 1 was pruned");
    assert_eq!(world.history().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_status_of_an_earlier_version_gets_them_with_its_next_change_and_not_before() {
    let world = World::new(spec());
    world.reconcile().await;
    let mut primary = world.server.object(PRIMARY).unwrap();
    for field in ["history", "inventory"] {
        primary["status"].as_object_mut().unwrap().remove(field);
    }
    world.server.put(PRIMARY, primary, "someone");
    let world = World::on(world.server);
    assert_eq!((world.requests().await, history(&world)), (0, vec![]), "a restart writes nothing");
    world.edit(|p| p["spec"]["value"] = "2".into());
    world.reconcile().await;
    assert_eq!((ids(&world).len(), history(&world).len()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_release_and_an_uninstalled_one_list_nothing() {
    let server = World::new(spec()).server;
    let owner = json!({"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x"});
    let labels = json!({"owner": "helm", "name": "web", "version": "1", "status": "deployed"});
    let record = json!({
        "metadata": {"name": "sh.helm.release.v1.web.v1", "labels": labels, "ownerReferences": [owner]},
        "type": "helm.sh/release.v1",
    });
    server.put(&format!("{SECRETS}/sh.helm.release.v1.web.v1"), record, "helm");
    let world = World::on(server);
    world.reconcile().await;
    assert!(world.condition("Irreconcilable").unwrap().contains("ReleaseConflict"));
    assert_eq!((status(&world)["inventory"].clone(), history(&world)), (Value::Null, vec![]));

    let world = World::new(spec());
    world.edit(|p| p["metadata"]["finalizers"] = json!(["other/one"]));
    world.reconcile().await;
    assert_eq!(ids(&world).len(), 3);
    world.delete();
    world.reconcile().await;
    world.reconcile().await;
    assert_eq!(status(&world)["deployedRelease"], Value::Null);
    assert_eq!((status(&world)["inventory"].clone(), history(&world)), (Value::Null, vec![]));
}
