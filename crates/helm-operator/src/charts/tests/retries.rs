//! Tests of failed resources besides healthy ones: neither uses the permits of the other.

use controller::runtime::workers::serve;
use tokio_util::sync::CancellationToken;

use crate::charts::tests::*;

const HOPELESS: usize = 12;

/// Adds a resource that fails after a while, in one of two namespaces.
fn hopeless(world: &World, n: usize) -> ResourceKey {
    world.add(["ns", "other"][n % 2], &format!("bad{n}"), json!({"broken": true, "seconds": 10, "n": n}))
}

/// Creates a controller with many failed resources: more than the permits for retries can serve.
async fn failing() -> (World, Vec<ResourceKey>) {
    let world = World::new(spec());
    let keys: Vec<ResourceKey> = (0..HOPELESS).map(|n| hopeless(&world, n)).collect();
    let is_failing = |key| world.condition_of(key, "Irreconcilable").is_some();
    let failed = wait_until(|| keys.iter().all(is_failing));
    work_until(&world, failed).await;
    (world, keys)
}

async fn work_until(world: &World, until: impl Future<Output = ()>) {
    work(world, until, ConcurrencyLimit::default().for_controller(4)).await;
}

async fn work(world: &World, until: impl Future<Output = ()>, workers: controller::runtime::concurrency::Permits) {
    let watches = async {
        loop {
            world.feed();
            tokio::time::sleep(SECOND / 2).await;
        }
    };
    world.open();
    let shutdown = CancellationToken::new();
    tokio::select! {
        () = until => {}
        () = watches => unreachable!(),
        _ = serve(&world.shared, &shutdown, workers) => unreachable!(),
    }
}

async fn wait_until(is_met: impl Fn() -> bool) {
    let met = async {
        while !is_met() {
            tokio::time::sleep(SECOND / 10).await;
        }
    };
    tokio::time::timeout(SECOND * 600, met).await.unwrap();
}

fn is_ready(world: &World, key: &ResourceKey) -> bool {
    world.condition_of(key, "Ready").is_some_and(|ready| ready.starts_with("True/"))
}

#[tokio::test(start_paused = true)]
async fn resources_that_failed_take_no_turn_from_good_ones() {
    let (world, bad) = failing().await;
    let began = Instant::now();
    let good: Vec<ResourceKey> = (0..20)
        .map(|n| world.add(["ns", "other"][n % 2], &format!("good{n}"), json!({"maps": [format!("g{n}")]})))
        .collect();
    work_until(&world, wait_until(|| good.iter().all(|key| is_ready(&world, key)))).await;
    assert!(began.elapsed() < 5 * SECOND, "{:?}", began.elapsed());
    // There are only four workers, and each attempt takes ten seconds.
    let history = |key| world.shared.memory.of(key).failure.as_ref().map_or(0, |failed| failed.retry.failures);
    work_until(&world, wait_until(|| bad.iter().all(|key| history(key) >= 2))).await;
    assert!(began.elapsed() < 300 * SECOND, "each of them is tried again: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_corrected_resource_passes_hopeless_ones_and_leaves_the_line() {
    let (world, bad) = failing().await;
    let (path, fixed) = (PRIMARY.replace("/web", "/bad6"), &bad[6]);
    let edit = |spec: Value| {
        let mut primary = world.server.object(&path).unwrap();
        (primary["spec"], primary["metadata"]["generation"]) = (spec, 2.into());
        world.server.put(&path, primary, "user");
    };
    let began = Instant::now();
    edit(json!({"maps": ["fixed"]}));
    work_until(&world, wait_until(|| is_ready(&world, fixed))).await;
    assert!(began.elapsed() <= 22 * SECOND, "the running attempt and one more at most: {:?}", began.elapsed());
    let began = Instant::now();
    edit(json!({"maps": ["fixed", "again"]}));
    work_until(&world, wait_until(|| world.maps().contains(&"again".to_owned()))).await;
    assert!(began.elapsed() <= 2 * SECOND, "it is one of the good ones again: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_corrected_while_retries_rest_skips_its_hopeless_attempt() {
    let renderer = Arc::new(Stub::default());
    let world = World::rendering(World::new(json!({"broken": true})).server, renderer.clone());
    work_until(&world, wait_until(|| world.condition("Irreconcilable").is_some())).await;
    let rested = Instant::now() + 60 * SECOND;
    *renderer.rests_until.lock().unwrap() = Some(rested);
    let attempts = renderer.renders.load(Ordering::SeqCst);
    work_until(&world, tokio::time::sleep(30 * SECOND)).await;
    world.edit(|primary| primary["spec"] = spec());
    work_until(&world, wait_until(|| is_ready(&world, &key()))).await;
    assert!(Instant::now() >= rested);
    assert_eq!(renderer.renders.load(Ordering::SeqCst), attempts + 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_resource_in_line_is_deleted_at_once() {
    let (world, bad) = failing().await;
    let path = PRIMARY.replace("/web", "/bad6");
    let began = Instant::now();
    let mut primary = world.server.object(&path).unwrap();
    primary["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.server.put(&path, primary, "user");
    let is_released = || {
        let primary = world.server.object(&path);
        primary.is_none_or(|primary| primary["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty))
    };
    work_until(&world, wait_until(is_released)).await;
    assert!(began.elapsed() <= 2 * SECOND, "{:?}", began.elapsed());
    world.server.remove(&path);
    work_until(&world, wait_until(|| world.shared.cache.primary(&bad[6]).is_none())).await;
    assert!(world.shared.memory.of(&bad[6]).failure.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_outage_sends_nobody_to_the_line() {
    let world = World::new(spec());
    world.server.fail_after(Some(0));
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    assert!(!world.shared.memory.of(&key()).is_retry());
    world.server.fail_after(None);
    tokio::time::advance(SECOND).await;
    world.feed();
    reconcile::reconcile(&world.shared, &key(), &(), Priority::Normal).await;
    assert_eq!(world.maps(), ["a", "b", "c"]);
}
