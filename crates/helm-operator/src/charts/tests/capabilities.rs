//! Tests of charts that render again when the cluster serves other kinds.

use super::hooks;
use super::reporting::published;
use super::*;
use crate::charts::capabilities::follow;
use crate::watches::{ChartTests, OnTestFailure, RenderOn};

/// Creates a controller whose charts render on these triggers.
fn world(capabilities: bool, stub: Arc<Stub>) -> World {
    on(World::new(spec()).server, capabilities, stub)
}

fn on(server: Arc<MemoryApi>, capabilities: bool, stub: Arc<Stub>) -> World {
    World::with_events(server, stub, |settings| settings.render_on = RenderOn { capabilities })
}

/// Returns a renderer whose process has just started, and whose first discovery finds these kinds.
fn finding(kinds: &str) -> Arc<Stub> {
    let stub = Stub { is_settling: true.into(), ..Stub::default() };
    serve(&stub, kinds);
    Arc::new(stub)
}

fn settle(stub: &Stub) {
    stub.is_settling.store(false, Ordering::SeqCst);
}

fn serve(stub: &Stub, kinds: &str) {
    *stub.kinds.lock().unwrap() = kinds.to_owned();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_appears_or_goes_is_a_revision_only_by_choice() {
    for is_on in [false, true] {
        let stub = Arc::new(Stub::default());
        let world = world(is_on, stub.clone());
        world.reconcile().await;
        assert_eq!(world.requests().await, 0);
        serve(&stub, "Monitors");
        world.reconcile().await;
        let expected = if is_on { ("1 with Monitors", "2 deployed") } else { ("1", "1 deployed") };
        assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!(expected.0), expected.1));
        if is_on {
            let events = published(&world).await;
            let why = "Normal Upgraded x1: upgraded release \"web\" to revision 2: the cluster serves other kinds";
            assert!(events.contains(&why.to_owned()), "{events:#?}");
            serve(&stub, "");
            world.reconcile().await;
            assert_eq!((world.value_of("a"), world.history().last().unwrap().as_str()), (json!("1"), "3 deployed"));
            assert_eq!(world.requests().await, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn kinds_that_change_nothing_make_no_revision() {
    let stub = Arc::new(Stub::default());
    let world = world(true, stub.clone());
    world.reconcile().await;
    world.edit(|p| p["spec"]["maps"] = json!([]));
    world.reconcile().await;
    serve(&stub, "Monitors");
    world.reconcile().await;
    assert_eq!(world.history().last().unwrap(), "2 deployed", "no object contains them");
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn kinds_that_a_render_discovers_make_no_second_revision() {
    let stub = Arc::new(random());
    let world = world(true, stub.clone());
    *stub.discovers.lock().unwrap() = "Monitors".to_owned();
    world.reconcile().await;
    let made = world.value_of("a");
    world.reconcile().await;
    assert_eq!((world.history(), world.value_of("a")), (vec!["1 deployed".to_owned()], made));
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn kinds_that_a_process_finds_at_its_start_make_a_revision_only_once_they_have_settled() {
    for value in ["1", "2"] {
        let first = world(true, Arc::new(Stub::default()));
        first.reconcile().await;
        let stub = finding("Monitors");
        let world = on(first.server, true, stub.clone());
        world.reconcile().await;
        assert_eq!((world.value_of("a"), world.history()), (json!("1"), vec!["1 deployed".to_owned()]));
        assert_eq!((world.requests().await, stub.renders.load(Ordering::SeqCst)), (0, 0));
        // Another reason to render does not wait for them.
        world.edit(|p| p["spec"]["value"] = value.into());
        for _ in 0..2 {
            world.reconcile().await;
            settle(&stub);
        }
        assert_eq!((world.value_of("a"), world.history().len()), (json!(format!("{value} with Monitors")), 2));
        assert_eq!(world.requests().await, 0, "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_shows_what_follows_from_kinds_that_have_not_settled() {
    let first = world(true, Arc::new(Stub::default()));
    first.reconcile().await;
    let world = on(first.server, true, finding("Monitors"));
    world.edit(|p| p["metadata"]["annotations"] = json!({"helm.sdk.operatorframework.io/dry-run": "true"}));
    world.reconcile().await;
    let planned = world.condition("Planned").unwrap_or_default();
    assert!(planned.contains("/WouldChange/"), "{planned}");
    assert_eq!((world.value_of("a"), world.history()), (json!("1"), vec!["1 deployed".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_failed_its_tests_is_tried_with_other_kinds_only_once_they_have_settled() {
    let server = World::new(hooks::with_hooks(json!([hooks::hook("check", "test")]))).server;
    let on = |server: Arc<MemoryApi>, stub: Arc<Stub>| {
        World::with_events(server, stub, |settings| {
            settings.render_on = RenderOn { capabilities: true };
            let on_failure = OnTestFailure::Rollback;
            settings.chart_tests = ChartTests { enable: true, on_failure, ..ChartTests::default() };
        })
    };
    let reconcile = async |world: &World, how: &str| {
        for _ in 0..2 {
            hooks::reconcile(world, how).await;
        }
    };
    let first = on(server, Arc::new(Stub::default()));
    reconcile(&first, "Complete").await;
    first.edit(|p| p["spec"]["value"] = "2".into());
    reconcile(&first, "Failed").await;
    let undone = ["1 superseded", "2 superseded", "3 deployed"];
    assert_eq!(first.history(), undone);
    let stub = finding("Monitors");
    let world = on(first.server, stub.clone());
    reconcile(&world, "Complete").await;
    assert_eq!((world.value_of("a"), world.history()), (json!("1"), undone.map(str::to_owned).to_vec()));
    settle(&stub);
    reconcile(&world, "Complete").await;
    let newest = world.history().pop().unwrap();
    assert_eq!((world.value_of("a"), newest.as_str()), (json!("2 with Monitors"), "4 deployed"));
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_install_is_continued_although_the_next_process_finds_other_kinds() {
    let server = World::new(hooks::with_hooks(json!([hooks::hook("migrate", "pre-install")]))).server;
    let world = on(server, true, Arc::new(Stub::default()));
    hooks::killed_after(&world, 30).await;
    let stub = finding("Monitors");
    let world = on(world.server, true, stub.clone());
    hooks::reconcile(&world, "Complete").await;
    let runs = || hooks::count(&world, &format!("POST {}", hooks::JOBS));
    assert_eq!((world.value_of("a"), world.history(), runs()), (json!("1"), vec!["1 deployed".to_owned()], 1));
    world.reconcile().await;
    assert_eq!(world.history(), ["1 deployed"]);
    settle(&stub);
    world.reconcile().await;
    assert_eq!((world.value_of("a"), world.history().len(), runs()), (json!("1 with Monitors"), 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_kinds_wakes_every_resource_of_such_a_watch() {
    for (is_on, settles) in [(false, false), (true, false), (true, true)] {
        let stub = finding("");
        let world = world(is_on, stub.clone());
        world.reconcile().await;
        world.open();
        let woken = async || {
            let woken = tokio::time::timeout(SECOND * 70, world.shared.queue.next()).await;
            woken.inspect(|key| world.shared.queue.done(key)).is_ok()
        };
        let check = async {
            while woken().await {}
            match settles {
                true => settle(&stub),
                false => serve(&stub, "Monitors"),
            }
            woken().await
        };
        let is_woken = tokio::select! {
            is_woken = check => is_woken,
            () = follow(&world.shared) => unreachable!("it has no end"),
        };
        assert_eq!(is_woken, is_on);
    }
}
