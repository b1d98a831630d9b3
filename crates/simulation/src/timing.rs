//! Stories about timing: what is late, lost or repeated while something else happens. Some scripts are such a story
//! alone, others end with the story that they have.

use crate::draw;
use crate::faults::{Fault, How, Which};
use crate::script::{Action, Script, Step};
use crate::stories::{later, with_service};

/// Adds such a story to some scripts, and lets others end where their story ends, so that nothing that follows heals
/// what it broke. `last` is the last step of that story.
pub fn add(random: &mut fastrand::Rng, script: &mut Script, last: Option<&Step>) {
    let story = match random.u8(0..16) {
        0 => unnoticed_record,
        1 => unnoticed_change,
        2 => repeated_and_restored,
        3..7 => return end_with(script, last),
        _ => return,
    };
    script.steps.clear();
    story(random, script);
    if random.u8(0..3) == 0 {
        draw::go_on(random, script);
    }
}

/// Drops what comes after this step, unless the script has another story now.
fn end_with(script: &mut Script, last: Option<&Step>) {
    if let Some(last) = last.filter(|last| script.steps.contains(last)) {
        script.steps.retain(|step| step.at_ms <= last.at_ms);
    }
}

/// Lets the events of objects and records be late for a while, but not those of resources.
fn lag(random: &mut fastrand::Rng) -> Action {
    Action::Fault(Fault::new(Which::ObjectWatches, How::Slow(random.u64(500..4000)), random.u64(5000..30_000)))
}

/// Adds a story: the answer to one write of a record is lost, and its event is late. Meanwhile, something else happens,
/// or nothing.
fn unnoticed_record(random: &mut fastrand::Rng, script: &mut Script) {
    let mut after = 0;
    if random.bool() {
        script.then(0, with_service(random, "a"));
        after = later(random);
    }
    script.then(after, lag(random));
    let nth = random.choice([1, 1, 2, 3, 4, 4, 5]).unwrap_or(1);
    script.then(0, Action::Fault(Fault { nth, ..Fault::new(Which::RecordWrites, How::AnswerLost, 20_000) }));
    script.then(0, with_service(random, "a"));
    let after = if random.bool() { random.u64(0..300) } else { random.u64(0..12_000) };
    match random.u8(0..8) {
        0..4 => script.then(after, Action::Delete("a".into(), String::new())),
        4 => script.then(after, with_service(random, "a")),
        5 => script.then(after, Action::Kill(0, random.u64(0..3000))),
        _ => {}
    }
}

/// Adds a story: a person changes or replaces objects, and the events of that are late, while a release is deleted or
/// upgraded.
fn unnoticed_change(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "c"));
    script.then(later(random), lag(random));
    // An upgrade fails for good at an object of another release.
    let is_deleted = random.u8(0..4) > 0;
    for _ in 0..random.usize(1..4) {
        match random.u8(0..4) {
            0..2 => script.then(random.u64(0..50), Action::Keep(draw::object(random, "c"))),
            2 if is_deleted => {
                let object = random.choice(["secrets/c-random", "secrets/c-guarded", "persistentvolumeclaims/c-data"]);
                let object = object.unwrap_or_default();
                script.then(random.u64(0..50), Action::Remove(object.into()));
                script.then(0, Action::Before(object.into(), "b".into()));
            }
            _ => script.then(random.u64(0..50), Action::Note(draw::object(random, "c"), "other".into())),
        }
    }
    let next = if is_deleted { Action::Delete("c".into(), String::new()) } else { draw::put(random, "c") };
    script.then(random.u64(0..1000), next);
}

/// Adds a story: the server turns writes away, which are repeated when it is restored from a backup.
fn repeated_and_restored(random: &mut fastrand::Rng, script: &mut Script) {
    script.then(0, with_service(random, "a"));
    script.then(later(random), Action::Backup);
    // Every watch has seen a later version than the backup's.
    let which = random.choice([Which::Writes, Which::Writes, Which::Secrets, Which::Services]).unwrap_or(Which::Writes);
    let how = How::Status(random.choice([429, 429, 503, 504]).unwrap_or(429));
    let (after, for_ms) = (random.u64(9000..20_000), random.u64(500..3000));
    script.then(after, Action::Fault(Fault::new(which, how, for_ms)));
    let since = match random.u8(0..4) {
        0..2 => Action::Delete("a".into(), String::new()),
        2 => with_service(random, "b"),
        _ => with_service(random, "a"),
    };
    script.then(0, since);
    let away = if random.bool() { random.u64(0..300) } else { random.u64(0..3000) };
    let loading = if random.bool() { 0 } else { random.u64(0..3000) };
    script.then(random.u64(0..for_ms), Action::Restore(away, loading));
    if random.bool() {
        script.then(random.u64(0..20_000), with_service(random, "a"));
    }
}
