//! What happens in a run, and when: drawn from the seed, printed, shrunk and replayed.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::faults::{Fault, Which};
use crate::helm::Command;
use crate::process::Setup;
use crate::{draw, stories};

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
    /// A person deletes a resource, with this propagation policy.
    Delete(String, String),
    /// A person creates a resource of another kind that adopts the release.
    Claim(String),
    /// A person deletes that resource.
    Unclaim(String),
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
    /// Another operator, with this field manager, looks after all ConfigMaps from now on.
    Operator(String),
    /// A person sets what the Secret with values says.
    Source(String),
    /// A person has a resource's Deployment scaled to this many replicas.
    Autoscale(String, u8),
    /// A webhook changes Deployments from now on.
    Webhook,
    /// A person deletes the second namespace.
    DeleteNamespace,
    /// A person creates it again.
    AddNamespace,
    /// A person creates an object of a release (the second) before the release.
    Before(String, String),
    /// A person creates a Secret whose labels look like those of a resource's release records.
    Precious(String),
    /// A person runs helm on a release, and is interrupted after this many steps.
    Helm(String, Command, u8),
    /// Something goes wrong for a while.
    Fault(Fault),
    /// The server forbids requests for a namespace from now on.
    Forbid(Which, String),
    /// All running watches end in the middle.
    Cut,
    /// The server forgets its history, and running watches end because of that.
    Expire,
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

    /// What this seed says: a story that is known to be dangerous, and whatever else happens.
    pub fn of(seed: u64) -> Script {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut script = draw::begin(seed, &mut random);
        stories::tell(&mut random, &mut script);
        draw::go_on(&mut random, &mut script);
        script
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
