//! Tests of charts that render again when the cluster serves other kinds.

use super::reporting::published;
use super::*;
use crate::charts::capabilities::follow;
use crate::watches::RenderOn;

/// Creates a controller whose charts render on these triggers.
fn world(capabilities: bool, stub: Arc<Stub>) -> World {
    World::with_events(World::new(spec()).server, stub, |settings| settings.render_on = RenderOn { capabilities })
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
async fn a_change_of_the_kinds_wakes_every_resource_of_such_a_watch() {
    for is_on in [false, true] {
        let stub = Arc::new(Stub::default());
        let world = world(is_on, stub.clone());
        world.reconcile().await;
        world.open();
        let woken = async || {
            let woken = tokio::time::timeout(SECOND * 70, world.shared.queue.next()).await;
            woken.inspect(|key| world.shared.queue.done(key)).is_ok()
        };
        let check = async {
            while woken().await {}
            serve(&stub, "Monitors");
            woken().await
        };
        let is_woken = tokio::select! {
            is_woken = check => is_woken,
            () = follow(&world.shared) => unreachable!("it has no end"),
        };
        assert_eq!(is_woken, is_on);
    }
}
