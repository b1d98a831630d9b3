//! A few seeds, as often as the tests run; `make simulate` plays more.

use std::sync::atomic::{AtomicU64, Ordering};

use simulation::run::play;
use simulation::script::Script;

#[test]
fn a_seed_decides_everything() {
    for seed in 1..4 {
        let script = Script::of(seed);
        let (first, second) = (play(&script), play(&script));
        assert_eq!(first, second, "seed {seed}");
        assert!(first.steps.0 > 100, "seed {seed}: {} steps", first.steps.0);
    }
}

#[test]
fn nothing_is_lost_whatever_goes_wrong() {
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let seed @ ..=30 = next.fetch_add(1, Ordering::Relaxed) {
                    let script = Script::of(seed);
                    let report = play(&script);
                    let violation = report.violation.map(|violation| violation.what);
                    assert_eq!(violation, None, "make simulate SEED={seed}");
                }
            });
        }
    });
}
