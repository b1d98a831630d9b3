//! Tests with an API server that was restored from a backup: its resource versions are smaller than those that the
//! operator has read.

use super::*;

/// Returns all objects of the server.
fn backup(server: &MemoryApi) -> Vec<(String, Value)> {
    server.paths().into_iter().map(|path| (path.clone(), server.object(&path).unwrap())).collect()
}

fn restore(server: &MemoryApi, backup: &[(String, Value)]) {
    server.paths().iter().for_each(|path| server.remove(path));
    backup.iter().for_each(|(path, object)| server.restore(path, object.clone()));
}

#[tokio::test(start_paused = true)]
async fn what_a_restored_server_lists_is_the_truth() {
    let world = World::new(json!({"maps": ["a"], "value": "one"}));
    world.reconcile().await;
    let backup = backup(&world.server);
    let uid = |path: &str| world.server.object(path).unwrap()["metadata"]["uid"].clone();
    let map = format!("{MAPS}/a");
    let before = uid(&map);
    tokio::time::advance(SECOND).await;
    world.edit(|primary| primary["spec"] = json!({"maps": ["a", "b"], "value": "two"}));
    world.reconcile().await;
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);

    tokio::time::advance(SECOND).await;
    restore(&world.server, &backup);
    let asked = world.server.log().len();
    world.reconcile().await;
    let writes: Vec<String> =
        world.server.log()[asked..].iter().filter(|line| !line.starts_with("GET")).cloned().collect();
    assert_eq!((world.history(), world.maps()), (vec!["1 deployed".to_owned()], vec!["a".to_owned()]));
    assert_eq!((world.value_of("a"), uid(&map)), (json!("one"), before.clone()));
    assert!(writes.is_empty(), "all is as the backup had it: {writes:?}");
    assert!(world.state("Ready").starts_with("True"));

    world.edit(|primary| primary["spec"]["value"] = "three".into());
    world.reconcile().await;
    assert_eq!((world.value_of("a"), uid(&map)), (json!("three"), before));
    assert_eq!(world.history(), ["1 superseded", "2 deployed"]);
}

#[tokio::test(start_paused = true)]
async fn the_status_that_a_backup_has_of_a_resource_is_corrected() {
    let world = World::new(json!({"maps": ["a"]}));
    world.work_for(SECOND).await;
    let current = world.server.object(PRIMARY).unwrap();
    let mut earlier = current.clone();
    earlier["status"]["conditions"] = json!([]);
    world.server.put(PRIMARY, earlier, "operator");
    let backup = backup(&world.server);
    world.server.put(PRIMARY, current, "operator");
    world.work_for(SECOND).await;
    assert_eq!(world.state("Ready"), "True/Ready");
    restore(&world.server, &backup);
    world.work_for(SECOND).await;
    assert_eq!(world.state("Ready"), "True/Ready");
}
