//! The actions of a run and their times: drawn from the seed, printed, shrunk and replayed.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::faults::{Fault, Which};
use crate::helm::Command;
use crate::hooks::Trouble;
use crate::process::Setup;
use crate::registry::Mood;
use crate::{draw, hook_stories, interventions, moves, newer, overrides, settings, stories, timing, unseen};

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// The seed of every random decision that is not part of the script.
    pub seed: u64,
    /// The initial configurations of the processes.
    pub setups: Vec<Setup>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// An action and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The time in milliseconds.
    pub at_ms: u64,
    /// The action.
    pub what: Action,
}

/// An action. Objects are named like `configmaps/a-config`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// A person creates a resource, or edits its values.
    Put(String, Value),
    /// A person deletes a resource with this propagation policy.
    Delete(String, String),
    /// A person creates a resource of another kind that adopts the release.
    Claim(String),
    /// A person deletes that other resource.
    Unclaim(String),
    /// A person annotates a resource.
    Annotate(String, String, String),
    /// A person removes an annotation of a resource.
    Unannotate(String, String),
    /// A person removes the finalizers of a resource, which may be being deleted.
    Free(String),
    /// A person changes a field of a release's object.
    Disturb(String),
    /// A person deletes a release's object.
    Remove(String),
    /// A person marks a release's object to be kept.
    Keep(String),
    /// Another operator sets its annotation, finalizer and nested field on an object, with this field manager.
    Note(String, String),
    /// Another operator with this field manager manages all ConfigMaps from now on.
    Operator(String),
    /// A person sets the value in the Secret.
    Source(String),
    /// A person scales a resource's Deployment to this many replicas with an autoscaler.
    Autoscale(String, u8),
    /// A webhook changes Deployments from now on.
    Webhook,
    /// A person deletes the second namespace.
    DeleteNamespace,
    /// A person recreates the second namespace.
    AddNamespace,
    /// A person creates an object (first field) of a release (second field) before the release exists.
    Before(String, String),
    /// A person deletes the records that stayed beside releases whose records moved.
    Tidy,
    /// A person creates a Secret whose labels look like those of a resource's release records.
    Precious(String),
    /// A person runs helm on a release, and is interrupted after this many steps.
    Helm(String, Command, u8),
    /// A fault begins.
    Fault(Fault),
    /// The server forbids requests for a namespace from now on.
    Forbid(Which, String),
    /// The Jobs of hooks have this trouble for this many milliseconds.
    Hooks(Trouble, u64),
    /// All running watches break.
    Cut,
    /// The server compacts its history, so running watches expire.
    Expire,
    /// The registry gets this version of the chart.
    Push(String),
    /// The tag of the first version moves to another chart.
    MoveTag,
    /// The registry fails for this many milliseconds; 0 for good.
    Registry(Mood, u64),
    /// Fetched charts are lost.
    ForgetCharts,
    /// The server restarts. It is down for the first number of milliseconds, and rejects everything for the second,
    /// until it has loaded its roles.
    RestartServer(u64, u64),
    /// A list at any version is served from a cache that is this many versions behind, from now on.
    Lag(u64),
    /// The state of the server is backed up.
    Backup,
    /// Like [`RestartServer`](Self::RestartServer), but from the last backup: later changes are lost, and resource
    /// versions decrease.
    Restore(u64, u64),
    /// Everything is suspended for this many milliseconds, like a virtual machine.
    Suspend(u64),
    /// The thread that renews the lease is paused for this many milliseconds, while the controllers keep running.
    Stall(usize, u64),
    /// A process is killed and starts again after this many milliseconds.
    Kill(usize, u64),
    /// A process is killed at its nth write from now on, not counting the lease's, and starts again after this many
    /// milliseconds.
    KillAfter(usize, u64, u64),
    /// A process is stopped gracefully and starts again after this many milliseconds.
    Stop(usize, u64),
    /// A process is killed and starts again after this many milliseconds with this configuration.
    Restart(usize, u64, Setup),
    /// No action until nothing happens any more. Then the final invariants are checked, and the remaining steps are
    /// delayed by the time that this took.
    Rest,
}

impl Action {
    /// Returns the times in milliseconds that the action takes.
    fn times(&mut self) -> Vec<&mut u64> {
        match self {
            Action::Fault(fault) => vec![&mut fault.for_ms],
            Action::RestartServer(away, loading) | Action::Restore(away, loading) => vec![away, loading],
            Action::Registry(_, time)
            | Action::Hooks(_, time)
            | Action::KillAfter(_, _, time)
            | Action::Kill(_, time)
            | Action::Suspend(time)
            | Action::Stall(_, time)
            | Action::Stop(_, time)
            | Action::Restart(_, time, _) => vec![time],
            _ => Vec::new(),
        }
    }
}

impl Step {
    /// Returns the time of the step.
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
    /// Returns a script of these actions, with their times in milliseconds.
    pub fn new(seed: u64, setups: Vec<Setup>, actions: impl IntoIterator<Item = (u64, Action)>) -> Script {
        Script { seed, setups, steps: actions.into_iter().map(|(at_ms, what)| Step { at_ms, what }).collect() }
    }

    /// Parses a script as printed.
    ///
    /// # Errors
    /// Fails if a line is not a step.
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

    /// Generates the script of a seed: a scenario that is known to be dangerous, then random actions.
    pub fn of(seed: u64) -> Script {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut script = draw::begin(seed, &mut random);
        stories::tell(&mut random, &mut script);
        let last = script.steps.last().cloned();
        let told = last.as_ref().map(|step| step.at_ms);
        draw::go_on(&mut random, &mut script);
        // Separate generators, so that seeds still draw what they drew before these actions existed.
        newer::add(&mut fastrand::Rng::with_seed(!seed), &mut script);
        newer::add_more(&mut fastrand::Rng::with_seed(seed.rotate_left(32)), &mut script, told);
        newer::add_writes(&mut fastrand::Rng::with_seed(!seed.rotate_left(32)), &mut script);
        timing::add(&mut fastrand::Rng::with_seed(seed.rotate_left(16)), &mut script, last.as_ref());
        moves::add(&mut fastrand::Rng::with_seed(seed.rotate_left(48)), &mut script);
        newer::add_jobs(&mut fastrand::Rng::with_seed(!seed.rotate_left(16)), &mut script);
        unseen::add(&mut fastrand::Rng::with_seed(seed.rotate_left(4)), &mut script);
        hook_stories::add(&mut fastrand::Rng::with_seed(!seed.rotate_left(48)), &mut script);
        interventions::add(&mut fastrand::Rng::with_seed(seed.rotate_left(12)), &mut script);
        newer::add_lag(&mut fastrand::Rng::with_seed(!seed.rotate_left(12)), &mut script);
        overrides::add(&mut fastrand::Rng::with_seed(!seed.rotate_left(4)), &mut script);
        settings::add(&mut fastrand::Rng::with_seed(!seed.rotate_left(20)), &mut script);
        newer::add_certificates(&mut fastrand::Rng::with_seed(seed.rotate_left(20)), &mut script);
        script
    }

    /// Returns the same actions with this seed, at other times: each pause, and each time that an action takes, is up to
    /// twice as long as in this script.
    pub fn near(&self, seed: u64) -> Script {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut stretched = |ms: u64| random.u64(0..=ms.saturating_mul(2));
        let (mut near, mut before, mut at) = (Script { seed, ..self.clone() }, 0, 0);
        for step in &mut near.steps {
            at += stretched(step.at_ms - before);
            before = std::mem::replace(&mut step.at_ms, at);
            step.what.times().into_iter().for_each(|time| *time = stretched(*time));
        }
        near
    }

    /// Returns the namespaces in which its processes keep the records of all releases.
    pub fn places(&self) -> BTreeSet<&str> {
        let restarted = self.steps.iter().filter_map(|step| match &step.what {
            Action::Restart(_, _, setup) => Some(setup),
            _ => None,
        });
        self.setups.iter().chain(restarted).filter_map(Setup::place).collect()
    }

    /// Returns when the last step and the last fault end.
    pub fn end(&self) -> Duration {
        let took = |what: &Action| what.clone().times().into_iter().map(|time| *time).sum::<u64>();
        let ends = self.steps.iter().map(|step| step.at_ms + took(&step.what));
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

    #[test]
    fn a_script_near_another_does_the_same_in_the_same_order_at_other_times() {
        for seed in 0..50 {
            let script = Script::of(seed);
            let near = script.near(seed + 1);
            let timeless = |script: &Script| {
                let mut steps = script.steps.clone();
                for step in &mut steps {
                    step.at_ms = 0;
                    step.what.times().into_iter().for_each(|time| *time = 0);
                }
                steps
            };
            assert_eq!((near.seed, &near.setups, timeless(&near)), (seed + 1, &script.setups, timeless(&script)));
            assert!(near.steps.is_sorted_by_key(|step| step.at_ms), "{near}");
            assert_eq!(near, script.near(seed + 1), "the seed decides");
        }
        let near: std::collections::HashSet<_> = (0..10).map(|seed| Script::of(7).near(seed).to_string()).collect();
        assert_eq!(near.len(), 10);
    }
}
