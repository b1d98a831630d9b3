//! Tests of previews: what a saved chart would change in the releases of a running controller.

use super::super::previews::of_all;
use super::*;

/// Returns the next version of the chart.
fn saved() -> Stub {
    Stub { chart: "two", ..Stub::default() }
}

#[tokio::test(start_paused = true)]
async fn each_deployed_release_shows_what_the_saved_chart_makes_of_it_and_nothing_is_written() {
    let world = World::new(spec());
    let other = world.add("ns", "other", json!({"maps": ["o"], "value": "x"}));
    let new = world.add("ns", "zz-new", json!({"maps": ["n"], "value": "x"}));
    world.reconcile().await;
    world.reconcile_one(&other).await;
    world.feed();
    let writes = world.server.writes();
    let previews = of_all(&world.shared, &saved()).await;
    assert_eq!(previews.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["ns/other", "ns/web"]);
    let [_, web] = &previews[..] else { unreachable!("two releases") };
    let Some(Ok(after)) = &web.after else { panic!("not rendered") };
    assert!(web.before[0].contains(r#""value":"1""#) && after[0].contains(r#""value":"1 by two""#), "{after:?}");
    assert_eq!(world.server.writes(), writes);
    assert_eq!(world.history(), ["1 deployed"]);
    assert!(world.shared.cache.release(&new).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_does_not_render_says_why_and_a_slow_one_holds_up_no_save() {
    let world = World::new(spec());
    world.reconcile().await;
    world.edit(|p| p["spec"]["broken"] = true.into());
    world.feed();
    let previews = of_all(&world.shared, &saved()).await;
    let Some(Err(error)) = &previews[0].after else { panic!("rendered") };
    assert!(error.contains("memcached/templates/a.yaml:3:5"), "{error}");
    world.edit(|p| p["spec"] = json!({"maps": ["a"], "value": "1", "seconds": 60}));
    world.feed();
    let began = Instant::now();
    assert!(of_all(&world.shared, &saved()).await[0].after.is_none());
    assert!(began.elapsed() <= SECOND * 2);
}
