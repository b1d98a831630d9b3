//! Stories about hooks that fail, do not end or take long to go, and about Jobs that the server refuses to delete for a
//! while. Some scripts are such a story, others get such trouble in between.

use crate::faults::{Fault, How, Which};
use crate::hooks::Trouble;
use crate::process::Setup;
use crate::script::{Action, Script};
use crate::stories::{later, with_service};

/// Tells such a story in some scripts, instead of theirs, and lets hooks have trouble in others.
pub fn add(random: &mut fastrand::Rng, script: &mut Script) {
    let story = match random.u8(0..32) {
        0 => refused,
        1 => lingering,
        2 => failed,
        3 => hanging,
        4 => return disturb(random, script),
        _ => return,
    };
    script.steps.clear();
    script.setups = setups(random);
    story(random, script);
    if random.u8(0..4) == 0 {
        script.order();
    }
}

/// Draws one process, or two that are alike.
fn setups(random: &mut fastrand::Rng) -> Vec<Setup> {
    let watch = [
        "",
        "",
        "onFailure: keep",
        "onFailure: uninstall",
        "retries: 2",
        "onFailure: keep\nretries: 2",
        "maxHistory: 2",
    ];
    let watch = random.choice(watch).unwrap_or_default().to_owned();
    let setup = Setup { watch, period: random.choice([60, 10, 0]).unwrap_or(60), ..Setup::default() };
    vec![setup; random.usize(1..3)]
}

/// Gives hooks trouble soon after some edits.
fn disturb(random: &mut fastrand::Rng, script: &mut Script) {
    let puts = script.steps.iter().filter(|step| matches!(step.what, Action::Put(..)));
    let puts: Vec<u64> = puts.map(|step| step.at_ms).collect();
    for _ in 0..random.usize(1..4) {
        let Some(&at) = random.choice(&puts) else { return };
        let all = [Trouble::Fails, Trouble::Fails, Trouble::Hangs, Trouble::Lingers];
        let trouble = random.choice(all).unwrap_or(Trouble::Fails);
        script.insert(at + random.u64(0..500), Action::Hooks(trouble, random.u64(1000..60_000)));
    }
}

/// Draws values with hooks, and with one of several Jobs.
fn with_hooks(random: &mut fastrand::Rng) -> Action {
    match with_service(random, "a") {
        Action::Put(name, mut values) => {
            (values["hooks"], values["job"]) = (true.into(), random.u8(0..3).into());
            Action::Put(name, values)
        }
        other => other,
    }
}

/// Installs the release in most scripts. Returns the pause before what follows.
fn begin(random: &mut fastrand::Rng, script: &mut Script) -> u64 {
    if random.u8(0..3) == 0 {
        return random.u64(0..3000);
    }
    script.then(random.u64(0..3000), with_hooks(random));
    later(random)
}

/// Adds what happens meanwhile.
fn go_on(random: &mut fastrand::Rng, script: &mut Script) {
    for _ in 0..random.usize(0..4) {
        let after = if random.bool() { random.u64(0..3000) } else { random.u64(0..40_000) };
        let what = meanwhile(random, script.setups.len());
        script.then(after, what);
    }
}

fn meanwhile(random: &mut fastrand::Rng, processes: usize) -> Action {
    let (process, down) = (random.usize(0..processes), random.u64(0..5000));
    match random.u8(0..9) {
        0..2 => with_hooks(random),
        2 => delete(random),
        3 => Action::Kill(process, down),
        4..6 => Action::KillAfter(process, random.u64(1..12), down),
        6 => Action::Stop(process, down),
        7 => Action::Cut,
        _ => {
            let (which, how) =
                if random.bool() { (Which::RecordWrites, How::AnswerLost) } else { (Which::Writes, How::Status(500)) };
            Action::Fault(Fault::new(which, how, random.u64(200..8000)))
        }
    }
}

fn delete(random: &mut fastrand::Rng) -> Action {
    Action::Delete("a".into(), random.choice(["", "", "Foreground"]).unwrap_or_default().into())
}

/// Adds a story: the hook of an install or upgrade fails, again and again for a while.
fn failed(random: &mut fastrand::Rng, script: &mut Script) {
    let after = begin(random, script);
    script.then(after, Action::Hooks(Trouble::Fails, random.u64(1000..90_000)));
    script.then(random.u64(0..100), with_hooks(random));
    go_on(random, script);
}

/// Adds a story: a hook does not end, until its time is up, or for a while.
fn hanging(random: &mut fastrand::Rng, script: &mut Script) {
    if random.bool() {
        script.configure(Setup::limit_hooks);
    }
    let after = begin(random, script);
    script.then(after, Action::Hooks(Trouble::Hangs, random.u64(10_000..200_000)));
    script.then(random.u64(0..100), with_hooks(random));
    go_on(random, script);
}

/// Adds a story: what interrupts a hook, or follows it, has to wait until its Job is gone.
fn lingering(random: &mut fastrand::Rng, script: &mut Script) {
    let after = begin(random, script);
    script.then(after, Action::Hooks(Trouble::Lingers, random.u64(5000..120_000)));
    script.then(random.u64(0..100), with_hooks(random));
    follow(random, script);
}

/// Adds a story: the server refuses to delete Jobs, as a webhook that is away or says no makes it.
fn refused(random: &mut fastrand::Rng, script: &mut Script) {
    let after = begin(random, script);
    let how = How::Status(random.choice([500, 500, 403]).unwrap_or(500));
    script.then(after, Action::Fault(Fault::new(Which::JobDeletions, how, random.u64(2000..90_000))));
    if random.bool() {
        script.then(0, Action::Hooks(Trouble::Hangs, random.u64(1000..30_000)));
    }
    script.then(random.u64(0..100), with_hooks(random));
    follow(random, script);
}

/// Interrupts a hook, or follows it, and goes on.
fn follow(random: &mut fastrand::Rng, script: &mut Script) {
    let what = if random.bool() { with_hooks(random) } else { delete(random) };
    script.then(random.u64(0..10_000), what);
    go_on(random, script);
}
