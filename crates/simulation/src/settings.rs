//! Stories about a process that restarts with other settings of its releases: which drift it repairs, how often it
//! applies everything again, how many revisions it keeps and how often it retries. At the end, it has none of these
//! settings, so that everything that was tolerated meanwhile must be repaired.

use crate::draw;
use crate::process::Setup;
use crate::script::{Action, Script};
use crate::stories::{later, with_service};

/// Keys of watches.yaml.
const SETTINGS: [&str; 8] = [
    "drift: {policy: detect}",
    "drift: {policy: \"off\"}",
    "drift: {policy: \"off\"}\nretries: 1",
    "watchDependentResources: false",
    "fullResyncPeriod: 30s",
    "maxHistory: 1",
    "retries: 1\nonFailure: keep",
    "maxHistory: 2\nretries: 3",
];

/// Tells such a story in some scripts, instead of theirs.
pub fn add(random: &mut fastrand::Rng, script: &mut Script) {
    if random.u8(0..40) > 0 {
        return;
    }
    let usual = Setup { period: random.choice([60, 10, 0]).unwrap_or(60), ..Setup::default() };
    script.steps.clear();
    script.setups = vec![with_others(random, &usual)];
    script.then(random.u64(0..3000), with_service(random, "a"));
    for _ in 0..random.usize(1..4) {
        let after = if random.bool() { random.u64(0..8000) } else { later(random) };
        meanwhile(random, script, after);
        let other = with_others(random, &usual);
        restart(random, script, other);
    }
    meanwhile(random, script, 1000);
    restart(random, script, usual);
}

/// Returns a configuration with some of the settings.
fn with_others(random: &mut fastrand::Rng, usual: &Setup) -> Setup {
    Setup { watch: random.choice(SETTINGS).unwrap_or_default().to_owned(), ..usual.clone() }
}

/// Appends what a person does, which the process may have to tolerate.
fn meanwhile(random: &mut fastrand::Rng, script: &mut Script, after: u64) {
    let mut after = after;
    for _ in 0..random.usize(1..4) {
        let what = match random.u8(0..8) {
            0..4 => Action::Disturb(draw::object(random, "a")),
            4..6 => Action::Remove(draw::object(random, "a")),
            6 => with_service(random, "a"),
            _ => draw::put(random, "a"),
        };
        script.then(std::mem::replace(&mut after, random.u64(0..5000)), what);
    }
}

/// Appends a restart with this configuration. The process may die soon after.
fn restart(random: &mut fastrand::Rng, script: &mut Script, setup: Setup) {
    script.then(random.u64(0..12_000), Action::Restart(0, random.u64(0..2000), setup));
    if random.u8(0..3) == 0 {
        script.then(random.u64(0..4000), Action::KillAfter(0, random.u64(1..10), random.u64(0..2000)));
    }
}
