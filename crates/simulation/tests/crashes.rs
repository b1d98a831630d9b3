//! Processes that die at a write: whichever it was, the next process resumes from there.

use serde_json::json;
use simulation::faults::{Fault, How, Which};
use simulation::process::Setup;
use simulation::run::play;
use simulation::script::{Action, Script, Step};

/// More writes than each action has.
const WRITES: [u64; 3] = [30, 17, 17];

/// Returns a script: an install, an upgrade and an uninstall, one of which ends at its nth write.
fn script(interrupted: usize, writes: u64) -> Script {
    let values = |message| json!({"message": message, "replicas": 1, "cache": true, "hooks": true, "farewell": true});
    let actions = [
        Action::Put("a".into(), values("first")),
        Action::Put("a".into(), values("second")),
        Action::Delete("a".into(), String::new()),
    ];
    let mut script = Script { seed: writes, setups: vec![Setup::default()], steps: Vec::new() };
    for (number, action) in actions.into_iter().enumerate() {
        let at_ms = 60_000 * number as u64 + 5000;
        if number == interrupted {
            script.steps.push(Step { at_ms: at_ms - 1, what: Action::KillAfter(0, writes, 100) });
        }
        script.steps.push(Step { at_ms, what: action });
    }
    script
}

/// Plays every `step`-th of these scripts.
fn check(step: usize, order: impl Fn(&mut Script)) {
    for (interrupted, most) in WRITES.into_iter().enumerate() {
        for writes in (1..=most).step_by(step) {
            let mut script = script(interrupted, writes);
            order(&mut script);
            let violation = play(&script).violation.map(|violation| violation.what);
            assert_eq!(violation, None, "action {interrupted}, write {writes}:\n{script}");
        }
    }
}

#[test]
fn a_crash_after_a_write_resumes() {
    check(2, |_| {});
}

#[test]
fn a_crash_after_any_write_of_an_ordered_chart_resumes() {
    check(1, Script::order);
}

#[test]
fn a_resource_that_is_deleted_while_the_answer_to_its_record_is_lost_leaves_nothing() {
    let values = json!({"message": "first", "replicas": 1, "cache": true, "hooks": true});
    let lost = Fault::new(Which::RecordWrites, How::AnswerLost, 5000);
    // With these seeds, the process notices the deletion before it sees the record.
    for (seed, after) in [(1, 60), (8, 72), (9, 60), (12, 72), (13, 60)] {
        let mut script = Script { seed, setups: vec![Setup::default()], steps: Vec::new() };
        script.then(5000, Action::Put("a".into(), values.clone()));
        script.then(0, Action::Fault(lost.clone()));
        script.then(after, Action::Delete("a".into(), String::new()));
        let violation = play(&script).violation.map(|violation| violation.what);
        assert_eq!(violation, None, "{script}");
    }
}
