//! Stories about what a process does not see for longer than its limits. Neither a refused read nor the time without contact
//! is a verdict on a release.

use crate::draw;
use crate::faults::{Fault, How, Which};
use crate::process::Setup;
use crate::script::{Action, Script};
use crate::stories::{later, with_service};

/// More than `progressTimeout` in ordered scripts, in milliseconds.
const LONG: std::ops::Range<u64> = 70_000..200_000;

/// The keys of watches.yaml that take a chart back that fails or does not become ready.
const ROLLOUT: &str = "rollout: {steps: [33%, 66%], onFailure: rollback}";

impl Setup {
    /// Returns whether it takes a chart back that fails.
    pub(crate) fn takes_back(&self) -> bool {
        self.watch.contains(ROLLOUT)
    }
}

/// Tells such a story in some scripts, instead of theirs.
pub fn add(random: &mut fastrand::Rng, script: &mut Script) {
    let story = match random.u8(0..32) {
        0 => hidden,
        1 => away_for_long,
        _ => return,
    };
    script.steps.clear();
    story(random, script);
    script.order();
}

/// Tells a story: while an ordered release waits for its Deployment, the server refuses to show any, for longer than the
/// limit. The Deployment becomes ready meanwhile.
fn hidden(random: &mut fastrand::Rng, script: &mut Script) {
    let watch = random.choice(["", "onFailure: uninstall"]).unwrap_or_default();
    script.setups = vec![Setup { watch: watch.into(), ..Setup::default() }];
    script.then(0, with_service(random, "a"));
    if random.bool() {
        let after = later(random);
        script.then(after, with_service(random, "a"));
    }
    let code = random.choice([403, 500]).unwrap_or(500);
    let hidden = Fault::new(Which::Deployments, How::Status(code), random.u64(LONG));
    script.then(random.u64(1000..12_000), Action::Fault(hidden));
    script.then(random.u64(0..1000), Action::Cut);
}

/// Tells a story: a chart reaches the first of several releases, and the server is away for longer than the limit. The
/// release becomes ready meanwhile.
fn away_for_long(random: &mut fastrand::Rng, script: &mut Script) {
    // Without election, the process goes on, and remembers since when it has waited.
    let setup = |chart: &str| Setup { chart: chart.into(), watch: ROLLOUT.into(), elects: false, ..Setup::default() };
    script.setups = vec![setup("web1")];
    for name in ["a", "b", "c"] {
        script.then(random.u64(0..1000), without_dependents(random, name));
    }
    let after = later(random);
    script.then(after, Action::Restart(0, 0, setup("web2")));
    script.then(random.u64(500..15_000), Action::RestartServer(random.u64(LONG), random.u64(0..3000)));
}

/// Returns values without the objects that an ordered release applies after its Deployment, so that it is deployed before
/// that is ready.
fn without_dependents(random: &mut fastrand::Rng, name: &str) -> Action {
    match draw::put(random, name) {
        Action::Put(name, mut values) => {
            ["cache", "broken", "task"].into_iter().for_each(|key| values[key] = false.into());
            Action::Put(name, values)
        }
        other => other,
    }
}
