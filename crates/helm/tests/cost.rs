//! What one render costs, in allocations: a number that does not depend on the machine. A change may not raise it by a
//! tenth unseen.

#![allow(clippy::unwrap_used)] // A test may panic.
use std::path::Path;

use go_template::Map;
use helm::chart::Chart;
use helm::engine::{Capabilities, DEFAULT_API_VERSIONS, Engine, KubeVersion, ReleaseOptions};
use helm::view::{self, Nulls};

/// Charts and the allocations of one render. If a render takes less now, write down the new number.
const BUDGETS: [(&str, u64); 2] = [("../../helm-charts/memcached", 358), ("tests/charts/mixed", 1931)];

fn render(engine: &Engine, capabilities: &Capabilities) {
    let user = Map::default();
    let view = engine.resolve(&user, &mut Vec::new()).unwrap();
    let merged = view::coalesce(&view, &user, Nulls::Remove, &mut Vec::new()).unwrap();
    view::validate(&view, &merged).unwrap();
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    engine.execute(&view, &merged, &release, capabilities, None).unwrap();
}

#[test]
fn a_render_allocates_no_more_than_before() {
    let kube = KubeVersion::bare("v1.36.0", "1", "36");
    let capabilities = Capabilities::new(kube, DEFAULT_API_VERSIONS.iter().copied());
    for (chart, budget) in BUDGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(chart);
        let engine = Engine::new(Chart::load(&folder).unwrap());
        // The first render fills caches.
        render(&engine, &capabilities);
        let found = allocation_counter::measure(|| render(&engine, &capabilities)).count_total;
        let range = budget * 9 / 10..=budget * 11 / 10;
        assert!(range.contains(&found), "a render of {chart} takes {found} allocations; the budget is {budget}");
    }
}
