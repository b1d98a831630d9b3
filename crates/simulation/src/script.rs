//! What happens in a run, and when: drawn from the seed, printed, shrunk and replayed.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::faults::{Fault, How, Which};
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

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// A person creates a resource, or edits its values.
    Put(String, Value),
    /// A person deletes a resource.
    Delete(String),
    /// Somebody changes a field of a release's object, below the collections' root: `configmaps/a-config`.
    Disturb(String),
    /// Something goes wrong for a while.
    Fault(Fault),
    /// A process is killed, and starts again after this many milliseconds.
    Kill(usize, u64),
    /// A process is asked to end, and starts again after this many milliseconds.
    Stop(usize, u64),
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
    /// What this seed says.
    pub fn of(seed: u64) -> Script {
        let mut random = fastrand::Rng::with_seed(seed);
        let random = &mut random;
        let processes = if random.u8(0..3) == 0 { 2 } else { 1 };
        let setups = (0..processes).map(|_| setup(random)).collect();
        let mut steps = vec![Step { at_ms: random.u64(0..3000), what: put(random, NAMES[0]) }];
        let mut at_ms = steps[0].at_ms;
        for _ in 0..random.usize(3..25) {
            at_ms += pause(random);
            steps.push(Step { at_ms, what: action(random, processes) });
        }
        Script { seed, setups, steps }
    }

    /// When the last step and the last fault end.
    pub fn end(&self) -> Duration {
        let ends = self.steps.iter().map(|step| match &step.what {
            Action::Fault(fault) => step.at_ms + fault.for_ms,
            Action::Kill(_, down) | Action::Stop(_, down) => step.at_ms + down,
            _ => step.at_ms,
        });
        Duration::from_millis(ends.max().unwrap_or(0))
    }
}

fn setup(random: &mut fastrand::Rng) -> Setup {
    let watch = ["", "", "onFailure: keep", "maxHistory: 2", "drift: {policy: detect}"];
    Setup {
        watch: random.choice(watch).unwrap_or_default().to_owned(),
        period: random.choice([60, 60, 10, 0]).unwrap_or(60),
        ..Setup::default()
    }
}

/// Often right after another, sometimes much later.
fn pause(random: &mut fastrand::Rng) -> u64 {
    match random.u8(0..10) {
        0..3 => random.u64(0..100),
        3..7 => random.u64(0..3000),
        7..9 => random.u64(0..20_000),
        _ => random.u64(0..120_000),
    }
}

fn put(random: &mut fastrand::Rng, name: &str) -> Action {
    let message = format!("m{}", random.u32(0..1000));
    Action::Put(name.into(), json!({"message": message, "replicas": random.u8(1..4), "cache": random.bool()}))
}

fn action(random: &mut fastrand::Rng, processes: usize) -> Action {
    let name = random.choice(NAMES).unwrap_or("a");
    let process = random.usize(0..processes);
    match random.u8(0..20) {
        0..6 => put(random, name),
        6 => Action::Delete(name.into()),
        7..10 => {
            let objects = ["configmaps/{}-config", "deployments/{}-server", "secrets/{}-random", "services/{}-cache"];
            Action::Disturb(random.choice(objects).unwrap_or_default().replace("{}", name))
        }
        10..16 => Action::Fault(fault(random)),
        16..19 => Action::Kill(process, random.u64(0..40_000)),
        _ => Action::Stop(process, random.u64(0..40_000)),
    }
}

fn fault(random: &mut fastrand::Rng) -> Fault {
    use Which::{All, Discovery, Lease, Reads, RecordWrites, Records, Secrets, Services, Watches, Writes};
    let which = [Reads, Writes, All, Records, RecordWrites, Secrets, Services, Discovery, Lease, Watches];
    let how = match random.u8(0..10) {
        0..3 => How::Status(random.choice([429, 500, 500, 503, 504]).unwrap_or(500)),
        3 => How::Status(409),
        4 => How::Status(410),
        5..7 => How::Unreachable,
        7..9 => How::AnswerLost,
        _ => How::Slow(random.u64(10..3000)),
    };
    Fault {
        which: random.choice(which).unwrap_or(All),
        how,
        of_ten: random.choice([1, 3, 5, 10]).unwrap_or(10),
        for_ms: random.choice([50, 500, 3000, 20_000]).map_or(500, |most| random.u64(1..most)),
    }
}
