//! Draws the actions of a run: process configurations, people's actions, faults.

use serde_json::json;

use crate::faults::{Fault, How, Which};
use crate::helm::Command;
use crate::names::NAMES;
use crate::process::Setup;
use crate::script::{Action, Script, Step};

/// The key of watches.yaml that takes values from a Secret.
pub const SOURCES: &str = "valuesFrom: [{kind: Secret, name: shared, optional: true}]";

/// Returns a script without steps.
pub fn begin(seed: u64, random: &mut fastrand::Rng) -> Script {
    let processes = if random.u8(0..3) == 0 { 2 } else { 1 };
    let first = setup(random);
    let is_mixed = random.u8(0..4) == 0;
    let mut setups = vec![first.clone()];
    setups.extend((1..processes).map(|_| if is_mixed { setup(random) } else { first.clone() }));
    Script { seed, setups, steps: Vec::new() }
}

/// Appends random actions, some immediate and some delayed.
pub fn go_on(random: &mut fastrand::Rng, script: &mut Script) {
    if script.steps.is_empty() {
        let at_ms = random.u64(0..3000);
        script.steps.push(Step { at_ms, what: put(random, NAMES[0]) });
    }
    for _ in 0..random.usize(3..30) {
        let what = action(random, script.setups.len());
        let is_put = matches!(what, Action::Put(..));
        script.then(pause(random), what);
        if is_put {
            trouble(random, script);
        }
    }
}

impl Script {
    /// Appends an action after a delay.
    pub fn then(&mut self, after_ms: u64, what: Action) {
        let at_ms = self.steps.last().map_or(0, |step| step.at_ms) + after_ms;
        self.steps.push(Step { at_ms, what });
    }

    /// Adds a step at a time, after those that have the same.
    pub(crate) fn insert(&mut self, at_ms: u64, what: Action) {
        let place = self.steps.partition_point(|step| step.at_ms <= at_ms);
        self.steps.insert(place, Step { at_ms, what });
    }
}

/// Interrupts an action late in some runs, and makes its continuation fail as well: such sequences have caused losses
/// before.
pub fn trouble(random: &mut fastrand::Rng, script: &mut Script) {
    let [late, again] = match random.u8(0..12) {
        0..2 => [(Which::Services, How::Status(500)), (Which::Records, How::Status(500))],
        2 => [(Which::Services, How::Unreachable), (Which::Reads, How::Unreachable)],
        3..5 => [(Which::Services, How::Status(422)), (Which::RecordWrites, How::AnswerLost)],
        _ => return,
    };
    for (which, how) in [late, again] {
        let of_ten = random.choice([5, 10]).unwrap_or(10);
        script.then(0, Action::Fault(Fault { of_ten, ..Fault::new(which, how, random.u64(200..20_000)) }));
    }
}

/// Draws the configuration of a process.
pub fn setup(random: &mut fastrand::Rng) -> Setup {
    let watch = [
        "",
        "",
        "",
        "onFailure: keep",
        "onFailure: uninstall",
        "maxHistory: 2",
        "retries: 2",
        "maxParallelUpgrades: 1",
        "adopt: released",
        SOURCES,
    ];
    Setup {
        chart: random.choice(["web1", "web1", "web2"]).unwrap_or("web1").to_owned(),
        watch: random.choice(watch).unwrap_or_default().to_owned(),
        period: random.choice([60, 60, 10, 0]).unwrap_or(60),
        ..Setup::default()
    }
}

/// Draws the pause before an action: mostly short, sometimes long.
fn pause(random: &mut fastrand::Rng) -> u64 {
    match random.u8(0..20) {
        0..8 => random.u64(0..100),
        8..16 => random.u64(0..2000),
        16..19 => random.u64(0..15_000),
        _ => random.u64(0..100_000),
    }
}

/// Draws a resource with random values.
pub fn put(random: &mut fastrand::Rng, name: &str) -> Action {
    let message = format!("m{}", random.u32(0..1000));
    let (replicas, cache, hooks) = (random.u8(1..4), random.bool(), random.bool());
    let (farewell, broken) = (random.u8(0..4) == 0, random.u8(0..20) == 0);
    let values = json!({
        "message": message, "replicas": replicas, "cache": cache, "hooks": hooks, "farewell": farewell, "broken": broken,
    });
    Action::Put(name.into(), values)
}

/// Draws one of a resource's objects.
pub fn object(random: &mut fastrand::Rng, name: &str) -> String {
    let objects = [
        "configmaps/{}-config",
        "deployments/{}-server",
        "secrets/{}-random",
        "secrets/{}-guarded",
        "services/{}-cache",
        "persistentvolumeclaims/{}-data",
    ];
    random.choice(objects).unwrap_or_default().replace("{}", name)
}

fn action(random: &mut fastrand::Rng, processes: usize) -> Action {
    // Most actions concern one resource.
    let name = random.choice(["a", "a", "a", "b", "o"]).unwrap_or("a");
    let (process, down) = (random.usize(0..processes), random.u64(0..30_000));
    match random.u8(0..44) {
        0..9 => put(random, name),
        9..11 => delete(random, name),
        11..15 => Action::Disturb(object(random, name)),
        15 => Action::Remove(object(random, name)),
        16 => Action::Keep(object(random, name)),
        17..20 => {
            let manager = random.choice(["manager", "kubectl-client-side-apply", "other"]).unwrap_or("manager");
            Action::Note(object(random, name), manager.into())
        }
        20 => Action::Precious(name.into()),
        21 => helm(random, name),
        22..32 => Action::Fault(fault(random)),
        32..37 => Action::Kill(process, if random.bool() { down / 30 } else { down }),
        37 => Action::Stop(process, down),
        40 => Action::Cut,
        41 => Action::Expire,
        42 => Action::Source(format!("s{}", random.u32(0..1000))),
        43 => rarely(random, name),
        _ => Action::Restart(process, down, setup(random)),
    }
}

/// Draws an action that few runs have.
fn rarely(random: &mut fastrand::Rng, name: &str) -> Action {
    match random.u8(0..5) {
        0 => Action::Autoscale(name.into(), random.u8(1..4)),
        1 => Action::Webhook,
        2 => Action::DeleteNamespace,
        3 => Action::AddNamespace,
        _ => Action::Operator(random.choice(["manager", "other"]).unwrap_or("other").into()),
    }
}

fn delete(random: &mut fastrand::Rng, name: &str) -> Action {
    let how = random.choice(["", "", "", "Background", "Foreground", "Orphan"]).unwrap_or_default();
    Action::Delete(name.into(), how.into())
}

fn helm(random: &mut fastrand::Rng, name: &str) -> Action {
    let commands = [Command::Upgrade, Command::PostRender, Command::Rollback, Command::Uninstall];
    let steps = if random.u8(0..4) == 0 { random.u8(0..4) } else { u8::MAX };
    Action::Helm(name.into(), random.choice(commands).unwrap_or(Command::Upgrade), steps)
}

fn fault(random: &mut fastrand::Rng) -> Fault {
    use Which::{All, Discovery, Lease, Lookups, Reads, RecordWrites, Records, Secrets, Services, Watches, Writes};
    let which = [
        Reads,
        Writes,
        All,
        Records,
        Records,
        RecordWrites,
        Secrets,
        Services,
        Services,
        Discovery,
        Lease,
        Watches,
        Lookups,
    ];
    let mut which = random.choice(which).unwrap_or(All);
    let how = match random.u8(0..20) {
        0..8 => How::Status(random.choice([429, 500, 500, 503, 504]).unwrap_or(500)),
        8 => How::Status(409),
        9 => How::Status(if random.bool() { 410 } else { 403 }),
        10..12 => How::Unreachable,
        12..15 => How::AnswerLost,
        15..17 => How::Slow(random.u64(10..3000)),
        _ => {
            which = Services;
            How::Status(422)
        }
    };
    let of_ten = random.choice([1, 3, 5, 10, 10]).unwrap_or(10);
    let for_ms = random.choice([50, 500, 3000, 20_000]).map_or(500, |most| random.u64(1..most));
    Fault { of_ten, ..Fault::new(which, how, for_ms) }
}
