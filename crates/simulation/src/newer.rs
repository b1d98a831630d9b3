//! Additions to the scripts of some seeds: what later versions of the simulation can do.

use crate::draw;
use crate::faults::{Fault, How, Which};
use crate::process::Setup;
use crate::registry::Mood;
use crate::script::{Action, Script};
use crate::stories::{later, with_service};

/// Adds to a script, or leaves it as it is.
pub fn add(random: &mut fastrand::Rng, script: &mut Script) {
    match random.u8(0..12) {
        0 => (0..random.usize(1..4)).for_each(|_| suspend(random, script)),
        1 => (0..random.usize(1..3)).for_each(|_| restart_server(random, script)),
        2 => (0..random.usize(1..4)).for_each(|_| kill_after(random, script)),
        3 => (0..random.usize(1..3)).for_each(|_| stall(random, script)),
        4..7 => ordered(random, script),
        7..9 => pulled(random, script),
        _ => {}
    }
}

/// Adds a rest to some scripts, and a restored backup to others. `end` is the time at which the script's story ends, in
/// milliseconds.
pub fn add_more(random: &mut fastrand::Rng, script: &mut Script, end: Option<u64>) {
    match (random.u8(0..16), end) {
        // Later steps must not repair anything before the checks have seen it.
        (0..4, Some(end)) => script.insert(end + random.u64(0..2000), Action::Rest),
        (4, _) => {
            let at = moment(random, script);
            script.insert(at, Action::Rest);
        }
        (5, _) => restore(random, script),
        (6, _) => restored(random, script),
        _ => {}
    }
}

/// Writes client-side in some scripts, always or with some configurations.
pub fn add_writes(random: &mut fastrand::Rng, script: &mut Script) {
    let of_four = match random.u8(0..8) {
        0 => 4,
        1 => 2,
        _ => return,
    };
    script.configure(|setup| {
        if random.u8(0..4) < of_four {
            setup.add("apply: client");
        }
    });
}

/// Changes the chart's Job in some scripts, or drops it, while upgrades fail or are interrupted.
pub fn add_jobs(random: &mut fastrand::Rng, script: &mut Script) {
    if random.u8(0..8) > 0 {
        return;
    }
    for step in &mut script.steps {
        if let Action::Put(_, values) = &mut step.what {
            (values["job"], values["task"]) = (random.u8(0..3).into(), (random.u8(0..4) > 0).into());
        }
    }
    for _ in 0..random.usize(0..4) {
        let puts = script.steps.iter().filter(|step| matches!(step.what, Action::Put(..)));
        let Some(at) = random.choice(puts.map(|step| step.at_ms).collect::<Vec<_>>()) else { return };
        match random.u8(0..3) {
            0 => {
                let refused = Fault::new(Which::Services, How::Status(422), random.u64(1000..20_000));
                script.insert(at, Action::Fault(refused));
            }
            _ => {
                let (process, down) = (random.usize(0..script.setups.len()), random.u64(0..3000));
                script.insert(at, Action::KillAfter(process, random.u64(1..15), down));
            }
        }
    }
}

/// Lets the caches of the server lag in some scripts. This shows that the operator never relies on a list at any version: a
/// release whose record such a list lacks would be installed anew.
pub fn add_lag(random: &mut fastrand::Rng, script: &mut Script) {
    if random.u8(0..16) == 0 {
        script.insert(0, Action::Lag(random.u64(1..100)));
    }
}

/// Lets the chart make certificates in some scripts, which it keeps once they are made.
pub fn add_certificates(random: &mut fastrand::Rng, script: &mut Script) {
    if random.u8(0..8) > 0 {
        return;
    }
    for step in &mut script.steps {
        if let Action::Put(_, values) = &mut step.what {
            values["tls"] = "guarded".into();
        }
    }
}

/// Restores the server from a backup in the middle of other actions.
fn restore(random: &mut fastrand::Rng, script: &mut Script) {
    // All processes have started by then.
    let backup = moment(random, script).max(5000);
    script.insert(backup, Action::Backup);
    let at = backup + if random.bool() { random.u64(8000..15_000) } else { random.u64(8000..90_000) };
    script.insert(at, restoring(random));
}

/// Draws a restart of the server with the last backup.
fn restoring(random: &mut fastrand::Rng) -> Action {
    Action::Restore(random.u64(0..12_000), if random.bool() { 0 } else { random.u64(0..6000) })
}

/// Adds a story: a restore loses the changes since the backup, and other changes follow.
fn restored(random: &mut fastrand::Rng, script: &mut Script) {
    script.steps.clear();
    script.then(0, with_service(random, "a"));
    let after = if random.bool() { random.u64(5000..8000) } else { later(random) };
    script.then(after, Action::Backup);
    let backup = script.steps.last().map_or(0, |step| step.at_ms);
    for _ in 0..random.usize(1..4) {
        let since = match random.u8(0..5) {
            0 => Action::Delete("a".into(), String::new()),
            1 => Action::Remove(draw::object(random, "a")),
            2 => with_service(random, "b"),
            _ => with_service(random, "a"),
        };
        script.then(random.u64(0..15_000), since);
    }
    let restoring = restoring(random);
    script.then(random.u64(0..8000), restoring);
    // Every watch has seen a later version than the backup's.
    script.steps.last_mut().into_iter().for_each(|step| step.at_ms = step.at_ms.max(backup + 8001));
    let name = random.choice(["a", "a", "b"]).unwrap_or("a");
    script.then(random.u64(0..20_000), with_service(random, name));
    if random.bool() {
        draw::go_on(random, script);
    }
}

/// Gives the chart an order: in the script as it is, or in a story about order.
fn ordered(random: &mut fastrand::Rng, script: &mut Script) {
    let story = match random.u8(0..5) {
        0 => Some(killed_while_it_waits as fn(&mut fastrand::Rng, &mut Script)),
        1 => Some(never_ready as fn(&mut fastrand::Rng, &mut Script)),
        2 => Some(uninstalled_and_killed as fn(&mut fastrand::Rng, &mut Script)),
        _ => None,
    };
    if let Some(story) = story {
        script.steps.clear();
        story(random, script);
        draw::go_on(random, script);
    }
    script.order();
}

/// Takes the chart from a registry that fails: in the script as it is, or in a story about registries.
fn pulled(random: &mut fastrand::Rng, script: &mut Script) {
    let is_pinned = random.u8(0..3) == 0;
    let story = match random.u8(0..4) {
        0 => Some(away_at_the_start as fn(&mut fastrand::Rng, &mut Script)),
        1 => Some(away_for_good as fn(&mut fastrand::Rng, &mut Script)),
        2 => Some(pushed_meanwhile as fn(&mut fastrand::Rng, &mut Script)),
        _ => None,
    };
    match story {
        Some(story) => {
            script.steps.clear();
            story(random, script);
        }
        None => {
            for _ in 0..random.usize(1..5) {
                let (at, what) = (moment(random, script), fail(random, is_pinned));
                script.insert(at, what);
            }
        }
    }
    let chart = if is_pinned { "pinned" } else { "range" };
    script.configure(|setup| setup.chart = chart.to_owned());
}

/// Draws what happens to the registry.
fn fail(random: &mut fastrand::Rng, is_pinned: bool) -> Action {
    match random.u8(0..6) {
        0..2 => Action::Push(random.choice(["1.1.0", "2.0.0", "2.1.0"]).unwrap_or("1.1.0").to_owned()),
        2 if is_pinned => Action::MoveTag,
        3 => Action::ForgetCharts,
        _ => Action::Registry(mood(random), random.u64(1000..60_000)),
    }
}

fn mood(random: &mut fastrand::Rng) -> Mood {
    let moods = [Mood::Away, Mood::Silent, Mood::Status(503), Mood::Status(404), Mood::Wrong, Mood::Wrong, Mood::Cut];
    random.choice(moods).unwrap_or(Mood::Away)
}

/// Adds a story: the registry fails while a process starts that has no chart yet.
fn away_at_the_start(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, Action::Registry(mood(random), random.u64(1000..200_000)));
    script.then(random.u64(0..30_000), with_service(random, "a"));
    draw::go_on(random, script);
}

/// Adds a story: the registry fails permanently, but running processes keep working.
fn away_for_good(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    script.then(later(random), Action::Registry(mood(random), 0));
    draw::go_on(random, script);
}

/// Adds a story: a newer version is there while resources are reconciled, and the registry fails while it is fetched.
fn pushed_meanwhile(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    script.then(later(random), Action::Push("2.0.0".into()));
    if random.bool() {
        script.then(random.u64(0..12_000), Action::Registry(mood(random), random.u64(1000..40_000)));
    }
    for _ in 0..random.usize(1..4) {
        script.then(random.u64(0..6000), with_service(random, "a"));
    }
    die(random, script);
    draw::go_on(random, script);
}

impl Script {
    /// Applies the chart's objects in the order of their groups.
    pub fn order(&mut self) {
        self.configure(Setup::order);
    }

    /// Changes every configuration.
    pub fn configure(&mut self, mut change: impl FnMut(&mut Setup)) {
        self.setups.iter_mut().for_each(&mut change);
        for step in &mut self.steps {
            if let Action::Restart(_, _, setup) = &mut step.what {
                change(setup);
            }
        }
    }
}

/// Adds a story: processes die at a write, or while a group waits for another one.
fn killed_while_it_waits(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    for _ in 0..random.usize(1..5) {
        die(random, script);
    }
    script.then(later(random), with_service(random, "a"));
    die(random, script);
}

/// Adds a story: a group never becomes ready, in an install or in an upgrade, until the chart is another one.
fn never_ready(random: &mut fastrand::Rng, script: &mut Script) {
    let good: Vec<Setup> = script.setups.clone();
    let bad = |setup: &Setup| Setup { chart: "web3".into(), ..setup.clone() };
    let is_upgrade = random.bool();
    if !is_upgrade {
        script.setups = good.iter().map(bad).collect();
    }
    script.then(0, with_service(random, "a"));
    if is_upgrade {
        restart(random, script, good.iter().map(bad).collect());
    }
    if random.bool() {
        die(random, script);
    }
    script.then(random.u64(0..200_000), with_service(random, "a"));
    restart(random, script, good);
}

/// Adds a story: processes die while they uninstall a release.
fn uninstalled_and_killed(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    let after = later(random);
    // Another operator's finalizer holds a later group up.
    let held = random.choice(["services/a-cache", "deployments/a-server", "configmaps/a-config"]).unwrap_or_default();
    script.then(after, Action::Note(held.into(), "other".into()));
    script.then(random.u64(0..2000), Action::Delete("a".into(), String::new()));
    for _ in 0..random.usize(0..4) {
        die(random, script);
    }
}

/// Restarts all processes with other configurations.
fn restart(random: &mut fastrand::Rng, script: &mut Script, setups: Vec<Setup>) {
    let mut after = later(random);
    for (process, setup) in setups.into_iter().enumerate() {
        script.then(std::mem::take(&mut after), Action::Restart(process, random.u64(0..2000), setup));
    }
}

/// Kills all processes soon.
fn die(random: &mut fastrand::Rng, script: &mut Script) {
    let (mut after, writes, down) = (random.u64(0..4000), random.u64(0..15), random.u64(0..2000));
    for process in 0..script.setups.len() {
        let death = if writes == 0 { Action::Kill(process, down) } else { Action::KillAfter(process, writes, down) };
        script.then(std::mem::take(&mut after), death);
    }
}

/// Kills a process by one of its next writes.
fn kill_after(random: &mut fastrand::Rng, script: &mut Script) {
    let process = random.usize(0..script.setups.len());
    let kill = Action::KillAfter(process, random.u64(1..20), random.u64(0..5000));
    let at = moment(random, script);
    script.insert(at, kill);
}

/// Suspends everything, usually for longer than the lease.
fn suspend(random: &mut fastrand::Rng, script: &mut Script) {
    let ms = if random.u8(0..4) == 0 { random.u64(100..9000) } else { random.u64(9000..40_000) };
    let at = moment(random, script);
    script.insert(at, Action::Suspend(ms));
}

/// Makes a process lose the lease while its controllers keep running for a while.
fn stall(random: &mut fastrand::Rng, script: &mut Script) {
    let process = random.usize(0..script.setups.len());
    let at = moment(random, script);
    script.insert(at, Action::Stall(process, random.u64(5000..40_000)));
}

/// Restarts the server in the middle of other actions.
fn restart_server(random: &mut fastrand::Rng, script: &mut Script) {
    let restart = Action::RestartServer(random.u64(500..12_000), random.u64(0..6000));
    let at = moment(random, script);
    script.insert(at, restart);
}

/// Draws a time soon after a step.
fn moment(random: &mut fastrand::Rng, script: &Script) -> u64 {
    let after = script.steps.get(random.usize(0..script.steps.len().max(1))).map_or(0, |step| step.at_ms);
    after + if random.bool() { random.u64(0..1000) } else { random.u64(0..12_000) }
}
