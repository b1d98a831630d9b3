//! What happens in a run, and when: drawn from the seed, printed, shrunk and replayed.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::faults::{Fault, How, Which};
use crate::helm::Command;
use crate::process::Setup;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// Decides every delay.
    pub seed: u64,
    /// How the processes are configured at first.
    pub setups: Vec<Setup>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When, in milliseconds.
    pub at_ms: u64,
    /// What.
    pub what: Action,
}

/// What can happen. Objects are named like `configmaps/a-config`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// A person creates a resource, or edits its values.
    Put(String, Value),
    /// A person deletes a resource.
    Delete(String),
    /// A person annotates a resource.
    Annotate(String, String, String),
    /// A person changes a field of a release's object.
    Disturb(String),
    /// A person deletes a release's object.
    Remove(String),
    /// A person marks a release's object to be kept.
    Keep(String),
    /// Another operator sets its annotation and finalizer on an object, under the name of this field manager.
    Note(String, String),
    /// A person creates an object of a release (the second) before the release.
    Before(String, String),
    /// A person creates a Secret whose labels look like those of a resource's release records.
    Precious(String),
    /// A person runs helm on a release, and is interrupted after this many steps.
    Helm(String, Command, u8),
    /// Something goes wrong for a while.
    Fault(Fault),
    /// A process is killed, and starts again after this many milliseconds.
    Kill(usize, u64),
    /// A process is asked to end, and starts again after this many milliseconds.
    Stop(usize, u64),
    /// A process is killed, and starts again after this many milliseconds, configured like this.
    Restart(usize, u64, Setup),
}

impl Step {
    /// The time of the step.
    pub fn at(&self) -> Duration {
        Duration::from_millis(self.at_ms)
    }
}

impl Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# seed {}", self.seed)?;
        for (number, setup) in self.setups.iter().enumerate() {
            writeln!(f, "# process {number}: {}", serde_json::to_string(setup).unwrap_or_default())?;
        }
        for step in &self.steps {
            let what = serde_json::to_string(&step.what).unwrap_or_default();
            writeln!(f, "{:>8} ms  {what}", step.at_ms)?;
        }
        Ok(())
    }
}

/// The names of resources.
pub const NAMES: [&str; 3] = ["a", "b", "c"];

impl Script {
    /// Reads a script as it is printed.
    ///
    /// # Errors
    /// A line is not a step.
    pub fn read(text: &str) -> anyhow::Result<Script> {
        let mut script = Script { seed: 0, setups: Vec::new(), steps: Vec::new() };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(seed) = line.strip_prefix("# seed ") {
                script.seed = seed.parse()?;
            } else if let Some((_, setup)) = line.strip_prefix("# process ").and_then(|line| line.split_once(": ")) {
                script.setups.push(serde_json::from_str(setup)?);
            } else if let Some((at, what)) = line.split_once(" ms ") {
                script.steps.push(Step { at_ms: at.parse()?, what: serde_json::from_str(what)? });
            }
        }
        Ok(script)
    }

    /// What this seed says.
    pub fn of(seed: u64) -> Script {
        let mut random = fastrand::Rng::with_seed(seed);
        let random = &mut random;
        let processes = if random.u8(0..3) == 0 { 2 } else { 1 };
        let first = setup(random);
        let is_mixed = random.u8(0..3) == 0;
        let mut setups = vec![first.clone()];
        setups.extend((1..processes).map(|_| if is_mixed { setup(random) } else { first.clone() }));
        let (mut steps, mut at_ms) = (Vec::new(), random.u64(0..3000));
        if random.u8(0..3) == 0 {
            let object = random.choice(["secrets/a-random", "secrets/a-guarded", "persistentvolumeclaims/a-data"]);
            steps.push(Step { at_ms, what: Action::Before(object.unwrap_or_default().into(), NAMES[0].into()) });
        }
        steps.push(Step { at_ms, what: put(random, NAMES[0]) });
        for _ in 0..random.usize(5..40) {
            at_ms += pause(random);
            steps.push(Step { at_ms, what: action(random, processes) });
        }
        Script { seed, setups, steps }
    }

    /// When the last step and the last fault end.
    pub fn end(&self) -> Duration {
        let ends = self.steps.iter().map(|step| match &step.what {
            Action::Fault(fault) => step.at_ms + fault.for_ms,
            Action::Kill(_, down) | Action::Stop(_, down) | Action::Restart(_, down, _) => step.at_ms + down,
            _ => step.at_ms,
        });
        Duration::from_millis(ends.max().unwrap_or(0))
    }
}

fn setup(random: &mut fastrand::Rng) -> Setup {
    let watch = [
        "",
        "",
        "",
        "onFailure: keep",
        "onFailure: uninstall",
        "maxHistory: 2",
        "retries: 2",
        "maxParallelUpgrades: 1",
    ];
    Setup {
        chart: random.choice(["web", "web", "web2"]).unwrap_or("web").to_owned(),
        watch: random.choice(watch).unwrap_or_default().to_owned(),
        period: random.choice([60, 60, 10, 0]).unwrap_or(60),
        ..Setup::default()
    }
}

/// Often right after another, sometimes much later.
fn pause(random: &mut fastrand::Rng) -> u64 {
    match random.u8(0..20) {
        0..8 => random.u64(0..100),
        8..16 => random.u64(0..2000),
        16..19 => random.u64(0..15_000),
        _ => random.u64(0..100_000),
    }
}

fn put(random: &mut fastrand::Rng, name: &str) -> Action {
    let message = format!("m{}", random.u32(0..1000));
    let (replicas, cache, hooks) = (random.u8(1..4), random.bool(), random.bool());
    Action::Put(name.into(), json!({"message": message, "replicas": replicas, "cache": cache, "hooks": hooks}))
}

/// One of a resource's objects.
fn object(random: &mut fastrand::Rng, name: &str) -> String {
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
    // One resource gets most of what happens.
    let name = random.choice(["a", "a", "a", "b", "c"]).unwrap_or("a");
    let (process, down) = (random.usize(0..processes), random.u64(0..30_000));
    match random.u8(0..40) {
        0..9 => put(random, name),
        9..11 => Action::Delete(name.into()),
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
        _ => Action::Restart(process, down, setup(random)),
    }
}

fn helm(random: &mut fastrand::Rng, name: &str) -> Action {
    let commands = [Command::Upgrade, Command::Upgrade, Command::Rollback, Command::Uninstall];
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
        9 => How::Status(410),
        10..12 => How::Unreachable,
        12..15 => How::AnswerLost,
        15..17 => How::Slow(random.u64(10..3000)),
        _ => {
            which = Services;
            How::Status(422)
        }
    };
    Fault {
        which,
        how,
        of_ten: random.choice([1, 3, 5, 10, 10]).unwrap_or(10),
        for_ms: random.choice([50, 500, 3000, 20_000]).map_or(500, |most| random.u64(1..most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_script_is_read_as_it_was() {
        for seed in 0..50 {
            let script = Script::of(seed);
            assert_eq!(Script::read(&script.to_string()).unwrap(), script);
        }
    }
}
