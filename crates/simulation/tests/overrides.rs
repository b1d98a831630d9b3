//! Processes with different override values, and restarts with others: at rest, those of the leader count.

use serde_json::json;
use simulation::process::Setup;
use simulation::run::{play, play_kept};
use simulation::script::{Action, Script};

fn setup(watch: &str) -> Setup {
    Setup { watch: watch.into(), ..Setup::default() }
}

/// Returns two configurations with different override values.
fn two() -> [Setup; 2] {
    [
        setup(r#"overrideValues: {"cache": "false", "message": "mo1", "replicas": "3"}"#),
        setup(r#"overrideValues: {"cache": "true", "message": "mo2"}"#),
    ]
}

fn put(message: &str) -> Action {
    Action::Put("a".into(), json!({"message": message, "replicas": 1, "cache": true}))
}

/// Plays a script, and expects no violation.
fn check(script: &Script) {
    let violation = play(script).violation.map(|violation| violation.what);
    assert_eq!(violation, None, "{script}");
}

#[test]
fn the_override_values_of_whichever_process_leads_count() {
    for seed in 1..4 {
        let mut script = Script::new(seed, two().to_vec(), [(5000, put("first"))]);
        // Whichever leads first, the other one does after one of these.
        script.then(60_000, Action::Kill(0, 60_000));
        script.then(100_000, Action::Kill(1, 60_000));
        let (report, steps) = play_kept(&script);
        assert_eq!(report.violation.map(|violation| violation.what), None, "{script}");
        for process in [" op-0 ", " op-1 "] {
            let writes = |step: &String| {
                step.contains(process) && step.contains("PATCH ") && step.contains("/configmaps/a-config")
            };
            assert!(steps.iter().any(writes), "{process} wrote nothing:\n{script}");
        }
    }
}

#[test]
fn a_process_that_loses_the_lease_while_it_works_leaves_the_others_values() {
    for (seed, after) in [(1, 0), (2, 300), (3, 1500), (4, 6000)] {
        // One of them leads. The other one has nothing to lose.
        for process in 0..2 {
            let mut script = Script::new(seed, two().to_vec(), [(5000, put("first"))]);
            script.then(30_000, Action::Stall(process, 25_000));
            script.then(after, put("second"));
            check(&script);
        }
    }
}

#[test]
fn a_restart_with_other_override_values_upgrades_whatever_write_it_dies_at() {
    let [first, second] = two();
    for writes in [1, 2, 4, 6, 8, 11] {
        let mut script = Script::new(writes, vec![first.clone()], [(5000, put("first"))]);
        script.then(30_000, Action::Restart(0, 100, second.clone()));
        script.then(600, Action::KillAfter(0, writes, 500));
        script.then(40_000, Action::Restart(0, 100, setup("")));
        check(&script);
    }
}

/// To the checks, these are no override values, because their key is quoted.
#[test]
fn override_values_that_should_not_be_there_are_found() {
    let watch = r#""overrideValues": {"message": "mo1"}"#;
    let script = Script::new(1, vec![setup(watch)], [(5000, put("first"))]);
    let found = play(&script).violation.map(|violation| violation.what).unwrap_or_default();
    let expected = "configmaps/a-config/data/message is \"mo1\", not \"first\"";
    assert!(found.starts_with("(d) ") && found.ends_with(expected), "{found}");
}
