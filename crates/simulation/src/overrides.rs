//! Override values of processes: stories about two processes that have different ones, and about restarts with others.
//! Also which of them a release must show at rest: those of the leader.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::draw;
use crate::process::Setup;
use crate::quiet::End;
use crate::script::{Action, Script};
use crate::stories::{later, with_service};

/// The key of watches.yaml with override values, which are written as JSON.
const KEY: &str = "overrideValues: ";

/// Override values as watches.yaml has them: each key with a text.
pub type Overrides = BTreeMap<String, String>;

impl Setup {
    /// Returns the override values.
    pub fn overrides(&self) -> Overrides {
        let text = self.watch.lines().find_map(|line| line.strip_prefix(KEY));
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Returns this configuration with these override values only.
    #[must_use]
    pub fn overriding(&self, overrides: &Overrides) -> Setup {
        let others: Vec<&str> = self.watch.lines().filter(|line| !line.starts_with(KEY)).collect();
        let mut setup = Setup { watch: others.join("\n"), ..self.clone() };
        if !overrides.is_empty() {
            let entries: Vec<String> = overrides.iter().map(|(key, text)| format!("{key:?}: {text:?}")).collect();
            setup.add(&format!("{KEY}{{{}}}", entries.join(", ")));
        }
        setup
    }
}

impl End {
    /// Returns a resource's values with the leader's override values on top; `None` if it may show those of several processes.
    pub(crate) fn overridden(&self, resource: &Value) -> Option<Value> {
        let mut values = resource["spec"].clone();
        for (key, text) in self.overrides.as_ref()? {
            values[key] = typed(text);
        }
        Some(values)
    }
}

/// Returns what the text of an override value sets: numbers and booleans get their type.
fn typed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Tells such a story in some scripts, instead of theirs, and lets processes have override values in others.
pub fn add(random: &mut fastrand::Rng, script: &mut Script) {
    let story = match random.u8(0..40) {
        0 => disputed,
        1 => changed,
        2..4 => return scatter(random, script),
        _ => return,
    };
    script.steps.clear();
    story(random, script);
    if random.u8(0..4) == 0 {
        draw::go_on(random, script);
    }
}

/// Draws override values, or none.
fn drawn(random: &mut fastrand::Rng) -> Overrides {
    let all = [
        ("message", format!("mo{}", random.u32(0..1000))),
        ("replicas", random.u8(1..4).to_string()),
        ("cache", random.bool().to_string()),
    ];
    all.into_iter().filter(|_| random.bool()).map(|(key, text)| (key.to_owned(), text)).collect()
}

/// Gives each configuration of a script its own override values. A rollout that is taken back may end with others.
fn scatter(random: &mut fastrand::Rng, script: &mut Script) {
    script.configure(|setup| {
        let overrides = drawn(random);
        if !setup.watch.contains("rollout") {
            *setup = setup.overriding(&overrides);
        }
    });
}

/// Adds a story: processes with different override values lead in turn. Then they agree, or not.
fn disputed(random: &mut fastrand::Rng, script: &mut Script) {
    let base = draw::setup(random);
    script.setups = (0..2).map(|_| base.overriding(&drawn(random))).collect();
    script.then(random.u64(0..3000), with_service(random, "a"));
    if random.bool() {
        script.then(random.u64(0..1000), draw::put(random, "b"));
    }
    for _ in 0..random.usize(1..5) {
        give_way(random, script);
        let after = random.u64(0..20_000);
        meanwhile(random, script, after);
    }
    if random.bool() {
        let (after, agreed) = (later(random), base.overriding(&drawn(random)));
        restart(random, script, after, &agreed);
    }
}

/// Lets the other process lead, if this one does. The lease may end while its controllers still run.
fn give_way(random: &mut fastrand::Rng, script: &mut Script) {
    let (process, down) = (random.usize(0..2), random.u64(0..30_000));
    let what = match random.u8(0..6) {
        0 => Action::Stop(process, down),
        1..3 => Action::Stall(process, down),
        3 => Action::KillAfter(process, random.u64(1..12), down),
        _ => Action::Kill(process, down),
    };
    let after = if random.bool() { random.u64(0..5000) } else { later(random) };
    script.then(after, what);
}

/// Adds a story: a process restarts with other override values again and again, and may die while it rolls them out.
fn changed(random: &mut fastrand::Rng, script: &mut Script) {
    let base = draw::setup(random);
    script.setups = vec![base.overriding(&drawn(random))];
    script.then(random.u64(0..3000), with_service(random, "a"));
    for _ in 0..random.usize(1..4) {
        let after = if random.bool() { random.u64(0..8000) } else { later(random) };
        let other = base.overriding(&drawn(random));
        restart(random, script, after, &other);
        if random.bool() {
            script.then(random.u64(0..6000), Action::KillAfter(0, random.u64(1..15), random.u64(0..3000)));
        }
        let after = random.u64(0..10_000);
        meanwhile(random, script, after);
    }
}

/// Appends what a person does meanwhile, or nothing.
fn meanwhile(random: &mut fastrand::Rng, script: &mut Script, after: u64) {
    let what = match random.u8(0..6) {
        0 => with_service(random, "a"),
        1 => draw::put(random, "a"),
        2 => Action::Disturb(draw::object(random, "a")),
        3 => Action::Delete("a".into(), String::new()),
        _ => return,
    };
    script.then(after, what);
}

/// Restarts all processes with this configuration.
fn restart(random: &mut fastrand::Rng, script: &mut Script, after: u64, setup: &Setup) {
    let mut after = after;
    for process in 0..script.setups.len() {
        script.then(std::mem::take(&mut after), Action::Restart(process, random.u64(0..2000), setup.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::checks::{Checks, Objects};
    use crate::names;
    use crate::world::Change;

    fn overrides(all: &[(&str, &str)]) -> Overrides {
        all.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_configuration_keeps_its_other_keys_when_its_override_values_change() {
        let setup = Setup { watch: "retries: 2".into(), ..Setup::default() };
        assert_eq!(setup.overrides(), Overrides::new());
        let first = setup.overriding(&overrides(&[("cache", "true"), ("message", "mo1")]));
        assert_eq!(first.watch, "retries: 2\noverrideValues: {\"cache\": \"true\", \"message\": \"mo1\"}");
        assert_eq!(first.overrides(), overrides(&[("cache", "true"), ("message", "mo1")]));
        assert_eq!(first.overriding(&overrides(&[("cache", "false")])).overrides(), overrides(&[("cache", "false")]));
        assert_eq!(first.overriding(&Overrides::new()), setup);
    }

    #[test]
    fn override_values_have_their_type() {
        for (text, expected) in [("true", json!(true)), ("3", json!(3)), ("mo3", json!("mo3"))] {
            assert_eq!(typed(text), expected, "{text}");
        }
    }

    /// Writes an object; returns the violation.
    fn write(seen: (&mut Checks, &mut Objects), by: &str, path: &str, object: &Value) -> Option<String> {
        let (checks, objects) = seen;
        let after = Arc::new(object.clone());
        let before = objects.insert(path.into(), after.clone());
        let change = Change { at: Instant::now(), by: by.into(), path: path.into(), before, after: Some(after) };
        checks.written(&change, objects)
    }

    #[test]
    fn a_leader_with_other_override_values_is_the_cause_of_one_revision() {
        let (mut checks, mut objects) = (Checks::new(), Objects::new());
        (checks.elects, checks.is_mixed) = (true, true);
        let resource = names::resource("a");
        let record = |revision: u32| format!("/api/v1/namespaces/default/secrets/sh.helm.release.v1.a.v{revision}");
        let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/operator";
        let holder = |name: &str| json!({"spec": {"holderIdentity": format!("{name}_1")}});
        let deployed = json!({"metadata": {"labels": {"status": "deployed"}}});
        for (by, path, object, is_allowed) in [
            ("op-0", lease, &holder("op-0"), true),
            ("person", &*resource, &json!({"spec": {"cache": true}}), true),
            ("op-0", &*record(1), &deployed, true),
            ("op-1", lease, &holder("op-1"), true),
            ("op-1", &*record(2), &deployed, true),
            ("op-1", &*record(3), &deployed, false),
        ] {
            let found = write((&mut checks, &mut objects), by, path, object);
            let is_right = found.as_ref().is_none_or(|found| !is_allowed && found.starts_with("(f) revision 3 of a"));
            assert!(is_right && found.is_none() == is_allowed, "{path}: {found:?}");
        }
    }
}
