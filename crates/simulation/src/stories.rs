//! Sequences in which operators have lost something. One of them starts most runs; random actions follow.

use serde_json::json;

use crate::draw::{SOURCES, object, put};
use crate::faults::{Fault, How, Which};
use crate::helm::Command;
use crate::names::OTHER;
use crate::process::Setup;
use crate::script::{Action, Script};

/// Starts a script with a story, or with none.
pub fn tell(random: &mut fastrand::Rng, script: &mut Script) {
    match random.u8(0..18) {
        0 => adopted_and_refused(random, script),
        1 => unanswered(random, script),
        2 => kept_and_deleted(random, script),
        3 => never_taken_over(random, script),
        4 => claimed(random, script),
        5 => lookups_without_answer(random, script),
        6 => broken_rollout(random, script),
        7 => forbidden_list(random, script),
        8 => forbidden_source(random, script),
        9 => emptied_namespace(random, script),
        10 => scaled(random, script),
        11 => noted_and_refused(random, script),
        12 => deleted_and_killed(random, script),
        13 => replaced_and_deleted(random, script),
        14 => missed_deletion(random, script),
        _ => {}
    }
}

/// Draws a pause after which everything has usually settled.
pub(crate) fn later(random: &mut fastrand::Rng) -> u64 {
    random.u64(12_000..30_000)
}

fn fault(which: Which, how: How, for_ms: u64) -> Action {
    Action::Fault(Fault::new(which, how, for_ms))
}

/// Returns values that include the Service, the chart's last object.
pub(crate) fn with_service(random: &mut fastrand::Rng, name: &str) -> Action {
    match put(random, name) {
        Action::Put(name, mut values) => {
            (values["cache"], values["broken"]) = (true.into(), false.into());
            Action::Put(name, values)
        }
        other => other,
    }
}

/// Changes the configuration of all processes.
fn configure(script: &mut Script, change: impl Fn(&mut Setup)) {
    script.setups.iter_mut().for_each(change);
}

/// Adds a story: existing objects are adopted, then the server rejects the last object.
fn adopted_and_refused(random: &mut fastrand::Rng, script: &mut Script) {
    let before = ["secrets/a-random", "secrets/a-guarded", "persistentvolumeclaims/a-data"];
    for object in before.into_iter().filter(|_| random.u8(0..3) > 0) {
        script.then(0, Action::Before(object.into(), "a".into()));
    }
    if random.bool() {
        script.then(0, fault(Which::Services, How::Status(422), random.u64(2000..60_000)));
        script.then(10, with_service(random, "a"));
    } else {
        script.then(10, with_service(random, "a"));
    }
}

/// Adds a story: an action is interrupted late, then its record cannot be read.
fn unanswered(random: &mut fastrand::Rng, script: &mut Script) {
    if random.bool() {
        script.then(0, put(random, "a"));
    }
    script.then(later(random), fault(Which::Services, How::Status(500), random.u64(1000..8000)));
    script.then(10, with_service(random, "a"));
    script.then(random.u64(0..4000), fault(Which::Records, How::Status(500), random.u64(1000..20_000)));
}

/// Adds a story: a person marks objects to be kept, then the resource is deleted.
fn kept_and_deleted(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    for _ in 0..random.usize(1..4) {
        script.then(later(random), Action::Keep(object(random, "a")));
    }
    let how = random.choice(["", "", "Foreground"]).unwrap_or_default();
    let after = if random.bool() { random.u64(0..3000) } else { later(random) };
    script.then(after, Action::Delete("a".into(), how.into()));
}

/// Adds a story: a resource claims a release that Helm installed but cannot adopt it, because its values are broken.
/// Then the resource is deleted.
fn never_taken_over(random: &mut fastrand::Rng, script: &mut Script) {
    configure(script, |setup| setup.watch = "adopt: released".into());
    script.then(0, Action::Helm("a".into(), Command::Install, u8::MAX));
    script.then(later(random), Action::Put("a".into(), json!({"message": "m", "replicas": 1, "broken": true})));
    if random.u8(0..4) > 0 {
        let adopt = "helm.sdk.operatorframework.io/adopt";
        script.then(1, Action::Annotate("a".into(), adopt.into(), "true".into()));
    }
    script.then(later(random), Action::Delete("a".into(), String::new()));
    script.then(later(random), Action::Disturb("configmaps/b-config".into()));
}

/// Adds a story: two kinds claim one release.
fn claimed(random: &mut fastrand::Rng, script: &mut Script) {
    configure(script, |setup| {
        setup.sites = true;
        setup.watch = "adopt: any".into();
    });
    script.then(0, with_service(random, "a"));
    script.then(later(random), Action::Claim("a".into()));
    script.then(later(random), Action::Kill(0, random.u64(0..2000)));
    if random.bool() {
        script.then(later(random), put(random, "a"));
    }
}

/// Adds a story: the server does not answer lookups for longer than a few attempts take.
fn lookups_without_answer(random: &mut fastrand::Rng, script: &mut Script) {
    configure(script, |setup| setup.watch = "retries: 2".into());
    if random.bool() {
        script.then(0, put(random, "a"));
    }
    let how = random.choice([How::Status(500), How::Status(503), How::Unreachable]).unwrap_or(How::Unreachable);
    script.then(later(random), fault(Which::Lookups, how, random.u64(20_000..90_000)));
    script.then(10, with_service(random, "a"));
}

/// Adds a story: a chart that never becomes ready rolls out one release at a time, while processes are killed. Then it
/// is rolled back.
fn broken_rollout(random: &mut fastrand::Rng, script: &mut Script) {
    let limited =
        |chart: &str| Setup { chart: chart.into(), watch: "maxParallelUpgrades: 1".into(), ..Setup::default() };
    configure(script, |setup| *setup = limited("web1"));
    for name in ["a", "b", "c"] {
        script.then(100, with_service(random, name));
    }
    let after = later(random);
    let processes = script.setups.len();
    for process in 0..processes {
        script.then(if process == 0 { after } else { 0 }, Action::Restart(process, 0, limited("web3")));
    }
    for _ in 0..random.usize(1..4) {
        let after = later(random);
        for process in 0..processes {
            script.then(if process == 0 { after } else { 0 }, Action::Kill(process, 10));
        }
    }
    let after = later(random);
    for process in 0..processes {
        script.then(if process == 0 { after } else { 0 }, Action::Restart(process, 0, limited("web1")));
    }
}

/// Adds a story: ConfigMaps cannot be watched in one of two namespaces.
fn forbidden_list(random: &mut fastrand::Rng, script: &mut Script) {
    configure(script, |setup| {
        setup.namespaces = format!("default,{OTHER}");
        setup.period = 10;
        setup.watch = String::new();
    });
    script.then(0, Action::Forbid(Which::Maps, OTHER.into()));
    script.then(0, with_service(random, "o"));
    script.then(0, with_service(random, "a"));
    script.then(later(random), if random.bool() { Action::Expire } else { Action::Cut });
    script.then(later(random), Action::Disturb("configmaps/o-config".into()));
}

/// Adds a story: the permission to watch the Secret with values is revoked, then the Secret changes.
fn forbidden_source(random: &mut fastrand::Rng, script: &mut Script) {
    configure(script, |setup| (setup.watch, setup.period) = (SOURCES.into(), 10));
    script.then(0, Action::Source("first".into()));
    script.then(0, with_service(random, "a"));
    script.then(later(random), Action::Forbid(Which::Sources, "default".into()));
    script.then(later(random), Action::Source("second".into()));
}

/// Adds a story: a namespace with a resource in it is deleted and created again.
fn emptied_namespace(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "o"));
    script.then(later(random), Action::DeleteNamespace);
    script.then(later(random), Action::AddNamespace);
    script.then(100, put(random, "o"));
}

/// Adds a story: an autoscaler sets the replicas that the chart also sets.
fn scaled(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    script.then(later(random), Action::Autoscale("a".into(), random.u8(4..8)));
    for _ in 0..random.usize(1..3) {
        script.then(later(random), put(random, "a"));
    }
}

/// Adds a story: another operator's fields are on an object when an upgrade fails.
fn noted_and_refused(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    let after = later(random);
    for _ in 0..3 {
        let manager = random.choice(["manager", "manager", "kubectl-client-side-apply"]).unwrap_or("manager");
        script.then(after / 3, Action::Note(object(random, "a"), manager.into()));
    }
    let how = random.choice([How::Status(422), How::Status(500)]).unwrap_or(How::Status(500));
    script.then(100, fault(Which::Services, how, random.u64(100..5000)));
    script.then(10, with_service(random, "a"));
    script.then(later(random), with_service(random, "a"));
}

/// Kills a process while it deletes a release.
fn deleted_and_killed(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    script.then(later(random), Action::Delete("a".into(), String::new()));
    for _ in 0..random.usize(1..4) {
        let processes = script.setups.len();
        for process in 0..processes {
            let after = if process == 0 { random.u64(0..400) } else { 0 };
            script.then(after, Action::Kill(process, random.u64(0..2000)));
        }
    }
}

/// Replaces objects with some of another release, as a person might, and deletes the resource before the operator can
/// have seen that.
fn replaced_and_deleted(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "c"));
    let after = later(random);
    for (number, object) in ["secrets/c-random", "persistentvolumeclaims/c-data"].into_iter().enumerate() {
        script.then(if number == 0 { after } else { 0 }, Action::Remove(object.into()));
        script.then(0, Action::Before(object.into(), "b".into()));
    }
    script.then(random.u64(0..20), Action::Delete("c".into(), String::new()));
}

/// Deletes objects or records while no watch runs, and lets the server forget the deletion.
fn missed_deletion(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    script.then(later(random), fault(Which::Watches, How::Unreachable, random.u64(8000..20_000)));
    script.then(0, Action::Cut);
    for _ in 0..random.usize(1..4) {
        script.then(random.u64(0..500), Action::Remove(object(random, "a")));
    }
    if random.u8(0..3) == 0 {
        script.then(10, Action::Helm("a".into(), Command::Uninstall, u8::MAX));
    }
    script.then(6000, Action::Expire);
}
