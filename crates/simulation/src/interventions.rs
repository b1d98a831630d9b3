//! A person who intervenes: pauses, suspends or pins a release, asks for a retry, or removes the operator's finalizer. Also
//! what the checks know of that.

use serde_json::Value;

use crate::checks::{Checks, Resource};
use crate::draw;
use crate::hooks::Trouble;
use crate::process::Setup;
use crate::script::{Action, Script};
use crate::stories::{later, with_service};
use crate::world::{Change, is_going};

/// Leaves the release alone, even if its resource is deleted.
const PAUSE: &str = "helm.sdk.operatorframework.io/pause";

/// Leaves the release alone while its resource exists.
const SUSPEND: &str = "helm.sdk.operatorframework.io/suspend";

/// Returns the release to a revision.
const PIN: &str = "helm.sdk.operatorframework.io/pin";

/// Ends the waits after a failure.
const RETRY: &str = "helm.sdk.operatorframework.io/retry-now";

/// Tells a story about a person who intervenes in some scripts, instead of theirs.
pub fn add(random: &mut fastrand::Rng, script: &mut Script) {
    let story = match random.u8(0..32) {
        0 => left_alone,
        1 => pinned,
        2 => retried,
        3 => freed,
        _ => return,
    };
    script.steps.clear();
    script.setups = vec![Setup { period: random.choice([60, 10, 0]).unwrap_or(60), ..Setup::default() }];
    story(random, script);
}

/// Adds a story: a release is paused or suspended, maybe in the middle of an action, while other things happen to it.
fn left_alone(random: &mut fastrand::Rng, script: &mut Script) {
    let key = random.choice([PAUSE, SUSPEND]).unwrap_or(PAUSE);
    script.then(0, with_service(random, "a"));
    let after = if random.bool() { random.u64(0..8000) } else { later(random) };
    script.then(after, Action::Annotate("a".into(), key.into(), "true".into()));
    for _ in 0..random.usize(1..4) {
        let what = match random.u8(0..6) {
            0..2 => with_service(random, "a"),
            2 => Action::Delete("a".into(), String::new()),
            3 => Action::Kill(0, random.u64(0..3000)),
            _ => Action::Disturb(draw::object(random, "a")),
        };
        script.then(random.u64(0..10_000), what);
    }
    script.then(random.u64(0..20_000), Action::Unannotate("a".into(), key.into()));
}

/// Adds a story: a release returns to its first revision, maybe in the middle of an upgrade, and later follows its
/// resource again.
fn pinned(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    script.then(later(random), with_service(random, "a"));
    let after = if random.bool() { random.u64(0..8000) } else { later(random) };
    script.then(after, Action::Annotate("a".into(), PIN.into(), "1".into()));
    if random.bool() {
        script.then(random.u64(0..8000), with_service(random, "a"));
    }
    if random.bool() {
        script.then(random.u64(0..3000), Action::KillAfter(0, random.u64(1..10), random.u64(0..3000)));
    }
    let after = if random.bool() { random.u64(0..8000) } else { later(random) };
    script.then(after, Action::Unannotate("a".into(), PIN.into()));
}

/// Adds a story: the retries are used up because a hook failed, and a person asks for another one.
fn retried(random: &mut fastrand::Rng, script: &mut Script) {
    let watch = random.choice(["retries: 1", "retries: 1\nonFailure: keep"]).unwrap_or_default();
    script.configure(|setup| setup.add(watch));
    script.then(0, Action::Hooks(Trouble::Fails, random.u64(5000..30_000)));
    let mut put = with_service(random, "a");
    if let Action::Put(_, values) = &mut put {
        values["hooks"] = true.into();
    }
    script.then(random.u64(0..1000), put);
    for token in 0..random.u8(1..4) {
        script.then(random.u64(1000..40_000), Action::Annotate("a".into(), RETRY.into(), token.to_string()));
    }
}

/// Adds a story: a person removes the operator's finalizer before or after the deletion of a resource, or alone.
fn freed(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    let after = if random.bool() { random.u64(0..8000) } else { later(random) };
    let (free, delete) = (Action::Free("a".into()), Action::Delete("a".into(), String::new()));
    let (first, second) = if random.bool() { (free, delete) } else { (delete, free) };
    script.then(after, first);
    if random.u8(0..4) > 0 {
        script.then(random.u64(0..1500), second);
    }
    if random.bool() {
        script.then(random.u64(0..3000), with_service(random, "b"));
    }
}

/// Records what a person does to a resource beside its values.
pub(crate) fn note(checks: &mut Checks, action: &Action) {
    match action {
        Action::Free(name) => checks.resources.entry(name.clone()).or_default().is_freed = true,
        // Each may interrupt an action, and is the cause of another revision.
        Action::Annotate(name, key, _) | Action::Unannotate(name, key) if key == PIN => {
            checks.resources.entry(name.clone()).or_default().causes += 2;
        }
        _ => {}
    }
}

/// Returns whether the removal of a resource leaves objects: a person removed the operator's finalizer, and the chart has a
/// hook for the deletion, so that its objects have no owner reference (0050).
pub(crate) fn leaves_objects(resource: &Resource, change: &Change) -> bool {
    resource.is_freed && change.before.as_ref().is_some_and(|last| last["spec"]["farewell"] == true)
}

/// Returns whether annotations say that a release need not match its resource: it is left alone, or pinned. Only a pause
/// also delays a deletion.
pub(crate) fn is_left_alone(resource: &Value) -> bool {
    let has = |key: &str| resource["metadata"]["annotations"][key].is_string();
    has(PAUSE) || !is_going(resource) && (has(SUSPEND) || has(PIN))
}
