//! Additions to the scripts of some seeds: processes restart with another namespace for the records of releases.

use crate::draw;
use crate::faults::{Fault, How, Which};
use crate::helm::Command;
use crate::names::{OTHER, RECORDS};
use crate::process::Setup;
use crate::script::{Action, Script};
use crate::stories::{later, with_service};

/// Where records are: in a namespace for all releases, or beside each.
type Place = Option<&'static str>;

/// Moves records in some scripts, in others tells a story about that.
pub fn add(random: &mut fastrand::Rng, script: &mut Script) {
    let story = match random.u8(0..40) {
        0 => killed_while_they_move,
        1 => moved_after_a_failure,
        2 => disputed,
        3 => {
            wander(random, script);
            return script.widen();
        }
        _ => return,
    };
    script.steps.clear();
    script.setups.iter_mut().for_each(|setup| *setup = setup.at(None));
    story(random, script);
    script.widen();
}

/// Draws a namespace for all records.
fn elsewhere(random: &mut fastrand::Rng) -> Place {
    random.choice([RECORDS, RECORDS, OTHER])
}

/// Moves the records once or several times while a script goes on.
fn wander(random: &mut fastrand::Rng, script: &mut Script) {
    let first = if random.u8(0..4) == 0 { elsewhere(random) } else { None };
    script.configure(|setup| *setup = setup.at(first));
    let home = first.or_else(|| elsewhere(random));
    let mut at = 0;
    for number in 0..random.usize(1..4) {
        at += moment(random, script);
        let place = match random.u8(0..4) {
            _ if number == 0 => home,
            0 => elsewhere(random),
            1 => None,
            _ => home,
        };
        move_all(random, script, at, place);
    }
    if random.u8(0..4) > 0 {
        let end = script.steps.last().map_or(0, |step| step.at_ms) + later(random);
        move_all(random, script, end, home);
    }
    // What is recorded there must not go with the namespace.
    if script.places().contains(OTHER) {
        script.steps.retain(|step| step.what != Action::DeleteNamespace);
    }
}

/// Draws a time until something happens, within what a script takes.
fn moment(random: &mut fastrand::Rng, script: &Script) -> u64 {
    let last = script.steps.last().map_or(0, |step| step.at_ms);
    random.u64(0..last.max(1000)) / 2
}

/// Restarts the processes, or rarely only one of them, with another place. They may be killed soon after.
fn move_all(random: &mut fastrand::Rng, script: &mut Script, at: u64, place: Place) {
    let count = script.setups.len();
    let only = (count > 1 && random.u8(0..4) == 0).then(|| random.usize(0..count));
    let dies = random.u8(0..3) == 0;
    for process in (0..count).filter(|process| only.is_none_or(|only| only == *process)) {
        let down = random.u64(0..2000);
        script.keep(process, at, down, place);
        if dies {
            let kill = Action::KillAfter(process, random.u64(1..8), random.u64(0..3000));
            script.insert(at + down + random.u64(0..3000), kill);
        }
    }
}

impl Script {
    /// Lets processes that watch some namespaces also watch those for records.
    fn widen(&mut self) {
        self.configure(|setup| {
            if !setup.namespaces.is_empty() {
                setup.namespaces = format!("default,{OTHER},{RECORDS}");
            }
        });
    }

    /// Restarts a process at a time, with this place for records from then on.
    fn keep(&mut self, process: usize, at_ms: u64, down: u64, place: Place) {
        let mut setup = self.setups[process].clone();
        for step in &mut self.steps {
            match &mut step.what {
                Action::Restart(number, _, other) if *number == process && step.at_ms <= at_ms => {
                    setup.clone_from(other)
                }
                Action::Restart(number, _, other) if *number == process => *other = other.at(place),
                _ => {}
            }
        }
        self.insert(at_ms, Action::Restart(process, down, setup.at(place)));
    }

    /// Appends a restart of all processes with this place for records. They are killed at one of their next writes, or not.
    fn moves(&mut self, random: &mut fastrand::Rng, after: u64, place: Place) {
        let at = self.steps.last().map_or(0, |step| step.at_ms) + after;
        for process in 0..self.setups.len() {
            self.keep(process, at, random.u64(0..500), place);
        }
    }

    /// Appends the death of all processes at one of their next writes.
    fn dies(&mut self, random: &mut fastrand::Rng, after: u64, most: u64) {
        let (mut after, writes, down) = (after, random.u64(1..most), random.u64(0..2000));
        for process in 0..self.setups.len() {
            self.then(std::mem::take(&mut after), Action::KillAfter(process, writes, down));
        }
    }
}

/// Adds a story: processes die while records move; then the resource is deleted, or something else happens to it.
fn killed_while_they_move(random: &mut fastrand::Rng, script: &mut Script) {
    let home = elsewhere(random);
    script.then(0, with_service(random, "a"));
    if random.bool() {
        script.then(random.u64(0..1000), with_service(random, "o"));
    }
    script.then(later(random), draw::put(random, "a"));
    let after = if random.bool() { random.u64(0..5000) } else { later(random) };
    script.moves(random, after, home);
    for _ in 0..random.usize(1..4) {
        let after = random.u64(0..2000);
        script.dies(random, after, 6);
    }
    let after = if random.bool() { random.u64(0..2000) } else { later(random) };
    something(random, script, after);
    if random.u8(0..4) == 0 {
        script.moves(random, 0, None);
        let after = later(random);
        script.moves(random, after, home);
    }
    if random.bool() {
        let after = later(random);
        something(random, script, after);
    }
    if random.u8(0..4) == 0 {
        draw::go_on(random, script);
        script.steps.retain(|step| step.what != Action::DeleteNamespace);
        let after = later(random);
        script.moves(random, after, home);
    }
}

/// Appends what happens to a release whose records have moved.
fn something(random: &mut fastrand::Rng, script: &mut Script, after: u64) {
    let command = random.choice([Command::Upgrade, Command::Rollback, Command::PostRender, Command::Uninstall]);
    let what = match random.u8(0..9) {
        0..4 => Action::Delete("a".into(), random.choice(["", "", "Foreground"]).unwrap_or_default().into()),
        4 => with_service(random, "a"),
        5 => draw::put(random, "a"),
        6 => Action::Tidy,
        7 => Action::Remove(draw::object(random, "a")),
        _ => Action::Helm("a".into(), command.unwrap_or(Command::Upgrade), if random.bool() { 1 } else { u8::MAX }),
    };
    script.then(after, what);
}

/// Adds a story: an upgrade fails, and what it did is kept. Then the records move.
fn moved_after_a_failure(random: &mut fastrand::Rng, script: &mut Script) {
    let home = elsewhere(random);
    let is_retried = random.bool();
    for setup in &mut script.setups {
        let is_other = |line: &&str| !line.starts_with("onFailure") && !line.starts_with("retries");
        setup.watch = setup.watch.lines().filter(is_other).collect::<Vec<_>>().join("\n");
        // What never becomes ready is tried again for good.
        let is_retried = is_retried && !setup.chart.ends_with('3');
        setup.add(if is_retried { "onFailure: keep" } else { "onFailure: keep\nretries: 2" });
    }
    script.then(0, with_service(random, "a"));
    let after = later(random);
    let (how, for_ms) = (random.choice([422, 422, 500]).unwrap_or(422), random.u64(2000..60_000));
    script.then(after, Action::Fault(Fault::new(Which::Services, How::Status(how), for_ms)));
    if random.bool() {
        // The upgrade also replaces the Job.
        for process in 0..script.setups.len() {
            let setup = script.setups[process].clone();
            let setup = Setup { chart: setup.chart.replace('1', "2"), ..setup };
            script.then(0, Action::Restart(process, random.u64(0..500), setup));
        }
    }
    script.then(random.u64(0..100), with_service(random, "a"));
    let after = random.u64(0..15_000);
    script.moves(random, after, home);
    if random.bool() {
        let after = random.u64(0..2000);
        script.dies(random, after, 6);
    }
    for _ in 0..random.usize(0..3) {
        let after = if random.bool() { random.u64(0..5000) } else { later(random) };
        something(random, script, after);
    }
}

/// Adds a story: processes with different places lead in turn. Then they agree, or not.
fn disputed(random: &mut fastrand::Rng, script: &mut Script) {
    script.setups.truncate(1);
    let (first, home) = (script.setups[0].clone(), elsewhere(random));
    let second = if random.u8(0..3) == 0 { elsewhere(random) } else { None };
    script.setups = vec![first.at(home), first.at(second)];
    script.then(random.u64(0..3000), with_service(random, "a"));
    for _ in 0..random.usize(1..5) {
        let (process, down) = (random.usize(0..2), random.u64(0..30_000));
        let after = if random.bool() { random.u64(0..5000) } else { later(random) };
        let what = match random.u8(0..6) {
            0 => Action::Stop(process, down),
            1 => Action::Stall(process, down),
            2 => Action::KillAfter(process, random.u64(1..8), down),
            _ => Action::Kill(process, down),
        };
        script.then(after, what);
        let after = random.u64(0..20_000);
        match random.u8(0..3) {
            0 => something(random, script, after),
            1 => script.then(after, draw::put(random, "a")),
            _ => {}
        }
    }
    if random.u8(0..4) > 0 {
        let after = later(random);
        script.moves(random, after, home);
    }
}
